"""``to`` and ``contiguous``: the tensor itself if nothing changes, else a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.device import CPU
from ...runtime.device import device as Device
from ...runtime.layout import strided
from ...runtime.memory_format import memory_format as MemoryFormat
from ...runtime.memory_format import preserve_format
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..generated.functions import _to_copy, empty_like
from ..plans.delegated import plan_of_part
from ..plans.register import planned_by
from ..structured.meta.copy import resolve_device

if TYPE_CHECKING:
    from ...runtime.layout import layout as Layout
    from ..plans.register import Composite
    from ..tensor import Tensor


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def _plan_contiguous(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan a tensor that has the layout already as its own result."""
    return _itself if args[0]._spec.is_contiguous_in(args[1]) else None


@planned_by(_plan_contiguous)
def contiguous(self: Tensor, memory_format: MemoryFormat) -> Tensor:
    """Return `Tensor.contiguous`."""
    if self._spec.is_contiguous_in(memory_format):
        return self
    if self._spec.layout is not strided:
        raise RuntimeError(
            f"unsupported memory format option {memory_format} for a tensor of layout {self.layout}"
        )
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return self.clone(memory_format=memory_format)


def clone(self: Tensor, memory_format: MemoryFormat | None) -> Tensor:
    """Run ``clone`` for a backend without its own kernel."""
    return empty_like(self, memory_format=memory_format).copy_(self)


def _copy_from(self: Tensor, dst: Tensor, non_blocking: bool) -> Tensor:
    """Copy to, from or within the memory of another package's backend, which must register this operator.

    The backend registers a kernel: ``self`` is copied to `dst`, of which one lives on its device. They broadcast, and
    may differ in dtype and strides. It returns `dst`.
    """
    where = next((t.device for t in (self, dst) if t.device.type not in ("cpu", "cuda", "meta")), dst.device)
    raise NotImplementedError(
        f"Could not run 'aten::_copy_from' from {self.device} to {dst.device}: the backend of '{where.type}' has to "
        "register a kernel for it"
    )


def _planned_as(
    canonical: Callable[..., tuple[Any, ...]],
) -> Callable[[Composite], Composite]:
    """Decorate a form of ``to`` that `canonical` turns into the arguments of `to_dtype_layout`."""

    def decorate(function: Composite) -> Composite:
        def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
            made = _plan_conversion(op, key_set, args, *canonical(*args))
            return op.rebind(function, args) if made is None else made

        return planned_by(plan)(function)

    return decorate


def _plan_conversion(
    op: OperatorEntry,
    key_set: int,
    args: Sequence[Any],
    self: Tensor,
    dtype: ScalarType | None,
    layout: Any,
    device: Device | None,
    pin_memory: bool | None,
    non_blocking: bool,
    copy: bool,
    memory_format: MemoryFormat | None,
) -> Plan | None:
    """Plan a conversion within host memory as the tensor itself, or as `_to_copy`; None for others."""
    spec = self._spec
    if spec.device is not CPU or (device is not None and device.type != "cpu"):
        return None
    if not copy and _is_same(spec, dtype, CPU, memory_format):
        return lambda self, *_: self
    part_args = (self, dtype, layout, CPU, pin_memory, non_blocking, memory_format)
    part = plan_of_part(op, key_set, args, "aten::_to_copy", part_args)
    if part is None or len(op.runtime_positions(args)) == 1:
        return part
    return lambda self, *_: part(self)


def _is_same(
    spec: TensorSpec, dtype: ScalarType | None, device: Device, memory_format: MemoryFormat | None
) -> bool:
    """Return True if a tensor already has this dtype, device and memory format."""
    return (
        (dtype is None or dtype is spec.dtype)
        and device is spec.device
        and (
            memory_format is None
            or memory_format is preserve_format
            or spec.suggest_memory_format() is memory_format
        )
    )


@_planned_as(lambda *args: args)
def to_dtype_layout(
    self: Tensor,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin_memory: bool | None,
    non_blocking: bool,
    copy: bool,
    memory_format: MemoryFormat | None,
) -> Tensor:
    """Return `Tensor.to` with every option."""
    spec = self._spec
    target = spec.device if device is None else resolve_device(device)
    if not copy and _is_same(spec, dtype, target, memory_format):
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


@_planned_as(
    lambda self, device, dtype, non_blocking, copy, fmt: (
        self,
        dtype,
        None,
        device,
        None,
        non_blocking,
        copy,
        fmt,
    )
)
def to_device(
    self: Tensor,
    device: Device,
    dtype: ScalarType,
    non_blocking: bool,
    copy: bool,
    memory_format: MemoryFormat | None,
) -> Tensor:
    """Return ``to(device, dtype)``."""
    return to_dtype_layout(self, dtype, None, device, None, non_blocking, copy, memory_format)


@_planned_as(
    lambda self, dtype, non_blocking, copy, fmt: (self, dtype, None, None, None, non_blocking, copy, fmt)
)
def to_dtype(
    self: Tensor, dtype: ScalarType, non_blocking: bool, copy: bool, memory_format: MemoryFormat | None
) -> Tensor:
    """Return ``to(dtype)``."""
    return to_dtype_layout(self, dtype, None, None, None, non_blocking, copy, memory_format)


def to_other(
    self: Tensor, other: Tensor, non_blocking: bool, copy: bool, memory_format: MemoryFormat | None
) -> Tensor:
    """Return ``to(other)``: dtype and device of another tensor."""
    return to_dtype_layout(self, other.dtype, None, other.device, None, non_blocking, copy, memory_format)


@_planned_as(
    lambda self, device, dtype, non_blocking, copy, fmt: (
        self,
        dtype,
        None,
        device,
        None,
        non_blocking,
        copy,
        fmt,
    )
)
def to_prim_device(
    self: Tensor,
    device: Device | None,
    dtype: ScalarType | None,
    non_blocking: bool,
    copy: bool,
    memory_format: MemoryFormat | None,
) -> Tensor:
    """Return ``to(device)``."""
    return to_dtype_layout(self, dtype, None, device, None, non_blocking, copy, memory_format)


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Return `Tensor.type_as`: dtype and device of another tensor."""
    return to_dtype_layout(self, other.dtype, None, other.device, None, False, False, None)
