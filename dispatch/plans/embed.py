"""Backward of views: a tensor embedded in zeros at a view's elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.allocator import storage_size
from ...runtime.tensor_spec import TensorSpec
from ..core.kernel_function import Plan, Planner
from ..core.operator_entry import OperatorEntry
from ..iterator.broadcast import expand_geometry
from ..structured.allocation import allocator_of
from ..structured.operand_checks import check_sizes_given
from ..structured.stub import StructuredCall, find_kernel, has_kernel
from ..tensor import Tensor
from .view_kernel import Geometry, taker


def _put(target: TensorSpec, geometry: Geometry, source: TensorSpec) -> Plan:
    """Return a plan that makes zeros of `target` and copies the argument, which broadcasts, into the view.

    Raises RuntimeError for a view outside of the target's elements, and for an argument of another shape.
    """
    part = TensorSpec.of(geometry.sizes, geometry.strides, target.dtype, target.device)
    last = geometry.offset + storage_size(part.sizes, part.strides) - 1
    if part.numel and (min(geometry.offset, *part.strides, 0) < 0 or last >= target.numel):
        raise RuntimeError(
            f"the view's sizes {list(part.sizes)}, strides {list(part.strides)} and offset {geometry.offset} reach "
            f"beyond the {target.numel} elements of the input, whose sizes are {list(target.sizes)}"
        )
    if source.sizes != part.sizes:
        sizes, strides = expand_geometry(source.sizes, source.strides, part.sizes)
        source = source.replace(sizes=sizes, strides=strides)
    if part.overlaps:
        raise RuntimeError(
            "the view's elements overlap, so a copy cannot be its backward; clone() the view first"
        )
    allocate = allocator_of(target)
    if target.is_meta:
        return lambda self: Tensor.from_data(allocate(), target)
    take = taker(target, part, geometry)
    if not has_kernel("zero_stub", target.device.type) or not has_kernel("copy_stub", target.device.type):
        return _put_by_backend(target, part, take)
    zero_call = StructuredCall("zero", {"self": target}, (), (target,), None, target.device, {})
    zero = find_kernel("zero_stub", target.device.type, "zero_")(zero_call).into
    copy_call = StructuredCall("copy", {"self": source}, ("self",), (part,), None, target.device, {})
    copy = find_kernel("copy_stub", target.device.type, "copy_")(copy_call).into

    def plan(self: Tensor) -> Tensor:
        data = allocate()
        zero(data)
        copy(take(data), self._data)
        return Tensor.from_data(data, target)

    return plan


def _put_by_backend(target: TensorSpec, part: TensorSpec, take: Callable[[Any], Any]) -> Plan:
    """Return the same plan with dispatched operators, for an out-of-tree backend."""
    from ..generated.functions import zero_

    allocate = allocator_of(target)

    def plan(self: Tensor) -> Any:
        out: Any = Tensor.from_data(allocate(), target)
        zero_(out)
        Tensor.from_data(take(out._data), part).copy_(self.detach())
        return out

    return plan


def embedded(geometry: Callable[..., Geometry]) -> Planner:
    """Return the planner of ``<view>_backward(grad_output, input_sizes, *arguments of the view)``."""

    def planner(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        source: TensorSpec = args[0]._spec.detached
        check_sizes_given(op.name, "input_sizes", args[1])
        target = TensorSpec.contiguous(tuple(args[1]), source.dtype, source.device)
        return _put(target, geometry(target, *args[2:]), source)

    return planner


def as_strided_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``_as_strided_backward(grad_output, input_sizes, input_strides, size, stride, offset)``."""
    source: TensorSpec = args[0]._spec.detached
    for argument, sizes, strides in (("input", args[1], args[2]), ("the view", args[3], args[4])):
        check_sizes_given(op.name, argument, sizes)
        if len(sizes) != len(strides):
            raise RuntimeError(
                f"{op.name}: expected {argument} to have as many sizes as strides, but got {list(sizes)} and "
                f"{list(strides)}"
            )
    target = TensorSpec.of(tuple(args[1]), tuple(args[2]), source.dtype, source.device)
    if not target.is_dense():
        raise RuntimeError("as_strided backward: the input's elements overlap or have gaps; clone() it first")
    return _put(target, Geometry(tuple(args[3]), tuple(args[4]), args[5]), source)
