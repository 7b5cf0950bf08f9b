"""View operators: a geometry function of specs gives sizes, strides and offset; no bytes move.

The result shares its base's bytes and version counter, and remembers the base, so that autograd can rewrite
the base's history when the view is written to.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...runtime.data_ptr import DataPtr
from ...runtime.device import CPU
from ...runtime.grad_mode import grad_disabled
from ...runtime.layout import strided
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.storage import address_of, in_memory_order, root_of
from ...runtime.tensor_spec import TensorSpec
from ..autograd.creation import mark_unrecorded
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..tensor import Tensor


class Geometry(NamedTuple):
    """Where a view's elements are: sizes, strides and offset in elements of the result's dtype.

    `numpy_index` is the same as a NumPy index, where there is one, which is the quickest way to the host's view;
    `axes` says that it is the input with its dimensions in this order.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    numpy_index: tuple[Any, ...] | None = None
    dtype: ScalarType | None = None
    axes: tuple[int, ...] | None = None


GeometryFunction = Callable[..., Geometry]


class ViewKernel:
    """The planner of a view operator. `geometry(spec, *static arguments)` may refuse a view."""

    __slots__ = ("geometry", "tracked")

    def __init__(self, geometry: GeometryFunction, tracked: bool = True) -> None:
        self.geometry = geometry
        self.tracked = tracked

    def __call__(self, op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        """The plan for bound arguments."""
        plan = self.plan_for([args[0]._spec, *args[1:]])
        plan.of_kind = (op, self.plan_for)  # type: ignore[attr-defined]
        return plan

    def plan_for(self, specs: Sequence[Any]) -> Plan:
        """The plan for a tensor of this spec and static arguments."""
        spec = specs[0]
        geometry = self.geometry(*specs)
        sizes, strides, _, _, dtype, _ = geometry
        if spec.is_inference or spec.read_only or spec.layout is not strided:
            result = spec.replace(sizes=sizes, strides=strides, dtype=dtype, requires_grad=False)
        else:
            result = TensorSpec.of(sizes, strides, dtype or spec.dtype, spec.device)
        take = taker(spec, result, geometry)
        if spec.is_inference:

            def inference_view(self: Any) -> Any:
                return Tensor.from_data(take(self._data), result)

            return inference_view
        if not self.tracked:

            def untracked(self: Any) -> Any:
                out = Tensor()
                out._data = take(self._data)
                out._spec = result
                cell = self._version_cell
                if cell is None:
                    cell = self._version_cell = [0]
                out._version_cell = cell
                out._autograd = out._view_base = None
                return out

            return untracked

        def view(self: Any) -> Any:
            out = Tensor()
            out._data = take(self._data)
            out._spec = result
            cell = self._version_cell
            if cell is None:
                cell = self._version_cell = [0]
            out._version_cell = cell
            out._autograd = None
            base = self._view_base
            if base is None:
                out._view_base = self
                out._creation = None
            else:
                out._view_base = base
                try:
                    out._creation = self._creation
                except AttributeError:  # made elsewhere, unmarked
                    out._creation = None
            if grad_disabled:
                mark_unrecorded(out)
            return out

        return view


def _itself(data: Any) -> Any:
    return data


def taker(spec: TensorSpec, result: TensorSpec, geometry: Geometry) -> Callable[[Any], Any]:
    """The cheapest function from a tensor's bytes to its view's."""
    sizes, strides, offset = result.sizes, result.strides, geometry.offset
    itemsize = result.itemsize
    if result.dtype is not spec.dtype:
        if spec.device is CPU and result.is_contiguous:
            return lambda data: whole_as(data, spec, result)
        return lambda data: reinterpreted(data, spec, result)
    if spec.device is not CPU:
        if offset == 0:
            return _itself
        nbytes = offset * itemsize
        return lambda data: DataPtr.offset_by(data, nbytes)
    if sizes == spec.sizes and strides == spec.strides:
        return _itself
    if offset == 0 and result.numel == spec.numel:
        if spec.is_contiguous and result.is_contiguous:
            return lambda data: data.reshape(sizes)
        axes = geometry.axes or _permutation(spec, result)
        if axes is not None:
            is_reversed = axes == tuple(range(len(axes) - 1, -1, -1))
            return operator.attrgetter("T") if is_reversed else operator.methodcaller("transpose", axes)
    if geometry.numpy_index is not None:
        return operator.itemgetter((*geometry.numpy_index, Ellipsis))
    last = offset
    for size, stride in zip(sizes, strides, strict=True):
        last += (size - 1) * stride
    if spec.is_contiguous and result.numel and offset >= 0 and last < spec.numel:
        nbytes = offset * itemsize
        byte_strides = tuple([s * itemsize for s in strides])
        np_dtype = result.np_dtype
        ndarray = np.ndarray
        return lambda data: ndarray(sizes, np_dtype, data, nbytes, byte_strides)
    return lambda data: at_first(data, result, offset)


def _permutation(spec: TensorSpec, result: TensorSpec) -> tuple[int, ...] | None:
    if spec.ndim != result.ndim:
        return None
    remaining = list(range(spec.ndim))
    axes = []
    for size, stride in zip(result.sizes, result.strides, strict=True):
        found = next((i for i in remaining if spec.sizes[i] == size and spec.strides[i] == stride), None)
        if found is None:
            return None
        remaining.remove(found)
        axes.append(found)
    return tuple(axes)


def at_first(data: Any, result: TensorSpec, offset: int) -> Any:
    """Host bytes of a view `offset` elements after the first of `data`, whatever its strides."""
    root = root_of(data)
    if result.numel == 0:
        return np.ndarray(result.sizes, result.np_dtype)
    return _over(root, result, address_of(data) - address_of(root) + offset * result.itemsize)


def whole_as(data: Any, spec: TensorSpec, result: TensorSpec) -> Any:
    """`reinterpreted`, for host bytes without gaps, which most often are all of their memory."""
    base = data.base
    if data.size and (base is None or (type(base) is np.ndarray and base.nbytes == data.nbytes)):
        return np.ndarray(result.sizes, result.np_dtype, data)
    return reinterpreted(data, spec, result)


def reinterpreted(data: Any, spec: TensorSpec, result: TensorSpec) -> Any:
    """The same bytes as another dtype. Raises RuntimeError where they start within an element of it."""
    distance = address_of(data) - address_of(root_of(data))
    if distance % result.itemsize:
        ratio = result.itemsize // spec.itemsize
        raise RuntimeError(
            f"self.storage_offset() must be divisible by {ratio} to view {spec.dtype.scalar_name} as "
            f"{result.dtype.scalar_name} (different element sizes), but got {distance // spec.itemsize}"
        )
    return data if isinstance(data, DataPtr) else at_first(data, result, 0)


def _over(root: Any, result: TensorSpec, nbytes: int) -> Any:
    strides = tuple(s * result.itemsize for s in result.strides)
    return np.ndarray(result.sizes, result.np_dtype, in_memory_order(root), nbytes, strides)
