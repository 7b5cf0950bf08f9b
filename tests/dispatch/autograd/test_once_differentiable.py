"""`once_differentiable`: backward records no graph, and its derivative is an error."""

import pytest

import triten as tt
from triten.autograd.function import Function, FunctionCtx, InplaceFunction, once_differentiable


class Square(Function):
    @staticmethod
    def forward(ctx, x, y):
        assert isinstance(ctx, FunctionCtx)
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        assert not tt.is_grad_enabled()
        return 2 * x * grad, None


def test_the_first_derivative_is_computed_without_a_graph(device: str) -> None:
    x = tt.tensor([3.0], device=device, requires_grad=True)
    Square.apply(x, 1).backward()
    assert x.grad.tolist() == [6.0]


def test_the_second_derivative_is_refused(device: str) -> None:
    x = tt.tensor([3.0], device=device, requires_grad=True)
    (first,) = tt.autograd.grad(
        Square.apply(x, 1), x, tt.ones(1, device=device, requires_grad=True), create_graph=True
    )
    assert first.tolist() == [6.0]
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with"):
        first.backward()


def test_a_gradient_that_needs_none_may_have_a_graph_asked_for() -> None:
    x = tt.tensor([3.0], requires_grad=True)
    (first,) = tt.autograd.grad(Square.apply(x, 1), x, create_graph=True)
    assert first.tolist() == [6.0] and not first.requires_grad


def test_whether_a_function_writes_in_place_is_kept() -> None:
    assert InplaceFunction(True).inplace and not InplaceFunction().inplace


def test_the_derivative_of_a_pull_back_is_refused() -> None:
    class Cube(Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad

    x = tt.tensor(2.0, requires_grad=True)
    _, pull_back = tt.func.vjp(Cube.apply, x)
    (grad,) = pull_back(tt.tensor(1.0, requires_grad=True))
    assert grad.item() == 12.0
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        grad.backward()
