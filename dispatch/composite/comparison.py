"""Comparisons of whole tensors and predicates on elements (ATen/native/TensorCompare.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.errors import two_devices
from ...runtime.local_dispatch_key_set import modes
from ...runtime.scalar_type import bool_, get_default_dtype
from ..core.kernel_function import Plan
from ..core.mode_stack import sees_whole
from ..core.operator_entry import OperatorEntry
from ..generated import functions as ops
from ..plans.host_kernel import is_unseen
from ..plans.register import planned_by

if TYPE_CHECKING:
    from ..tensor import Tensor


def isclose(self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    """Compute ``|self - other| <= atol + rtol * |other|``; equal elements, including infinities, are close."""
    if self.dtype is not other.dtype:
        raise RuntimeError(f"{self.dtype.scalar_name} did not match {other.dtype.scalar_name}")
    if not rtol >= 0:
        raise RuntimeError(f"rtol must be greater than or equal to zero, but got {rtol:g}")
    if not atol >= 0:
        raise RuntimeError(f"atol must be greater than or equal to zero, but got {atol:g}")
    close = ops.eq(self, other)
    inexact = self.dtype.is_floating_point or self.dtype.is_complex
    if equal_nan and inexact:
        close = ops.logical_or(close, ops.logical_and(ops.ne(self, self), ops.ne(other, other)))
    if rtol == 0 and atol == 0:
        return close
    reference = other if inexact else other.to(get_default_dtype())
    allowed = ops.add(ops.abs(ops.mul(reference, rtol)), atol)
    if self.dtype is bool_:
        distance = ops.abs(ops.sub(self.to(get_default_dtype()), reference))
    else:
        distance = ops.abs(ops.sub(self, reference))
    if modes and sees_whole():
        return close.__ior__(ops.isfinite(distance).__iand__(ops.le(distance, allowed)))
    finite = ops.lt(distance, math.inf)
    return ops.logical_or(close, ops.logical_and(finite, ops.le(distance, allowed)))


def allclose(self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool) -> bool:
    """Return `torch.allclose`: True if all elements are close."""
    return bool(ops.all(isclose(self, other, rtol, atol, equal_nan)).item())


def _plan_equal(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan the comparison of tensors of one NumPy dtype as one call."""
    spec, other = args[0]._spec, args[1]._spec
    if other.device is not spec.device or other.dtype is not spec.dtype or spec.np_dtype.kind not in "biufc":
        return None
    if not is_unseen(key_set, ("aten::eq.Tensor", "aten::all")):
        return None
    if spec.sizes != other.sizes:
        return lambda self, other: False
    count, equal, count_nonzero = spec.numel, np.equal, np.count_nonzero
    return lambda self, other: bool(count_nonzero(equal(self._data, other._data)) == count)


@planned_by(_plan_equal)
def equal(self: Tensor, other: Tensor) -> bool:
    """Return `torch.equal`: True for the same sizes and the same values; NaN equals nothing."""
    if self._spec.device is not other._spec.device:
        raise RuntimeError(two_devices(self._spec.device, other._spec.device))
    if tuple(self.shape) != tuple(other.shape):
        return False
    return bool(ops.all(ops.eq(self, other)).item())


def isreal(self: Tensor) -> Tensor:
    """Compute `torch.isreal`: True where the imaginary part is zero."""
    if self.dtype.is_complex:
        return ops.eq(ops.imag(self), 0)
    return ops.ones_like(self, dtype=bool_)


def isposinf(self: Tensor) -> Tensor:
    """Compute `torch.isposinf`."""
    return _infinite("isposinf", self, math.inf)


def isneginf(self: Tensor) -> Tensor:
    """Compute `torch.isneginf`."""
    return _infinite("isneginf", self, -math.inf)


def _infinite(name: str, self: Tensor, infinity: float) -> Tensor:
    if self.dtype.is_complex:
        raise RuntimeError(f"{name} does not support complex inputs.")
    if self.dtype.is_floating_point:
        return ops.eq(self, infinity)
    return ops.zeros_like(self, dtype=bool_)
