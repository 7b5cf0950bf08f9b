"""Functions whose results the standard defines where PyTorch's operators give others, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dispatch.generated import functions

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor


def floor_divide(x1: Tensor, x2: Tensor) -> Tensor:
    """Divide and round down; with an infinite operand, floor the true quotient instead of Python's NaN or -1."""
    quotient = functions.floor_divide(x1, x2)
    if not quotient.dtype.is_floating_point:
        return quotient
    infinite = functions.isinf(x1).logical_or(functions.isinf(x2))
    return functions.where(infinite, functions.div(x1, x2), quotient)


def round(x: Tensor) -> Tensor:
    """Round to the nearest integers; for complex numbers, round both parts."""
    if x.dtype.is_complex:
        return functions.complex(functions.round(x.real), functions.round(x.imag))
    return functions.round(x)


def sign(x: Tensor) -> Tensor:
    """Compute the signs; NaN stays NaN, while PyTorch returns 0."""
    signs = functions.sgn(x)
    if x.dtype.is_floating_point:
        return functions.where(functions.isnan(x), x, signs)
    return signs


def expm1(x: Tensor) -> Tensor:
    """Compute the exponential minus 1; for complex infinities use `exp`, and for zero imaginary parts a real
    result.
    """
    out = functions.expm1(x)
    if not x.dtype.is_complex:
        return out
    out = functions.where(functions.isinf(x.real), functions.exp(x) - 1, out)
    # A negative zero gives the positive one.
    on_axis = functions.complex(functions.expm1(x.real) + 0.0, x.imag)
    return functions.where(x.imag == 0, on_axis, out)


def square(x: Tensor) -> Tensor:
    """Multiply the element by itself; PyTorch's power is not exact for complex numbers on every device."""
    return functions.mul(x, x)
