"""Attributes of nodes that programs read: saved values, their hooks, metadata, and calls of a node."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.autograd.function import BackwardCFunction
from triten.autograd.graph import Node
from triten.tests.shared.operands import leaf


def test_saved_inputs_and_results() -> None:
    x = leaf()
    product = (x * x).grad_fn
    assert product._saved_self is x and product._saved_other is x
    exp = x.exp()
    saved = exp.grad_fn._saved_result
    assert saved.grad_fn is exp.grad_fn and saved.tolist() == exp.tolist()
    assert {"_saved_self", "_raw_saved_self"} <= set(dir(product))
    with pytest.raises(AttributeError, match="_saved_nothing"):
        product._saved_nothing  # noqa: B018


@pytest.mark.parametrize(
    ("make", "name", "expected"),
    [
        (lambda x: x.sum(1, True), "_saved_dim", (1,)),
        (lambda x: x.sum(1, True), "_saved_keepdim", True),
        (lambda x: x.sum(), "_saved_self_sym_sizes", (2, 3)),
        (lambda x: x * 2, "_saved_self", None),
        (lambda x: tt.layer_norm(x, (3,)), "_saved_weight", None),
        (lambda x: x.max(1).values, "_saved_indices", [1, 1]),
        (lambda x: x[tt.tensor([1])], "_saved_indices", ([1],)),
    ],
)
def test_saved_values_of_an_operator(make: Callable[[Any], Any], name: str, expected: Any) -> None:
    found = getattr(make(tt.tensor([[1.0, 3.0, 2.0]] * 2, requires_grad=True)).grad_fn, name)
    if isinstance(found, tuple) and found and isinstance(found[0], tt.Tensor):
        found = tuple(each.tolist() for each in found)
    assert (found.tolist() if isinstance(found, tt.Tensor) else found) == expected


def test_a_saved_result_without_a_gradient_has_no_history() -> None:
    node = tt.layer_norm(tt.ones(2, 3, requires_grad=True), (3,)).grad_fn
    assert not node._saved_result1.requires_grad


def test_saved_values_are_checked() -> None:
    x = leaf()
    inner = x + 0
    node = (inner * inner).sum().grad_fn.next_functions[0][0]
    inner.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        node._saved_self  # noqa: B018
    product = x * x
    product.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        product.grad_fn._saved_self  # noqa: B018
    with pytest.raises(RuntimeError, match="after it has been freed"):
        product.grad_fn._raw_saved_self.register_hooks(tt.clone, tt.clone)


def test_hooks_of_one_saved_tensor() -> None:
    x = tt.tensor([0.0], requires_grad=True)
    y = x.exp()
    packed = []
    y.grad_fn._raw_saved_result.register_hooks(
        lambda t: packed.append(t.tolist()) or t.numpy(), lambda a: tt.from_numpy(a) * 5
    )
    assert packed == [[1.0]]
    with pytest.raises(RuntimeError, match="have already been set"):
        y.grad_fn._raw_saved_result.register_hooks(tt.clone, tt.clone)
    with pytest.raises(RuntimeError, match="value None"):
        (x * 2).grad_fn._raw_saved_self.register_hooks(tt.clone, tt.clone)
    y.backward()
    assert x.grad.tolist() == [5.0]


def test_hooks_of_the_tensors_of_a_list() -> None:
    x = leaf()
    y = x[tt.tensor([0])]
    (raw,) = y.grad_fn._raw_saved_indices
    raw.register_hooks(lambda i: i, lambda i: i + 1)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]


def test_hooks_of_a_functions_saved_tensors() -> None:
    class Square(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * 2 * x

    x = tt.tensor([3.0], requires_grad=True)
    y = Square.apply(x)
    y.grad_fn._raw_saved_tensors[0].register_hooks(lambda t: t, lambda t: t + 1)
    y.backward()
    assert x.grad.tolist() == [8.0]


def test_metadata_belongs_to_a_node() -> None:
    node = leaf().exp().grad_fn
    node.metadata["a"] = 1
    assert node.metadata == {"a": 1} and leaf().exp().grad_fn.metadata == {}
    (described,) = node._input_metadata
    assert (described.shape, described.dtype, described.device.type) == ((2,), tt.float32, "cpu")
    assert node._sequence_nr() < leaf().exp().grad_fn._sequence_nr()


def test_a_node_is_called_with_gradients() -> None:
    x = tt.tensor([0.0], requires_grad=True)
    node = x.exp().grad_fn
    grad = node(tt.tensor([2.0]))
    assert grad.tolist() == [2.0] and grad.requires_grad
    with tt.no_grad():
        assert not node(tt.tensor([2.0])).requires_grad
    assert node(None) is None
    first, second = (x * 3).grad_fn(tt.ones(1))
    assert first.tolist() == [3.0] and second is None
    accumulate = node.next_functions[0][0]
    assert accumulate(tt.ones(1)) == () and x.grad.tolist() == [1.0]
    with pytest.raises(TypeError, match="expected 1 arguments, got 2"):
        node(tt.ones(1), tt.ones(1))
    with pytest.raises(TypeError, match="argument 0 is not a Variable, got int"):
        node(1)


def test_the_node_of_a_function_has_a_class_of_its_own() -> None:
    class Doubled(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            assert isinstance(ctx, Node)
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            with pytest.warns(DeprecationWarning, match="use 'saved_tensors'"):
                assert len(ctx.saved_variables) == 1
            return grad * 2

    y = Doubled.apply(leaf())
    node = y.grad_fn
    assert type(node).__name__ == node.name() == "DoubledBackward"
    assert type(node) is Doubled._backward_cls and node._forward_cls is Doubled
    assert isinstance(node, BackwardCFunction) and issubclass(BackwardCFunction, Node)
    y.sum().backward()
