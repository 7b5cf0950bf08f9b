"""Copies and conversions: meta of clone, planners of ``copy_`` and ``_to_copy``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....runtime.device import CPU
from ....runtime.device import device as Device
from ....runtime.device_guard import check_index, current_device
from ....runtime.layout import layout as Layout
from ....runtime.memory_format import memory_format as MemoryFormat
from ....runtime.memory_format import preserve_format, strides_for
from ....runtime.scalar_type import bool_, complex128, float64, int64
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ...iterator.broadcast import infer_size
from ...iterator.overlap import check_write_overlap
from ...plans.functional import TENSOR, FunctionalForm
from ...tensor import Tensor
from ..allocation import allocator_of, numpy_may_allocate, pinned_allocator_of
from ..meta_base import MetaBase
from ..stub import OWN, StructuredCall, find_kernel, has_kernel

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number

_OF_ONE = FunctionalForm((TENSOR,), None)
_OF_NUMBERS: dict[type, ScalarType] = {bool: bool_, int: int64, float: float64, complex: complex128}
"""Dtypes that represent Python numbers exactly, regardless of the default dtype."""


def clone(meta: MetaBase, self: TensorSpec, memory_format: MemoryFormat | None) -> None:
    """Infer a copy, with the requested memory format or else `preserve_format`."""
    fmt = preserve_format if memory_format is None else memory_format
    meta.set_output_raw_strided(
        0, self.sizes, strides_for(fmt, self.sizes, (self.sizes, self.strides)), dtype=self.dtype
    )


def copier(
    destination: TensorSpec, source: TensorSpec, non_blocking: bool = False
) -> Callable[[Any, Any], Any]:
    """Return a function ``copy(destination bytes, source bytes)`` between any two geometries, dtypes and devices.

    Between host and device, the bytes cross contiguous; conversion and strides are a kernel's work on one side. A
    device of another package copies by its kernel for `_copy_from`.
    """
    if destination.is_meta or source.is_meta:
        if destination.is_meta:
            return lambda out, src: None
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    same_type = destination.device.type == source.device.type
    if same_type and has_kernel("copy_stub", destination.device.type):
        return _same_device(destination, source)
    if not (destination.device.type in OWN and source.device.type in OWN):
        return _by_backend(destination, source, non_blocking)
    return _across(destination, source, non_blocking)


def _by_backend(destination: TensorSpec, source: TensorSpec, non_blocking: bool) -> Callable[[Any, Any], Any]:
    """Return the copy of a backend of another package."""
    from ...generated.functions import _copy_from

    destination, source = destination.detached, source.detached

    def copy(out: Any, src: Any) -> None:
        if destination.numel:
            _copy_from(Tensor.from_data(src, source), Tensor.from_data(out, destination), non_blocking)

    return copy


def _same_device(destination: TensorSpec, source: TensorSpec) -> Callable[[Any, Any], Any]:
    call = StructuredCall("copy", {"self": source}, ("self",), (destination,), None, destination.device, {})
    return find_kernel("copy_stub", destination.device.type, "copy_")(call).into


def _across(destination: TensorSpec, source: TensorSpec, non_blocking: bool) -> Callable[[Any, Any], Any]:
    """Return the copy between host and device.

    A host kernel needs the bytes on the host, and waits for them. A non-blocking copy to the host is converted on the
    device; any other copy is converted on the target's side. The transfer uses the target's memory order, so that
    permuted tensors without gaps need no kernel.
    """
    from ....runtime.cuda.transfer import copy_across

    sizes = destination.sizes
    order = sorted(range(destination.ndim), key=lambda i: (-destination.strides[i], i))
    in_order = order == list(range(destination.ndim))
    as_given = in_order and source.sizes == sizes
    source = source.replace(sizes=sizes, strides=_expanded(source, sizes))
    destination, source = _permuted(destination, order), _permuted(source, order)
    to_host = destination.device is CPU
    crossing = destination.dtype if to_host and non_blocking else source.dtype
    staging_source = TensorSpec.contiguous(destination.sizes, crossing, source.device)
    staging_target = TensorSpec.contiguous(destination.sizes, crossing, destination.device)
    as_it_is = source.is_contiguous and crossing is source.dtype
    gather = None if as_it_is else _same_device(staging_source, source)
    direct = destination.is_contiguous and destination.dtype is crossing
    scatter = None if direct else _same_device(destination, staging_target)
    allocate_source, allocate_target = allocator_of(staging_source), allocator_of(staging_target)
    at_once = not non_blocking or (to_host and scatter is not None)

    def copy(out: Any, src: Any) -> None:
        if not staging_source.numel:
            return
        if to_host:
            if not in_order:
                out = out.transpose(order)
        elif not as_given:
            src = np.broadcast_to(src, sizes).transpose(order)
        if gather is not None:
            buffer = allocate_source()
            gather(buffer, src)
            src = buffer
        target = out if scatter is None else allocate_target()
        copy_across(target, src, staging_source.nbytes, not at_once)
        if scatter is not None:
            scatter(out, target)

    return copy


def _permuted(spec: TensorSpec, order: Sequence[int]) -> TensorSpec:
    """Return the spec of the same elements with their dimensions in another order."""
    return spec.replace(
        sizes=tuple(spec.sizes[i] for i in order), strides=tuple(spec.strides[i] for i in order)
    )


def _expanded(source: TensorSpec, sizes: tuple[int, ...]) -> tuple[int, ...]:
    lead = len(sizes) - source.ndim
    return (0,) * lead + tuple(
        0 if n == 1 and sizes[lead + i] != 1 else s
        for i, (n, s) in enumerate(zip(source.sizes, source.strides, strict=True))
    )


def copy_(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.copy_(src)`` with broadcast, cast and device transfer; a number is cast like a tensor of its
    class.
    """
    destination: TensorSpec = args[0]._spec
    number = None if isinstance(args[1], TensorImpl) else _OF_NUMBERS[args[1].__class__]
    source = args[1]._spec if number is None else TensorSpec.contiguous((), number, CPU)
    sizes = source.sizes
    lead = destination.ndim - len(sizes)
    if lead < 0 or any(n not in (1, destination.sizes[lead + i]) for i, n in enumerate(sizes)):
        whole = infer_size(destination.sizes, sizes)
        raise RuntimeError(
            f"output with shape {list(destination.sizes)} doesn't match the broadcast shape {list(whole)}"
        )
    if destination.overlaps:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    if destination.read_only:
        raise RuntimeError("copy_(): self is read-only; clone() it before writing to it")
    copy = copier(destination, source, args[2])
    if number is not None:
        element_type = number.np

        def plan_of_number(self: Tensor, src: Number) -> Tensor:
            copy(self._data, np.array(src, element_type))
            self.bump_version()
            return self

        return plan_of_number

    def plan(self: Tensor, src: Tensor) -> Tensor:
        if src is self:
            self.bump_version()
            return self
        cell = self._version_cell
        if cell is not None and src._version_cell is cell:
            check_write_overlap(self, src)
        copy(self._data, src._data)
        self.bump_version()
        return self

    return plan


def to_copy(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``_to_copy``: a new tensor of another dtype, device or memory format."""
    source: TensorSpec = args[0]._spec.detached
    dtype: ScalarType | None = args[1]
    layout: Layout | None = args[2]
    device: Device | None = args[3]
    fmt: MemoryFormat | None = args[6]
    if layout is not None and layout is not source.layout:
        raise NotImplementedError(f"to(): conversion to layout {layout} is not implemented")
    target = TensorSpec.of(
        source.sizes,
        strides_for(preserve_format if fmt is None else fmt, source.sizes, (source.sizes, source.strides)),
        source.dtype if dtype is None else dtype,
        source.device if device is None else resolve_device(device),
    )
    if source.is_meta and not target.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    non_blocking: bool = args[5]
    # As in PyTorch, a non-blocking copy to the host goes to pinned memory.
    pinned = args[4] or (non_blocking and target.device is CPU and source.device.type == "cuda")
    allocate = pinned_allocator_of(target, "to") if pinned else allocator_of(target)
    if source.device is CPU and target.device is CPU and not pinned:
        call = StructuredCall("copy", {"self": source}, ("self",), (target,), None, CPU, {})
        kernel = find_kernel("copy_stub", "cpu", "copy_")(call)
        if kernel.fresh is not None and numpy_may_allocate(target):
            return _OF_ONE.plan(kernel, (target,))
    copy = copier(target, source, non_blocking)

    def plan(self: Tensor) -> Tensor:
        data = allocate()
        copy(data, self._data)
        return Tensor.from_data(data, target)

    return plan


def resolve_device(device: Device) -> Device:
    """Return a device with its ordinal, by default the current one; the host and Meta have none.

    Raises RuntimeError for a device that its backend does not have.
    """
    if device.type in ("cpu", "meta"):
        return Device(device.type)
    if device.index is None:
        return Device(device.type, current_device(device.type))
    if device.type != "cuda":
        check_index(device)
    return device
