"""Patterns in graphs, and what they are replaced by (torch.fx.replace_pattern)."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.fx.passes.utils.fuser_utils import validate_partition
from triten.fx.passes.utils.matcher_utils import SubgraphMatcher
from triten.fx.subgraph_rewriter import replace_pattern_with_filters

fx = tt.fx


def code(module: fx.GraphModule) -> list[str]:
    return [line.strip() for line in module.code.strip().splitlines()[1:] if line.strip()]


def both(a, b):
    return a + b, a - b


@pytest.mark.parametrize(
    ("program", "pattern", "replacement", "count", "expected"),
    [
        (
            lambda x: tt.relu(x + 1) + tt.relu(x * 2),
            lambda a: tt.relu(a),
            lambda a: tt.exp(a),
            2,
            [
                "add = x + 1",
                "mul = x * 2;  x = None",
                "exp = triten.exp(add);  add = None",
                "exp_1 = triten.exp(mul);  mul = None",
                "add_1 = exp + exp_1;  exp = exp_1 = None",
                "return add_1",
            ],
        ),
        (
            lambda x: x.relu().relu().relu(),
            lambda a: a.relu().relu(),
            lambda a: a.tanh(),
            1,
            ["tanh = x.tanh();  x = None", "relu_2 = tanh.relu();  tanh = None", "return relu_2"],
        ),
        (
            lambda x, y: (x + y) * (x - y),
            both,
            lambda a, b: (a * b, a / b),
            1,
            [
                "mul_1 = x * y",
                "truediv = x / y;  x = y = None",
                "mul = mul_1 * truediv;  mul_1 = truediv = None",
                "return mul",
            ],
        ),
        (
            lambda x: tt.add(x, 3),
            lambda a, b: tt.add(a, b),
            lambda a, b: tt.sub(a, b),
            1,
            ["sub = triten.sub(x, 3);  x = None", "return sub"],
        ),
    ],
)
def test_patterns_are_replaced(
    program: Callable[..., Any],
    pattern: Callable[..., Any],
    replacement: Callable[..., Any],
    count: int,
    expected: list[str],
) -> None:
    module = fx.symbolic_trace(program)
    assert len(fx.replace_pattern(module, pattern, replacement)) == count
    assert code(module) == expected
    module.graph.lint()


@pytest.mark.parametrize(
    ("program", "pattern"),
    [
        (lambda x: tt.add(x, 3), lambda a: tt.add(a, 4)),
        (lambda x: tt.add(x, 3), lambda a: tt.add(a, 3.0)),
        (lambda x: tt.add(x, other=3), lambda a: tt.add(a, 3)),
        (lambda x: tt.add(x, x * 2), lambda a: tt.add(a, a)),
        (lambda x: (y := x.exp()) + y.sum(), lambda a: a.exp().sum()),
        (lambda x: x[0], lambda a: a[1]),
    ],
)
def test_what_differs_stays(program: Callable[..., Any], pattern: Callable[..., Any]) -> None:
    module = fx.symbolic_trace(program)
    before = module.code
    assert fx.replace_pattern(module, pattern, lambda a: a) == []
    assert module.code == before


def test_a_match_names_the_nodes() -> None:
    module = fx.symbolic_trace(lambda x: (x * 2).exp().log())
    (match,) = fx.replace_pattern(module, lambda a: a.exp().log(), lambda a: a.relu())
    assert match.anchor.name == "log"
    assert {str(key): str(value) for key, value in match.nodes_map.items()} == {
        "a": "mul",
        "exp": "exp",
        "log": "log",
    }


def test_places_that_follow_each_other_are_replaced() -> None:
    module = fx.symbolic_trace(lambda x: (x.exp() + 1).exp() + 1)
    fx.replace_pattern(module, lambda a: a.exp() + 1, lambda a: a.log())
    assert code(module) == [
        "log = x.log();  x = None",
        "log_1 = log.log();  log = None",
        "return log_1",
    ]


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.r = nn.Linear(2, 2), nn.ReLU()

    def forward(self, x):
        return self.r(self.l(x))


class Tanh(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.Tanh()
        self.scale = nn.Parameter(tt.full((2,), 2.0))

    def forward(self, x):
        return self.t(x) * self.scale


def test_modules_replace_modules_with_their_attributes() -> None:
    module, replacement = fx.symbolic_trace(Linear()), fx.symbolic_trace(Tanh())
    fx.replace_pattern(module, fx.symbolic_trace(Linear()), replacement)
    assert [name for name, _ in module.named_modules()] == ["", "t"]
    assert module(tt.zeros(2)).tolist() == [0.0, 0.0]
    assert module.scale is not replacement.scale
    assert module.scale.tolist() == [2.0, 2.0]


def test_attributes_that_nobody_has_are_an_error() -> None:
    module = fx.symbolic_trace(Linear())
    replacement = fx.symbolic_trace(Tanh())
    del replacement.t
    with pytest.raises(RuntimeError, match="the referenced attribute does not exist"):
        fx.replace_pattern(module, fx.symbolic_trace(Linear()), replacement)


def test_filters_and_literals() -> None:
    module = fx.symbolic_trace(lambda x: tt.add(tt.add(x, 3), 4))
    replaced = replace_pattern_with_filters(
        module,
        lambda a: tt.add(a, 0),
        lambda a: tt.mul(a, 10),
        match_filters=[lambda match, graph, pattern: match.returning_nodes[0].args[1] == 4],
        ignore_literals=True,
    )
    assert [each.name for each in replaced[0].replacements] == ["mul"]
    assert code(module)[:2] == [
        "add = triten.add(x, 3);  x = None",
        "mul = triten.mul(add, 10);  add = None",
    ]


def test_the_replacement_may_depend_on_the_place() -> None:
    def times(match, graph, pattern):
        number = match.nodes_map[pattern.find_nodes(op="placeholder")[1]]
        return fx.symbolic_trace(lambda a, b: a * (number * 100)).graph

    module = fx.symbolic_trace(lambda x: x + 3)
    replace_pattern_with_filters(module, lambda a, b: a + b, replacement_callback=times)
    assert module(2) == 600
    with pytest.raises(AssertionError, match="Must provide either a replacement"):
        replace_pattern_with_filters(module, lambda a, b: a * b)


def test_numbers_of_inputs_and_results_agree() -> None:
    with pytest.raises(AssertionError, match="the pattern has 1 inputs, the replacement 2"):
        fx.replace_pattern(fx.symbolic_trace(lambda x: x.exp()), lambda a: a.exp(), lambda a, b: a)
    with pytest.raises(AssertionError, match="the pattern has 1 results, the replacement 2"):
        fx.replace_pattern(fx.symbolic_trace(lambda x: x.exp()), lambda a: a.exp(), lambda a: (a, a))


def test_a_pattern_is_a_live_graph() -> None:
    with pytest.raises(ValueError, match="empty pattern"):
        SubgraphMatcher(fx.Graph())
    with pytest.raises(AssertionError, match="dead code"):
        SubgraphMatcher(fx.symbolic_trace(lambda a: (a.exp(), a)[1]).graph)


def test_operators_match_whether_defaults_are_given_or_not() -> None:
    add = tt.ops.aten.add.Tensor
    module = fx.symbolic_trace(lambda x: add(x, x, alpha=1))
    assert len(fx.replace_pattern(module, lambda a, b: add(a, b), lambda a, b: a)) == 0
    module = fx.symbolic_trace(lambda x, y: add(x, y, alpha=1))
    assert len(fx.replace_pattern(module, lambda a, b: add(a, b), lambda a, b: a)) == 1


def test_a_partition_has_no_way_out_and_back() -> None:
    _, exp, relu, add, _ = fx.symbolic_trace(lambda x: (y := x.exp()) + y.relu()).graph.nodes
    assert validate_partition([exp, relu, add])
    assert not validate_partition([exp, add])
