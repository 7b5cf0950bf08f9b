"""Planners of factories, and the meta of fills."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....runtime.allocator import storage_size
from ....runtime.determinism import fills_uninitialized_memory
from ....runtime.device import CPU, get_default_device
from ....runtime.device import device as Device
from ....runtime.layout import jagged, sparse_coo, sparse_csc, sparse_csr, spoken, strided
from ....runtime.layout import layout as Layout
from ....runtime.memory_format import contiguous_format, preserve_format, strides_for
from ....runtime.memory_format import memory_format as MemoryFormat
from ....runtime.scalar_type import PACKED, SUB_BYTE, get_default_dtype, int64
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_spec import TensorSpec
from ....runtime.traceback_filter import hide_inner_frames
from ...core.call_kind import leave_replanner
from ...core.kernel_function import Plan
from ...core.op_overload import find_overload
from ...core.operator_entry import OperatorEntry
from ...tensor import Tensor, blank_tensor
from ..allocation import allocator_of, numpy_may_allocate, pinned_allocator_of
from ..deterministic_fill import fill_uninitialized
from ..meta_base import MetaBase
from ..stub import StructuredCall, find_kernel, has_kernel
from ..supported_dtypes import kernel_name
from .copy import resolve_device

if TYPE_CHECKING:
    from ..meta_base import NumberKind


def check_sizes(name: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes as a tuple. Raises RuntimeError for a negative one."""
    for size in sizes:
        if size < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {size}: {list(sizes)} ({name})"
            )
    return tuple(sizes)


def check_layout(name: str, layout: Layout | None) -> None:
    """Raise NotImplementedError for any layout other than strided."""
    if layout is not None and layout is not strided:
        raise NotImplementedError(f"{name}(): layout {layout} is not implemented; tensors here are {strided}")


def sparse_factory(
    name: str,
    size: Sequence[int],
    dtype: ScalarType | None,
    layout: Layout,
    device: Device | None,
) -> Plan:
    """Return a plan for a sparse tensor without elements, which represents zeros.

    Raises RuntimeError for a block layout, because the arguments give no block size.
    """
    sizes = check_sizes(name, size)
    if layout is sparse_coo:
        made = functools.partial(find_overload("aten::sparse_coo_tensor.size"), sizes)
    elif len(sizes) < 2:
        raise RuntimeError(
            f"torch.{name}: Only batched sparse compressed (non-block) tensors are supported, but got size "
            f"{list(sizes)}"
        )
    elif layout is sparse_csr or layout is sparse_csc:
        compressed = find_overload("aten::_sparse_compressed_tensor_with_dims")
        made = functools.partial(compressed, 0, 0, sizes, (), int64)
    else:
        raise RuntimeError(
            f"{name}(): expected sparse compressed (non-block) tensor layout but got {spoken(layout)}"
        )
    make = functools.partial(made, dtype=dtype, layout=layout, device=device)
    return lambda *_: make()


def is_sparse(layout: Layout | None) -> bool:
    """Return True if a factory is called with a layout other than strided."""
    return layout is not None and layout is not strided and layout is not jagged


def spec_from(
    name: str,
    sizes: Sequence[int],
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    fmt: MemoryFormat | None = None,
) -> TensorSpec:
    """Return the spec of a new tensor from a factory's options."""
    sizes = check_sizes(name, sizes)
    check_layout(name, layout)
    if fmt is preserve_format:
        raise RuntimeError(f"unsupported memory format Preserve: {name}() has no tensor to preserve it from")
    strides = strides_for(contiguous_format if fmt is None else fmt, sizes)
    where = resolve_device(get_default_device() if device is None else device)
    return TensorSpec.of(sizes, strides, get_default_dtype() if dtype is None else dtype, where)


def uninitialised(spec: TensorSpec, pin: bool | None = None, name: str = "empty") -> Plan:
    """Return a plan that allocates, in page-locked memory if `pin` is true."""
    allocate = pinned_allocator_of(spec, name) if pin else allocator_of(spec)
    if fills_uninitialized_memory() and spec.numel:
        return _filled_when_deterministic(spec, allocate)

    def plan(*_: object) -> Tensor:
        out = blank_tensor()
        try:
            out._data = allocate()
        except BaseException:
            hide_inner_frames()
            raise
        out._spec = spec
        out._version_cell = out._autograd = out._view_base = None
        return out

    return plan


def _filled_when_deterministic(spec: TensorSpec, allocate: Callable[[], Any]) -> Plan:
    def plan(*_: object) -> Tensor:
        data = allocate()
        fill_uninitialized(data, spec)
        return Tensor.from_data(data, spec)

    return plan


def filled(spec: TensorSpec, stub: str, value: int, pin: bool | None = None) -> Plan:
    """Return a plan that allocates, in page-locked memory if `pin` is true, and fills with 0 or 1."""
    name = "ones" if value else "zeros"
    if value and (spec.dtype is PACKED or spec.dtype in SUB_BYTE) and not spec.is_meta:
        raise NotImplementedError(
            f"\"{kernel_name('fill', spec.device.type)}\" not implemented for '{spec.dtype.scalar_name}'"
        )
    if spec.device is CPU and not pin and numpy_may_allocate(spec):
        sizes, np_dtype = spec.sizes, spec.np_dtype
        if value and np_dtype.kind in "biufc":
            return _small_ones(spec)
        make: Callable[..., Any] = np.ones if value else np.zeros

        def small(*_: object) -> Tensor:
            out = blank_tensor()
            try:
                out._data = make(sizes, np_dtype)
            except BaseException:
                hide_inner_frames()
                raise
            out._spec = spec
            out._version_cell = out._autograd = out._view_base = None
            return out

        return small
    allocate = pinned_allocator_of(spec, name) if pin else allocator_of(spec)
    if spec.is_meta:
        return uninitialised(spec)
    if not has_kernel(stub, spec.device.type):
        return _filled_by_backend(spec, value)
    call = StructuredCall("fill", {"self": spec, "value": int}, ("value",), (spec,), None, spec.device, {})
    fill = find_kernel(stub, spec.device.type, "fill_")(call).into

    def plan(*_: object) -> Tensor:
        data = allocate()
        fill(data, value)
        return Tensor.from_data(data, spec)

    return plan


def _small_ones(spec: TensorSpec) -> Plan:
    """Return a plan of ones in NumPy's memory.

    It takes two thirds of the time of `np.ones`, which is written in Python.
    """
    sizes, np_dtype, allocate = spec.sizes, spec.np_dtype, np.empty

    def ones(*_: object) -> Tensor:
        out = blank_tensor()
        try:
            out._data = data = allocate(sizes, np_dtype)
            data.fill(1)
        except BaseException:
            hide_inner_frames()
            raise
        out._spec = spec
        out._version_cell = out._autograd = out._view_base = None
        return out

    return ones


def _filled_by_backend(spec: TensorSpec, value: int) -> Plan:
    """Return a plan that fills through the dispatcher with the kernel of another package's backend."""
    from ...generated.functions import fill_, zero_

    make = uninitialised(spec)
    if value == 0:
        return lambda *_: zero_(make())
    return lambda *_: fill_(make(), value)


def empty(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``empty(size, dtype, layout, device, pin_memory, memory_format)``."""
    if is_sparse(args[2]):
        return sparse_factory("empty", *args[:4])
    spec, pin = spec_from("empty", args[0], args[1], args[2], args[3], args[5]), args[4]
    plan = uninitialised(spec, pin)
    if spec.device is not CPU or pin or args[5] is not None:
        return plan
    dtype = spec.dtype

    def replanner(specs: Sequence[Any]) -> Plan:
        return uninitialised(TensorSpec.contiguous(check_sizes("empty", specs[0]), dtype, CPU))

    return leave_replanner(plan, op, replanner)


def check_strides(
    name: str, sizes: tuple[int, ...], strides: Sequence[int], itemsize: int, offset: int = 0
) -> tuple[int, ...]:
    """Return the strides for elements that begin `offset` elements into memory.

    Raises RuntimeError if their number differs from that of sizes, if any is negative, and if 64 bits cannot count the
    bytes.
    """
    if len(strides) != len(sizes):
        raise RuntimeError(
            f"mismatch in length of strides and shape: dimensionality of sizes ({len(sizes)}) must match "
            f"dimensionality of strides ({len(strides)})"
        )
    checked = tuple(strides)
    reach = (storage_size(sizes, checked) + offset) * itemsize
    if min(checked, default=0) < 0 or reach >= 2**63:
        raise RuntimeError(
            f"{name}: Storage size calculation overflowed with sizes={list(sizes)} and strides={list(checked)}"
        )
    return checked


def empty_strided(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``empty_strided(size, stride, ...)``."""
    sizes = check_sizes("empty_strided", args[0])
    spec = spec_from("empty_strided", (), args[2], args[3], args[4])
    strides = check_strides("empty_strided", sizes, args[1], spec.itemsize)
    return uninitialised(spec.replace(sizes=sizes, strides=strides), args[5], "empty_strided")


def new_empty_strided(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.new_empty_strided(size, stride, ...)``; dtype and device default to those of `self`."""
    like: TensorSpec = args[0]._spec
    device = like.device if args[5] is None else resolve_device(args[5])
    sizes, dtype = check_sizes("new_empty_strided", args[1]), args[3] or like.dtype
    strides = check_strides("new_empty_strided", sizes, args[2], dtype.itemsize)
    spec = TensorSpec.of(sizes, strides, dtype, device)
    return uninitialised(spec, args[6], "new_empty_strided")


def zeros(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``zeros(size, ...)``."""
    if is_sparse(args[2]):
        return sparse_factory("zeros", *args[:4])
    return _filled_alike(op, "zeros", args, "zero_stub", 0)


def ones(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``ones(size, ...)``."""
    if is_sparse(args[2]):
        raise RuntimeError(f"full(...) is not implemented for sparse layout: {args[2]}")
    return _filled_alike(op, "ones", args, "fill_stub", 1)


def _filled_alike(op: OperatorEntry, name: str, args: Sequence[Any], stub: str, value: int) -> Plan:
    """Return the plan of ``name(size, dtype, layout, device, pin_memory)``. On the host it also serves other sizes."""
    spec, pin = spec_from(name, args[0], args[1], args[2], args[3]), args[4]
    plan = filled(spec, stub, value, pin)
    if spec.device is not CPU or pin:
        return plan
    dtype = spec.dtype

    def replanner(specs: Sequence[Any]) -> Plan:
        return filled(TensorSpec.contiguous(check_sizes(name, specs[0]), dtype, CPU), stub, value)

    return leave_replanner(plan, op, replanner)


def like_spec(args: Sequence[Any]) -> TensorSpec:
    """Return the spec of an ``_like`` factory: (self, dtype, layout, device, pin_memory, memory_format)."""
    like: TensorSpec = args[0]._spec
    check_layout("empty_like", args[2])
    fmt = preserve_format if args[5] is None else args[5]
    device = like.device if args[3] is None else resolve_device(args[3])
    strides = strides_for(fmt, like.sizes, (like.sizes, like.strides))
    return TensorSpec.of(like.sizes, strides, args[1] or like.dtype, device)


def _sparse_like(name: str, args: Sequence[Any]) -> Plan:
    like: TensorSpec = args[0]._spec
    return sparse_factory(name, like.sizes, args[1] or like.dtype, args[2], args[3] or like.device)


def empty_like(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``empty_like(self, ...)``."""
    if is_sparse(args[2]):
        return _sparse_like("empty_like", args)
    return uninitialised(like_spec(args), args[4], "empty_like")


def zeros_like(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``zeros_like(self, ...)``."""
    if is_sparse(args[2]):
        return _sparse_like("zeros_like", args)
    return filled(like_spec(args), "zero_stub", 0, args[4])


def ones_like(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``ones_like(self, ...)``."""
    return filled(like_spec(args), "fill_stub", 1, args[4])


def new_spec(name: str, args: Sequence[Any]) -> TensorSpec:
    """Return the spec of a ``new_`` factory: (self, size, dtype, layout, device, pin_memory)."""
    like: TensorSpec = args[0]._spec
    return spec_from(name, args[1], args[2] or like.dtype, args[3], args[4] or like.device)


def _new_sparse(name: str, args: Sequence[Any]) -> Plan:
    like: TensorSpec = args[0]._spec
    return sparse_factory(name, args[1], args[2] or like.dtype, args[3], args[4] or like.device)


def new_empty(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.new_empty(size, ...)``."""
    if is_sparse(args[3]):
        return _new_sparse("new_empty", args)
    return uninitialised(new_spec("new_empty", args), args[5], "new_empty")


def new_zeros(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.new_zeros(size, ...)``."""
    if is_sparse(args[3]):
        return _new_sparse("new_zeros", args)
    return filled(new_spec("new_zeros", args), "zero_stub", 0, args[5])


def new_ones(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.new_ones(size, ...)``."""
    return filled(new_spec("new_ones", args), "fill_stub", 1, args[5])


def fill(meta: MetaBase, self: TensorSpec, *numbers: NumberKind) -> None:
    """Infer the output of operators that write one value to every element of `self`, which may be expanded."""
    meta.may_overlap = True
    by_place(meta, self, *numbers)


def by_place(meta: MetaBase, self: TensorSpec, *numbers: NumberKind) -> None:
    """Infer the output of operators that compute each element of `self` from numbers and its position alone."""
    meta.set_output_raw_strided(0, self.sizes, self.strides, dtype=self.dtype)
