"""Formulas of special functions, and of those that take numbers apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn

from ...generated import functions as ops
from .pointwise import conjugated

if TYPE_CHECKING:
    from ...tensor import Tensor


def sgn_backward(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """Nothing for real numbers; of complex ones what turns them: (grad - re(grad conj(sgn)) sgn) / |self|.

    With a tangent for the gradient it is the tangent of the result.
    """
    if not self._spec.dtype.is_complex:
        return ops.zeros_like(grad)
    size = ops.abs(self)
    along = (conjugated(grad) * result).real
    return ops.where(size == 0, 0.0, (grad - along * result) / size)


def copysign_backward(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """grad with the sign that the result took; zero at zero."""
    return ops.where(self == 0, 0, grad * (result / self))


def xlogy_backward(grad: Tensor, self: Tensor, other: Tensor | float) -> Tensor:
    """grad * log(other), zero where `self` is and the logarithm has no number."""
    return ops.masked_fill(ops.xlogy(grad, other), _both(self == 0, other <= 0), 0)


def xlog1py_backward(grad: Tensor, self: Tensor, other: Tensor | float) -> Tensor:
    """grad * log(1 + other), zero where `self` is and the logarithm has no number."""
    return ops.masked_fill(ops.special_xlog1py(grad, other), _both(self == 0, other <= -1), 0)


def _both(mask: Tensor, condition: Tensor | bool) -> Tensor:
    """`mask` where a condition holds, which is one for all elements if it is a number's."""
    return mask & condition


def logit_backward(grad: Tensor, self: Tensor, eps: float | None) -> Tensor:
    """The gradient of `logit`, as an operator."""
    return ops.logit_backward(grad, self, eps)


def logit_double_backward(grad: Tensor, self: Tensor, eps: float | None) -> Tensor:
    """grad times the second derivative of `logit`: (2 x - 1) / (x (1 - x))^2 within the bounds."""
    square = self * (1 - self)
    slope = (2 * self - 1) / (square * square)
    low, high = (0.0, 1.0) if eps is None else (eps, 1.0 - eps)
    inside = ops.logical_and(self >= low, self <= high)
    return ops.where(inside, grad * slope, math.nan if eps is None else 0.0)


def sinc_backward(grad: Tensor, self: Tensor) -> Tensor:
    """grad * (cos(pi x) pi x - sin(pi x)) / (pi x^2), and zero at zero."""
    angle = self * math.pi
    square = angle * self
    slope = (ops.cos(angle) * angle - ops.sin(angle)) / square
    return grad * conjugated(ops.where(square == 0, 0, slope))


def incomplete_gamma_slope(self: Tensor, other: Tensor) -> Tensor:
    """The derivative of the lower incomplete gamma function: x^(a - 1) exp(-x) / gamma(a)."""
    return ops.exp((self - 1) * ops.log(other) - other - ops.lgamma(self))


def i1_slope(self: Tensor, result: Tensor) -> Tensor:
    """i0(x) - i1(x) / x, 1/2 at zero."""
    small = ~(ops.abs(self) > spacing_at_one(self))
    safe = ops.where(small, spacing_at_one(self), self)
    return ops.where(small, 0.5, ops.i0(safe) - result / safe)


def i1e_slope(self: Tensor, result: Tensor) -> Tensor:
    """i0e(x) - i1e(x) (sgn(x) + 1 / x), 1/2 at zero."""
    small = ~(ops.abs(self) > spacing_at_one(self))
    safe = ops.where(small, spacing_at_one(self), self)
    return ops.where(small, 0.5, ops.special_i0e(safe) - result * (ops.sign(safe) + ops.reciprocal(safe)))


def spacing_at_one(self: Tensor) -> float:
    """The spacing of numbers at 1 in a tensor's dtype."""
    return 2.220446049250313e-16 if self._spec.dtype.itemsize == 8 else 1.1920929e-07


def underivable(argument: str) -> NoReturn:
    """Raise for an operator, or an argument of one, that has no derivative."""
    raise NotImplementedError(f"the derivative for '{argument}' is not implemented.")
