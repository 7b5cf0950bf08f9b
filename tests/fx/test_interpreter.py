"""Running graphs step by step, and transforming them (torch.fx.Interpreter, torch.fx.Transformer)."""

import operator
from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.fx.traceback import annotate, annotate_fn, format_stack, preserve_node_meta, set_stack_trace

fx = tt.fx
X = tt.tensor([-1.0, 2.0])


def traced(function: Any) -> fx.GraphModule:
    return fx.symbolic_trace(function)


def test_defaults_and_starred_parameters() -> None:
    assert fx.Interpreter(traced(lambda x, y=5: (x, y))).run(1) == (1, 5)
    assert fx.Interpreter(traced(lambda x, *args: (x, args))).run(1, 2, 3) == (1, [2, 3])
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter y, but one was not"):
        fx.Interpreter(traced(lambda x, y: x)).run(1)


def test_what_kinds_of_steps_do_may_be_changed() -> None:
    class Sums(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu, self.p = nn.ReLU(), nn.Parameter(tt.ones(2))

        def forward(self, x):
            return (self.relu(x) + self.p).exp()

    class Changed(fx.Interpreter):
        def placeholder(self, target, args, kwargs):
            return super().placeholder(target, args, kwargs) * 2

        def call_module(self, target, args, kwargs):
            assert isinstance(self.submodules[target], nn.ReLU)
            return super().call_module(target, args, kwargs) + 1

        def get_attr(self, target, args, kwargs):
            return 10 * super().get_attr(target, args, kwargs)

        def call_function(self, target, args, kwargs):
            return super().call_function(operator.sub, args, kwargs)

        def call_method(self, target, args, kwargs):
            return args[0]

        def output(self, target, args, kwargs):
            return [super().output(target, args, kwargs)]

    assert [each.tolist() for each in Changed(traced(Sums())).run(X)] == [[-9.0, -5.0]]


def test_values_go_after_their_last_use() -> None:
    module = traced(lambda x: (x + 1).exp())
    x, add, exp, output = module.graph.nodes
    kept = fx.Interpreter(module, garbage_collect_values=False)
    kept.run(X)
    assert list(kept.env) == [x, add, exp, output]
    collecting = fx.Interpreter(module)
    collecting.run(X)
    assert list(collecting.env) == [output]


def test_known_values_are_not_computed() -> None:
    module = traced(lambda x: (x + 1).exp())
    _, add, *_ = module.graph.nodes
    assert fx.Interpreter(module).run(None, initial_env={add: tt.zeros(1)}).tolist() == [1.0]


def test_another_graph_of_the_module_may_be_run() -> None:
    graph = traced(lambda x: x * 5).graph
    assert fx.Interpreter(nn.Module(), graph=graph).run(2) == 10


def test_boxed_run_empties_the_list() -> None:
    module = traced(lambda x, y: x + y)
    args = [1, 2]
    assert (fx.Interpreter(module).boxed_run(args), args) == (3, [])
    with pytest.raises(RuntimeError, match=r"expected 2 arguments .* received 1 \(missing arguments\)"):
        fx.Interpreter(module).boxed_run([1])


def test_an_error_says_which_step_it_was() -> None:
    with pytest.raises(RuntimeError, match=r"The size[^%]*While executing %add : .*\n.*Original traceback"):
        fx.Interpreter(traced(lambda x, y: x + y)).run(tt.ones(2), tt.ones(3))
    with pytest.raises(RuntimeError, match="While executing %getitem"):
        fx.Interpreter(traced(lambda x: x["k"])).run({})
    plain = fx.Interpreter(traced(lambda x: x["k"]))
    plain.extra_traceback = False
    with pytest.raises(KeyError):
        plain.run({})


def test_errors_of_the_graph() -> None:
    module = traced(nn.Sequential(nn.ReLU()))
    del module._modules["0"]
    with pytest.raises(RuntimeError, match="Node referenced nonexistent target 0"):
        fx.Interpreter(module).run(X)
    graph = traced(lambda x: x.exp().log()).graph
    _, exp, log, _ = graph.nodes
    exp.prepend(log)
    with pytest.raises(RuntimeError, match="Node log referenced nonexistent value exp"):
        fx.Interpreter(nn.Module(), graph=graph).run(X)


def test_transform() -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.p = nn.Linear(2, 2), nn.Parameter(tt.ones(2))

        def forward(self, x, y=1.0):
            return {"k": [tt.relu(self.linear(x) + self.p), y]}

    class Softmaxes(fx.Transformer):
        def call_function(self, target, args, kwargs):
            if target is tt.relu:
                return tt.softmax(*args, dim=-1)
            return super().call_function(target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return super().call_method(target, args, kwargs)

    model = Model()
    made = Softmaxes(traced(model)).transform()
    assert [node.name for node in made.graph.nodes] == ["x", "y", "linear", "p", "add", "softmax", "output"]
    result = made(X)["k"]
    assert result[0].equal((model.linear(X) + model.p).softmax(-1))
    assert made.graph.find_nodes(op="call_function", target=tt.softmax)[0].kwargs == {"dim": -1}
    assert (result[1], made.p is model.p) == (1.0, True)


def test_transform_keeps_meta() -> None:
    module = traced(lambda x: x.exp())
    for node in module.graph.nodes:
        node.meta.update(custom=node.name, stack_trace=f"at {node.name}")
    made = fx.Transformer(module).transform()
    assert [(n.meta.get("custom"), n.stack_trace) for n in made.graph.nodes][1:] == [
        ("exp", "at exp"),
        ("output", "at output"),
    ]


def test_annotations_nest() -> None:
    @annotate_fn({"b": 2})
    def inner(x):
        return x + 1

    def program(x):
        with annotate({"a": 1}):
            x = inner(x * 2)
        return x - 1

    with preserve_node_meta():
        set_stack_trace(["line 1\n", "line 2\n"])
        assert format_stack() == ["line 1\nline 2\n"]
        graph = traced(program).graph
    _, mul, add, sub, _ = graph.nodes
    assert [node.meta.get("custom") for node in (mul, add, sub)] == [{"a": 1}, {"a": 1, "b": 2}, None]
    assert mul.stack_trace == "line 1\nline 2\n"
    assert "custom" not in list(traced(program).graph.nodes)[1].meta
