"""Formulas of copies and conversions."""

from __future__ import annotations

from typing import Any

from ....runtime.device import device as Device
from ....runtime.scalar_type import dtype as ScalarType


def grad_to(grad: Any, dtype: ScalarType, device: Device) -> Any:
    """The gradient with another dtype and device."""
    return grad.to(device=device, dtype=dtype)
