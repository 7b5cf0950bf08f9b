"""Graphs of operators as modules (torch.fx.experimental.proxy_tensor.make_fx)."""

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
