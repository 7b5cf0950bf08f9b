"""Formulas of copies and conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....runtime.device import device as Device
from ....runtime.scalar_type import dtype as ScalarType

if TYPE_CHECKING:
    from ...tensor import Tensor


def grad_to(grad: Tensor, dtype: ScalarType, device: Device) -> Tensor:
    """Return the gradient with another dtype and device."""
    return grad.to(device=device, dtype=dtype)
