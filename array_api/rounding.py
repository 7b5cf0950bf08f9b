"""Rounding and signs: what the standard also defines for complex numbers and NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dispatch.generated.functions import complex as complex_of_parts
from ..dispatch.generated.functions import isnan, sgn, where
from ..dispatch.generated.functions import round as round_real

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor


def round(x: Tensor) -> Tensor:
    """The nearest integers; of complex numbers, of both parts."""
    if x.dtype.is_complex:
        return complex_of_parts(round_real(x.real), round_real(x.imag))
    return round_real(x)


def sign(x: Tensor) -> Tensor:
    """The signs; NaN has itself, where PyTorch has 0."""
    signs = sgn(x)
    if x.dtype.is_floating_point:
        return where(isnan(x), x, signs)  # type: ignore[return-value]
    return signs
