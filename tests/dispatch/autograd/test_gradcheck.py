"""`gradcheck` and `gradgradcheck`: they pass what is right, and find what is wrong."""

from typing import Any

import pytest

import triten as tt
from triten.autograd import Function, GradcheckError, gradcheck, gradgradcheck


def double(*values: float) -> tt.Tensor:
    return tt.tensor(values or (0.5, -1.5, 2.0), dtype=tt.float64).requires_grad_()


def square() -> tt.Tensor:
    return tt.tensor([[0.5, -1.5], [2.0, 0.25]], dtype=tt.float64).requires_grad_()


class Doubled(Function):
    """Right in forward; its gradient is `factor` times what it should be."""

    factor = 1

    @classmethod
    def apply_with(cls, x: Any, factor: int) -> Any:
        return cls.apply(x, factor)

    @staticmethod
    def forward(ctx: Any, x: Any, factor: int) -> Any:
        ctx.factor = factor
        return x + x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        total = grad + grad
        for _ in range(ctx.factor - 1):
            total = total + grad
        return total, None


class Squared(Function):
    """x x; the gradient of its gradient forgets that x varies."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.mm(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        x = x.detach()
        return grad.mm(x.t()) + x.t().mm(grad)


def test_right_gradients_pass() -> None:
    assert gradcheck(lambda x: x.relu(), double())
    assert gradcheck(lambda x, y: x.mm(y) + x, (square(), square()))
    assert gradcheck(lambda x, y: (x.relu(), x + y), (double(), double()))
    assert gradcheck(lambda x: Doubled.apply(x, 1), double())
    assert gradgradcheck(lambda x: x.mm(x), square())


def test_a_wrong_gradient_is_found() -> None:
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(lambda x: Doubled.apply(x, 2), double())
    assert gradcheck(lambda x: Doubled.apply(x, 2), double(), raise_exception=False) is False


def test_a_wrong_second_gradient_is_found() -> None:
    assert gradcheck(Squared.apply, square())
    with pytest.raises(GradcheckError):
        gradgradcheck(Squared.apply, square())


def test_the_output_and_input_are_named() -> None:
    with pytest.raises(GradcheckError, match="output 1 with respect to input 1"):
        gradcheck(lambda x, y: (x + y, x + Doubled.apply(y, 2)), (double(), double()))


def test_a_gradient_that_never_arrives_is_found() -> None:
    with pytest.raises(GradcheckError):
        gradcheck(lambda x: x + x.detach(), double())


def test_inputs_that_do_not_require_grad_and_other_values_pass_through() -> None:
    assert gradcheck(lambda x, c, n: (x + c).sum(n), (square(), tt.ones(2, 2, dtype=tt.float64), 1))


def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(ValueError, match="require grad"):
        gradcheck(lambda x: x, tt.ones(2, dtype=tt.float64))
    with pytest.raises(ValueError, match="float64"):
        gradcheck(lambda x: x.relu(), tt.ones(2).requires_grad_())


def test_inputs_are_left_as_they_were() -> None:
    x = double()
    before = x.tolist()
    gradcheck(lambda x: x.relu(), x)
    assert x.tolist() == before
    assert x.grad is None
