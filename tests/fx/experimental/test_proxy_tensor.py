"""Graphs of operators as modules (torch.fx.experimental.proxy_tensor.make_fx)."""

from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.fx.experimental.proxy_tensor import make_fx


def code(module: tt.fx.GraphModule) -> list[str]:
    return [line.strip() for line in module.code.strip().splitlines() if line.strip()]


def test_operators_become_nodes() -> None:
    module = make_fx(lambda x, n: (x * n, [tt.cat([x, x]).sum(0)]))(tt.ones(2), 3)
    assert code(module) == [
        "def forward(self, x_1, n_1):",
        "mul = triten.ops.aten.mul.Tensor(x_1, 3)",
        "cat = triten.ops.aten.cat.default([x_1, x_1]);  x_1 = None",
        "sum_1 = triten.ops.aten.sum.dim_IntList(cat, [0]);  cat = None",
        "return (mul, [sum_1])",
    ]
    product, (total,) = module(tt.full((2,), 2.0), 3)
    assert (product.tolist(), total.item()) == ([6.0, 6.0], 8.0)
    meta = module.graph.find_nodes(op="call_function", target=tt.ops.aten.mul.Tensor)[0].meta["tensor_meta"]
    assert (meta.shape, meta.dtype, meta.memory_format) == (tt.Size([2]), tt.float32, tt.contiguous_format)


def test_containers_are_taken_apart() -> None:
    module = make_fx(lambda d: {"o": d["a"] + d["b"][0]})({"a": tt.ones(2), "b": [tt.ones(2)]})
    assert code(module) == [
        "def forward(self, d):",
        "d_1, d_2, = fx_pytree.tree_flatten_spec([d], self._in_spec)",
        "add = triten.ops.aten.add.Tensor(d_1, d_2);  d_1 = d_2 = None",
        "return pytree.tree_unflatten([add], self._out_spec)",
    ]
    assert module({"a": tt.ones(2), "b": [tt.zeros(2)]})["o"].tolist() == [1.0, 1.0]


def test_tensors_from_outside_become_attributes() -> None:
    layer, held = nn.Linear(2, 2), tt.ones(2)
    module = make_fx(lambda x: x + layer.bias + held)(tt.ones(2))
    assert [node.target for node in module.graph.find_nodes(op="get_attr")] == [
        "_param_constant0",
        "_tensor_constant1",
    ]
    assert (module._param_constant0 is layer.bias, module._tensor_constant1 is held) == (True, True)
    assert module(tt.zeros(2)).equal(layer.bias + 1)


def test_the_result_is_rewritten_like_any_graph() -> None:
    module = make_fx(lambda x: tt.relu(x) + 1)(tt.ones(2))
    relu, exp = tt.ops.aten.relu.default, tt.ops.aten.exp.default
    tt.fx.replace_pattern(module, lambda a: relu(a), lambda a: exp(a))
    assert module(tt.zeros(1)).tolist() == [2.0]


def test_gradients_are_operators() -> None:
    module = make_fx(lambda x: tt.autograd.grad(x.sin().sum(), x)[0])(tt.ones(2, requires_grad=True))
    assert len(module.graph.find_nodes(op="call_function", target=tt.ops.aten.cos.default)) == 1
    tt.testing.assert_close(module(tt.zeros(2)), tt.ones(2))


def test_a_decomposition_table_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="register a kernel at the dispatch key Tracer"):
        make_fx(lambda x: x, {tt.ops.aten.relu.default: tt.exp})


def test_the_annotation_of_the_result_is_kept() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return x + 1

    def of_several(*x: tt.Tensor) -> tt.Tensor:
        return x[0] + 1

    f.__annotations__["return"] = of_several.__annotations__["return"] = tt.Tensor
    assert code(make_fx(f)(tt.ones(2)))[0] == "def forward(self, x_1) -> triten.Tensor:"
    assert (
        code(make_fx(tt.func.functionalize(f))(tt.ones(2)))[0] == "def forward(self, x_1) -> triten.Tensor:"
    )
    assert "->" not in make_fx(of_several)(tt.ones(2)).code


def _nested(x: Any, use_sine: Any, squared: Any) -> Any:
    def true_fn(x: Any, squared: Any) -> Any:
        return x.sin() + tt.cond(squared, lambda y: y * y, lambda y: y + y, (x,))

    return tt.cond(use_sine, true_fn, lambda x, _: x.cos(), (x, squared))


@pytest.mark.parametrize("tracing_mode", ["real", "fake"])
def test_both_branches_of_a_condition_are_recorded(tracing_mode: str) -> None:
    no, yes = tt.tensor(False), tt.tensor(True)
    module = make_fx(_nested, tracing_mode=tracing_mode)(tt.zeros(3), no, no)
    x = tt.tensor([0.5, -1.0, 2.0])
    for squared, added in ((yes, x * x), (no, x + x)):
        assert tt.equal(module(x, yes, squared), x.sin() + added)
        assert tt.equal(module(x, no, squared), x.cos())
    assert "cond(use_sine_1, true_graph_0, false_graph_0, [x_1, squared_1])" in module.code
    targets = [node.target for node in module.false_graph_0.graph.nodes if node.op == "call_function"]
    assert targets == [tt.ops.aten.cos.default]


def test_branches_keep_the_structure_of_their_results() -> None:
    def f(x: Any) -> Any:
        return tt.cond(x.sum() > 0, lambda x: {"a": x + 1, "b": [x]}, lambda x: {"a": x, "b": [-x]}, [x])

    module = make_fx(f)(tt.ones(2))
    assert module(-tt.ones(2))["b"][0].tolist() == [1.0, 1.0]
    assert module(tt.ones(2))["a"].tolist() == [2.0, 2.0]
    again = make_fx(tt.func.functionalize(module))(tt.ones(2))
    assert again(-tt.ones(2))["b"][0].tolist() == [1.0, 1.0]
    assert make_fx(lambda x: tt.cond(x.numel() == 2, tt.sin, tt.cos, [x]))(x := tt.ones(2))(-x).tolist() == (
        (-x).sin().tolist()
    )


@pytest.mark.parametrize(
    ("true_fn", "false_fn", "text"),
    [
        (lambda x: x[:1].add_(1), lambda x: x[:1], "true_fn might be modifying the input"),
        (tt.sin, lambda x: (x, x), "expected the branches to return the same structure"),
        (lambda x: x[:1] + 1, tt.cos, "Unmatched tensor metadata.*sizes"),
        (lambda x: x.double(), tt.cos, "Unmatched tensor metadata.*dtype"),
        (tt.sin, lambda x: 3, "expected false_fn to return tensors, got int"),
    ],
)
def test_branches_that_a_graph_cannot_hold_are_refused(true_fn: Any, false_fn: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        make_fx(lambda x: tt.cond(x.sum() > 0, true_fn, false_fn, (x,)))(tt.ones(2))


def test_a_branch_takes_values_of_the_recording_as_operands() -> None:
    with pytest.raises(RuntimeError, match=r"true_fn closes over a tensor.*pass it in `operands`"):
        make_fx(lambda x: tt.cond(x.sum() > 0, lambda: x + 1, lambda: tt.ones(2)))(tt.ones(2))
    weight = tt.tensor([2.0, 3.0])
    module = make_fx(lambda x: tt.cond(x.sum() > 0, lambda x: x * weight, lambda x: x, (x,)))(tt.ones(2))
    assert module(tt.ones(2)).tolist() == [2.0, 3.0]
    with pytest.raises(RuntimeError, match="holds no gradient of a condition"):
        make_fx(lambda x: tt.cond(x.sum() > 0, tt.sin, tt.cos, (x,)))(tt.ones(2, requires_grad=True))
