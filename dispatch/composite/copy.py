"""``to`` and ``contiguous``: the tensor itself where nothing changes, else a copy."""

from __future__ import annotations

from typing import Any

from ...runtime.device import device as Device
from ...runtime.memory_format import memory_format as MemoryFormat
from ...runtime.memory_format import preserve_format
from ...runtime.scalar_type import dtype as ScalarType
from ..generated.functions import _to_copy, empty_like
from ..structured.native.copy import resolve_device


def contiguous(self: Any, memory_format: MemoryFormat) -> Any:
    """`Tensor.contiguous`."""
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if self._spec.is_contiguous_in(memory_format):
        return self
    return self.clone(memory_format=memory_format)


def clone(self: Any, memory_format: MemoryFormat | None) -> Any:
    """``clone`` of a backend that has no kernel for it."""
    return empty_like(self, memory_format=memory_format).copy_(self)


def _copy_from(self: Any, dst: Any, non_blocking: bool) -> Any:
    """How a backend of another package copies to, from and within its memory; it has to say so.

    The backend registers a kernel: ``self`` is copied to `dst`, of which one lives on its device. They broadcast, and
    may differ in dtype and strides. It returns `dst`.
    """
    where = next((t.device for t in (self, dst) if t.device.type not in ("cpu", "cuda", "meta")), dst.device)
    raise NotImplementedError(
        f"Could not run 'aten::_copy_from' from {self.device} to {dst.device}: the backend of '{where.type}' has to "
        "register a kernel for it"
    )


def to_dtype_layout(
    self: Any,
    dtype: ScalarType | None,
    layout: Any,
    device: Device | None,
    pin_memory: bool | None,
    non_blocking: bool,
    copy: bool,
    memory_format: MemoryFormat | None,
) -> Any:
    """`Tensor.to` with every option."""
    spec = self._spec
    target = spec.device if device is None else resolve_device(device)
    same = (
        (dtype is None or dtype is spec.dtype)
        and target is spec.device
        and (
            memory_format is None
            or memory_format is preserve_format
            or spec.suggest_memory_format() is memory_format
        )
    )
    if same and not copy:
        return self
    return _to_copy(
        self,
        dtype=dtype,
        layout=layout,
        device=target,
        pin_memory=pin_memory,
        non_blocking=non_blocking,
        memory_format=memory_format,
    )


def to_device(
    self: Any,
    device: Device,
    dtype: ScalarType,
    non_blocking: bool,
    copy: bool,
    memory_format: MemoryFormat | None,
) -> Any:
    """``to(device, dtype)``."""
    return to_dtype_layout(self, dtype, None, device, None, non_blocking, copy, memory_format)


def to_dtype(
    self: Any, dtype: ScalarType, non_blocking: bool, copy: bool, memory_format: MemoryFormat | None
) -> Any:
    """``to(dtype)``."""
    return to_dtype_layout(self, dtype, None, None, None, non_blocking, copy, memory_format)


def to_other(
    self: Any, other: Any, non_blocking: bool, copy: bool, memory_format: MemoryFormat | None
) -> Any:
    """``to(other)``: dtype and device of another tensor."""
    return to_dtype_layout(self, other.dtype, None, other.device, None, non_blocking, copy, memory_format)


def to_prim_device(
    self: Any,
    device: Device | None,
    dtype: ScalarType | None,
    non_blocking: bool,
    copy: bool,
    memory_format: MemoryFormat | None,
) -> Any:
    """``to(device)``."""
    return to_dtype_layout(self, dtype, None, device, None, non_blocking, copy, memory_format)


def type_as(self: Any, other: Any) -> Any:
    """`Tensor.type_as`: dtype and device of another tensor."""
    return to_dtype_layout(self, other.dtype, None, other.device, None, False, False, None)
