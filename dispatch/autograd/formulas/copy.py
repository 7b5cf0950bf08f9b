"""Formulas of copies and conversions."""

from __future__ import annotations

from typing import Any

from ....runtime.device import device as Device
from ....runtime.scalar_type import dtype as ScalarType
from ...generated import functions as ops


def grad_to(grad: Any, dtype: ScalarType, device: Device) -> Any:
    """The gradient with another dtype and device."""
    return grad.to(device=device, dtype=dtype)


def zeros_of_grad(grad: Any) -> Any:
    """Zeros: what a tensor that was overwritten gets, also where the gradient is an expanded one."""
    return ops.zeros_like(grad)
