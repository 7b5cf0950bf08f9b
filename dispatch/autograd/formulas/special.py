"""Derivative formulas of special functions, and of functions that split numbers into parts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn

from ....runtime.errors import MissingDerivativeError
from ...generated import functions as ops
from .pointwise import conjugated

if TYPE_CHECKING:
    from ...tensor import Tensor


def sgn_backward(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """Return zeros for real numbers, (grad - re(grad conj(sgn)) sgn) / |self| for complex ones.

    With a tangent for `grad`, this is the tangent of the result.
    """
    if not self._spec.dtype.is_complex:
        return ops.zeros_like(grad)
    size = ops.abs(self)
    along = (conjugated(grad) * result).real
    return ops.where(size == 0, 0.0, (grad - along * result) / size)


def copysign_backward(grad: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """Return grad with the sign that the result took; zero at zero."""
    return ops.where(self == 0, 0, grad * (result / self))


def xlogy_backward(grad: Tensor, self: Tensor, other: Tensor | float) -> Tensor:
    """Return grad * log(other); zero where `self` is zero and the logarithm is undefined."""
    return ops.masked_fill(ops.xlogy(grad, other), _both(self == 0, other <= 0), 0)


def xlog1py_backward(grad: Tensor, self: Tensor, other: Tensor | float) -> Tensor:
    """Return grad * log(1 + other); zero where `self` is zero and the logarithm is undefined."""
    return ops.masked_fill(ops.special_xlog1py(grad, other), _both(self == 0, other <= -1), 0)


def _both(mask: Tensor, condition: Tensor | bool) -> Tensor:
    """Return the conjunction of `mask` and a condition, which may be one bool for all elements."""
    return mask & condition


def logit_backward(grad: Tensor, self: Tensor, eps: float | None) -> Tensor:
    """Return the gradient of `logit`, as an operator."""
    return ops.logit_backward(grad, self, eps)


def logit_double_backward(grad: Tensor, self: Tensor, eps: float | None) -> Tensor:
    """Return grad times the second derivative of `logit`: (2 x - 1) / (x (1 - x))^2 within the bounds."""
    square = self * (1 - self)
    slope = (2 * self - 1) / (square * square)
    low, high = (0.0, 1.0) if eps is None else (eps, 1.0 - eps)
    inside = ops.logical_and(self >= low, self <= high)
    return ops.where(inside, grad * slope, math.nan if eps is None else 0.0)


def sinc_backward(grad: Tensor, self: Tensor) -> Tensor:
    """Return grad * (cos(pi x) pi x - sin(pi x)) / (pi x^2), and zero at zero."""
    angle = self * math.pi
    square = angle * self
    slope = (ops.cos(angle) * angle - ops.sin(angle)) / square
    return grad * conjugated(ops.where(square == 0, 0, slope))


def incomplete_gamma_slope(self: Tensor, other: Tensor) -> Tensor:
    """Return the derivative of the lower incomplete gamma function: x^(a - 1) exp(-x) / gamma(a)."""
    return ops.exp((self - 1) * ops.log(other) - other - ops.lgamma(self))


def i1_slope(self: Tensor, result: Tensor) -> Tensor:
    """Return i0(x) - i1(x) / x, 1/2 at zero."""
    small = ~(ops.abs(self) > spacing_at_one(self))
    safe = ops.where(small, spacing_at_one(self), self)
    return ops.where(small, 0.5, ops.i0(safe) - result / safe)


def i1e_slope(self: Tensor, result: Tensor) -> Tensor:
    """Return i0e(x) - i1e(x) (sgn(x) + 1 / x), 1/2 at zero."""
    small = ~(ops.abs(self) > spacing_at_one(self))
    safe = ops.where(small, spacing_at_one(self), self)
    return ops.where(small, 0.5, ops.special_i0e(safe) - result * (ops.sign(safe) + ops.reciprocal(safe)))


def spacing_at_one(self: Tensor) -> float:
    """Return the machine epsilon of a tensor's dtype."""
    return 2.220446049250313e-16 if self._spec.dtype.itemsize == 8 else 1.1920929e-07


def underivable(argument: str) -> NoReturn:
    """Raise an error for an operator or argument without a derivative."""
    raise MissingDerivativeError(f"the derivative for '{argument}' is not implemented.")
