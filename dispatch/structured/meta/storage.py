"""Planners of ``resize_``, ``set_`` and ``is_set_to``: geometry over bytes (ATen/native/Resize.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.determinism import fills_uninitialized_memory
from ....runtime.device import device as Device
from ....runtime.dispatch_key import Functionality, functionality_bit
from ....runtime.grad_mode import is_grad_enabled
from ....runtime.layout import strided
from ....runtime.memory_format import contiguous_strides, preserve_format, strides_for
from ....runtime.memory_format import memory_format as MemoryFormat
from ....runtime.storage import Storage, TypedStorageBase, untyped_bytes
from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ..allocation import allocator_of
from ..deterministic_fill import fill_behind
from ..resizing import resized, set_geometry
from .factories import check_sizes, check_strides

if TYPE_CHECKING:
    from ...tensor import Tensor


_FORWARD_BIT = functionality_bit(Functionality.ForwardAD)


def _refuse_grad(spec: TensorSpec, verb: str) -> None:
    if verb == "resize" and spec.requires_grad and not spec.is_inference:
        raise RuntimeError("cannot resize variables that require grad")
    if spec.keys & _FORWARD_BIT:
        if verb == "set":
            raise NotImplementedError(
                "Trying to use forward AD with set_ that does not support it because it has not been implemented yet."
            )
        raise RuntimeError(f"cannot {verb} variables that has a forward grad")


def _resize_plan(
    spec: TensorSpec, sizes: Sequence[int], fmt: MemoryFormat | None, template: TensorSpec | None
) -> Plan:
    sizes = check_sizes("resize_", sizes)
    if template is not None and fmt is preserve_format:
        strides = strides_for(template.suggest_memory_format(), sizes)
    elif fmt is preserve_format:
        raise RuntimeError("Unsupported memory format Preserve")
    elif fmt is None:
        if sizes == spec.sizes:
            return lambda self, *_: self
        strides = contiguous_strides(sizes)
    else:
        strides = strides_for(fmt, sizes)
    target = spec.replace(sizes=sizes, strides=strides)
    if not fills_uninitialized_memory():
        return lambda self, *_: resized(self, target)

    def resized_and_filled(self: Tensor, *_: object) -> Tensor:
        before = self.untyped_storage().nbytes()
        resized(self, target)
        fill_behind(self.untyped_storage(), before, target)
        return self

    return resized_and_filled


def resize_(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.resize_(size, memory_format)``; new elements are uninitialized."""
    spec: TensorSpec = args[0]._spec
    _refuse_grad(spec, "resize")
    return _resize_plan(spec, args[1], args[2], None)


def resize_as_(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.resize_as_(template, memory_format)``."""
    spec: TensorSpec = args[0]._spec
    _refuse_grad(spec, "resize")
    if spec.layout is not strided:
        return lambda self, template: self.resize_as_sparse_(template)
    return _resize_plan(spec, args[1]._spec.sizes, args[2], args[1]._spec)


def _refusing_grad(spec: TensorSpec, plan: Plan) -> Plan:
    """Return the plan of ``set_``, which refuses a tensor that requires grad unless grad mode is off."""
    if not spec.requires_grad:
        return plan

    def checked(*args: Any) -> Any:
        if is_grad_enabled():
            raise RuntimeError("cannot set variables that require grad")
        from ...autograd.node import expect_metadata

        result = plan(*args)
        expect_metadata(args[0])
        return result

    return checked


def _check_device(own: Device, source: Device) -> None:
    if own is not source:
        raise RuntimeError(
            f"set_: attempted to set the storage of a tensor on device '{own}' to a storage on different "
            f"device '{source}'. This is no longer allowed; the devices must match."
        )


def _check_set(self: TensorSpec, source: TensorSpec) -> None:
    if self.dtype is not source.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {source.dtype.name} to a tensor of type {self.dtype.name}: "
            "the dtypes must agree"
        )
    _check_device(self.device, source.device)


def set_source_tensor(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.set_(source)`` and ``self.set_(source, storage_offset, size, stride)`` for a tensor."""
    spec: TensorSpec = args[0]._spec
    source: TensorSpec = args[1]._spec
    _check_set(spec, source)
    if source.keys & _FORWARD_BIT:
        spec = spec.replace(keys=spec.keys | _FORWARD_BIT)
    if len(args) == 2:
        _refuse_grad(spec, "set")
        target = spec.replace(sizes=source.sizes, strides=source.strides, read_only=source.read_only)

        def share(self: Tensor, other: Tensor) -> Tensor:
            self._data, self._spec = other._data, target
            self._version_cell = None
            return self

        return _refusing_grad(spec, share)
    _, _, offset, sizes, strides = args
    assign = _placing(spec, offset, sizes, strides)
    return lambda self, other: assign(self, other.untyped_storage())


def set_source_storage(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.set_(storage)`` and ``self.set_(storage, storage_offset, size, stride)``."""
    spec: TensorSpec = args[0]._spec
    if len(args) > 2:
        return _placing(spec, *args[2:])

    def whole(self: Tensor, source: Storage | TypedStorageBase) -> Any:
        storage = untyped_bytes(source, spec.dtype)
        count = storage.nbytes() // spec.itemsize
        return _placing(spec, 0, (count,), ())(self, storage)

    return whole


def _placing(spec: TensorSpec, offset: int, sizes: Sequence[int], strides: Sequence[int]) -> Plan:
    """Return a plan that makes a tensor a view of a storage, which must be large enough or resizable."""
    _refuse_grad(spec, "set")
    sizes = check_sizes("set_", sizes)
    if strides and len(strides) != len(sizes):
        raise RuntimeError(f"unequal size length ({len(sizes)}) and stride length ({len(strides)})")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    checked_strides = check_strides(
        "set_", sizes, strides or contiguous_strides(sizes), spec.itemsize, offset
    )
    target = spec.replace(sizes=sizes, strides=checked_strides)

    def place(self: Tensor, source: Storage | TypedStorageBase) -> Tensor:
        storage = untyped_bytes(source, target.dtype)
        _check_device(target.device, storage.device)
        self._version_cell = None
        set_geometry(self, storage, target, offset)
        return self

    return _refusing_grad(spec, place)


def set_nothing(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.set_()``: an empty tensor without memory."""
    spec: TensorSpec = args[0]._spec
    _refuse_grad(spec, "set")
    target = spec.replace(sizes=(0,), strides=(1,))
    allocate = allocator_of(target)

    def empty(self: Tensor) -> Tensor:
        self._data, self._spec, self._version_cell = allocate(), target, None
        return self

    return _refusing_grad(spec, empty)


def is_set_to(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.is_set_to(tensor)``: True for the same bytes, offset, sizes and strides."""

    def same(self: Tensor, other: Tensor) -> bool:
        a, b = self._spec, other._spec
        if a.sizes != b.sizes or a.strides != b.strides or a.device is not b.device:
            return False
        return (
            self.untyped_storage() is other.untyped_storage()
            and self.storage_offset() == other.storage_offset()
        )

    return same
