"""View operators: a geometry function of specs returns sizes, strides and offset; no data moves.

The result shares its base's memory and version counter, and remembers the base. Autograd can thus rewrite the base's
history when the view is written to.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ...runtime.data_ptr import DataPtr
from ...runtime.device import CPU
from ...runtime.dispatch_key import highest_priority
from ...runtime.grad_mode import grad_disabled
from ...runtime.layout import strided
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.storage import address_of, in_memory_order, root_of
from ...runtime.tensor_spec import TensorSpec
from ...runtime.traceback_filter import HANDLER, hide_inner_frames
from ...runtime.written_code import defined
from ..autograd.creation import mark_unrecorded
from ..core.call_kind import leave_replanner
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..tensor import Tensor, blank_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 2**63

Bytes = TypeVar("Bytes", DataPtr, "NDArray[Any]")


class Geometry(NamedTuple):
    """Geometry of a view: sizes, strides and offset in elements of the result's dtype.

    `numpy_index` is the equivalent NumPy index, if one exists: the fastest way to the host's view. `axes` is set for
    a permutation of the input's dimensions.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    numpy_index: tuple[Any, ...] | None = None
    dtype: ScalarType | None = None
    axes: tuple[int, ...] | None = None


GeometryFunction = Callable[..., Geometry]


class ViewKernel:
    """Planner of a view operator. `geometry(spec, *static arguments)` may raise for an impossible view."""

    __slots__ = ("check", "geometry", "tracked")

    def __init__(
        self, geometry: GeometryFunction, check: Callable[..., None] | None = None, tracked: bool = True
    ) -> None:
        self.geometry = geometry
        self.check = check
        self.tracked = tracked

    def __call__(self, op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        """Return the plan for bound arguments. Raises NotImplementedError for a tensor that is not strided."""
        if args[0]._spec.layout is not strided:
            raise NotImplementedError(op.missing_kernel(key_set, highest_priority(key_set)))
        specs = [args[0]._spec, *args[1:]]
        if self.check is None:
            return leave_replanner(self.plan_for(specs), op, self.plan_for)
        self.check(*args)
        return leave_replanner(self.plan_for(specs), op, self._plan_unless_refused)

    def _plan_unless_refused(self, specs: Sequence[Any]) -> Plan | None:
        """Return the plan; None for an impossible view, so that a full planning checks the tensor first."""
        try:
            return self.plan_for(specs)
        except RuntimeError:
            return None

    def plan_for(self, specs: Sequence[Any]) -> Plan:
        """Return the plan for a tensor of this spec and static arguments."""
        spec = specs[0]
        geometry = self.geometry(*specs)
        sizes, strides, _, _, dtype, _ = geometry
        if spec.is_inference or spec.read_only:
            result = spec.replace(sizes=sizes, strides=strides, dtype=dtype, requires_grad=False)
        else:
            result = TensorSpec.of(sizes, strides, dtype or spec.dtype, spec.device)
        if spec.is_inference:
            take = taker(spec, result, geometry)

            def inference_view(self: Tensor) -> Tensor:
                return Tensor.from_data(take(self._data), result)

            return inference_view
        if self.tracked:
            expression, constants = _taken(spec, result, geometry)
            return view_maker(expression, tuple(constants))(result, **constants)
        take = taker(spec, result, geometry)

        def untracked(self: Tensor) -> Tensor:
            out = blank_tensor()
            out._data = take(self._data)
            out._spec = result
            cell = self._version_cell
            if cell is None:
                cell = self._version_cell = [0]
            out._version_cell = cell
            out._autograd = out._view_base = None
            return out

        return untracked


_VIEW = """
def make(result, {constants}):
    def view(self{parameters}):
        data = self._data
        {before}
        out = blank_tensor()
        try: out._data = {expression}
        {handler}
        out._spec = result
        cell = self._version_cell
        if cell is None:
            cell = self._version_cell = [0]
        elif cell[0]:
            out._made_at = cell[0]
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
"""


@functools.cache
def view_maker(
    expression: str, constants: tuple[str, ...], parameters: str = "", before: str = "pass"
) -> Callable[..., Plan]:
    """Return a function from a result's spec and named values of the expression, to the plan of a tracked view.

    The function is generated: a call to another function for the memory would take a tenth of a view's time.

    Args:
        expression: The view's memory, in terms of the tensor's own as ``data``.
        constants: Names of constants in the expression.
        parameters: Further parameters of the plan.
        before: A statement that checks those; it may name `hide_inner_frames`.
    """
    names: dict[str, Any] = {
        "blank_tensor": blank_tensor,
        "__name__": __name__,
        "grad_disabled": grad_disabled,
        "hide_inner_frames": hide_inner_frames,
        "mark_unrecorded": mark_unrecorded,
        "ndarray": np.ndarray,
    }
    text = _VIEW.format(
        constants=", ".join(constants),
        parameters=parameters,
        before=before,
        expression=expression,
        handler=HANDLER,
    )
    made: Callable[..., Plan] = defined("make", text, f"plan of {expression}", names)
    return made


def taker(spec: TensorSpec, result: TensorSpec, geometry: Geometry) -> Callable[[Any], Any]:
    """Return the cheapest function from a tensor's memory to its view's."""
    expression, constants = _taken(spec, result, geometry)
    return _taker_maker(expression, tuple(constants))(**constants)


@functools.cache
def _taker_maker(expression: str, constants: tuple[str, ...]) -> Callable[..., Callable[[Any], Any]]:
    text = f"def make({', '.join(constants)}):\n    return lambda data: {expression}\n"
    names = {"__name__": __name__, "ndarray": np.ndarray}
    made: Callable[..., Callable[[Any], Any]] = defined("make", text, f"view {expression}", names)
    return made


def _taken(spec: TensorSpec, result: TensorSpec, geometry: Geometry) -> tuple[str, dict[str, Any]]:
    """Return the cheapest expression of a view's memory, from ``data``, a tensor's own, and the values of its names."""
    sizes, strides, offset = result.sizes, result.strides, geometry.offset
    itemsize = result.itemsize
    if result.dtype is not spec.dtype:
        cast = whole_as if spec.device is CPU and result.is_contiguous else reinterpreted
        return "cast(data, spec, seen)", {"cast": cast, "spec": spec, "seen": result}
    if spec.device is not CPU:
        return ("data.offset_by(nbytes)", {"nbytes": offset * itemsize}) if offset else ("data", {})
    if sizes == spec.sizes and strides == spec.strides and not offset:
        return "data", {}
    if offset == 0 and result.numel == spec.numel:
        if spec.is_contiguous and result.is_contiguous:
            return "data.reshape(sizes)", {"sizes": sizes}
        axes = geometry.axes or _permutation(spec, result)
        if axes is not None:
            is_reversed = axes == tuple(range(len(axes) - 1, -1, -1))
            return ("data.T", {}) if is_reversed else ("data.transpose(axes)", {"axes": axes})
        if result.numel and _is_squeezed(spec, result):
            return "data.reshape(sizes)", {"sizes": sizes}
    if geometry.numpy_index is not None:
        return "data[index]", {"index": (*geometry.numpy_index, Ellipsis)}
    last = offset
    for size, stride in zip(sizes, strides, strict=True):
        last += (size - 1) * stride
    if spec.is_contiguous and result.numel and offset >= 0 and last < spec.numel:
        return "ndarray(sizes, np_dtype, data, nbytes, byte_strides)", {
            "sizes": sizes,
            "np_dtype": result.np_dtype,
            "nbytes": offset * itemsize,
            "byte_strides": byte_strides(sizes, strides, itemsize),
        }
    return "at_first(data, seen, offset)", {"at_first": at_first, "seen": result, "offset": offset}


def _is_squeezed(spec: TensorSpec, result: TensorSpec) -> bool:
    """Return whether two specs differ in dimensions of size 1 alone: NumPy then reshapes without a copy."""
    return [pair for pair in zip(spec.sizes, spec.strides, strict=True) if pair[0] != 1] == [
        pair for pair in zip(result.sizes, result.strides, strict=True) if pair[0] != 1
    ]


def _permutation(spec: TensorSpec, result: TensorSpec) -> tuple[int, ...] | None:
    if spec.ndim != result.ndim:
        return None
    remaining = list(range(spec.ndim))
    axes = []
    for size, stride in zip(result.sizes, result.strides, strict=True):
        axis = next((i for i in remaining if spec.sizes[i] == size and spec.strides[i] == stride), None)
        if axis is None:
            return None
        remaining.remove(axis)
        axes.append(axis)
    return tuple(axes)


def byte_strides(sizes: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return strides in bytes, with 0 for single-element dimensions whose strides exceed 64 bits."""
    scaled = [s * itemsize for s in strides]
    return tuple(
        [step if n > 1 or -LARGEST <= step < LARGEST else 0 for n, step in zip(sizes, scaled, strict=True)]
    )


def at_first(data: NDArray[Any], result: TensorSpec, offset: int) -> NDArray[Any]:
    """Return host memory of a view that starts `offset` elements after the first of `data`, for any strides."""
    root = root_of(data)
    if result.numel == 0:
        return np.ndarray(result.sizes, result.np_dtype)
    return _over(root, result, address_of(data) - address_of(root) + offset * result.itemsize)


def whole_as(data: NDArray[Any], spec: TensorSpec, result: TensorSpec) -> NDArray[Any]:
    """Return `reinterpreted` for dense host memory, which usually spans its whole allocation."""
    base = data.base
    if data.size and (base is None or (type(base) is np.ndarray and base.nbytes == data.nbytes)):
        return np.ndarray(result.sizes, result.np_dtype, data)
    return reinterpreted(data, spec, result)


def reinterpreted(data: Bytes, spec: TensorSpec, result: TensorSpec) -> Bytes:
    """Return the same memory as another dtype. Raises RuntimeError if it is misaligned for that dtype."""
    _check_offset(data, spec, result.dtype)
    return data if isinstance(data, DataPtr) else at_first(data, result, 0)


def _check_offset(data: Bytes, spec: TensorSpec, dtype: ScalarType) -> None:
    distance = address_of(data) - address_of(root_of(data))
    if distance % dtype.itemsize:
        ratio = dtype.itemsize // spec.itemsize
        raise RuntimeError(
            f"self.storage_offset() must be divisible by {ratio} to view {spec.dtype.scalar_name} as "
            f"{dtype.scalar_name} (different element sizes), but got {distance // spec.itemsize}"
        )


def check_alignment(self: Tensor, dtype: ScalarType) -> None:
    """Raise RuntimeError for memory that is misaligned for wider elements, before strides are examined."""
    spec = self._spec
    ratio = dtype.itemsize // spec.itemsize
    if ratio > 1 and spec.numel and spec.ndim and not spec.is_meta and spec.sizes[-1] % ratio == 0:
        _check_offset(self._data, spec, dtype)


def _over(root: NDArray[Any], result: TensorSpec, nbytes: int) -> NDArray[Any]:
    strides = byte_strides(result.sizes, result.strides, result.itemsize)
    try:
        return np.ndarray(result.sizes, result.np_dtype, in_memory_order(root), nbytes, strides)
    except (ValueError, OverflowError, TypeError) as error:
        raise RuntimeError(
            f"a view of sizes {list(result.sizes)} and strides {list(result.strides)} at byte {nbytes} reaches beyond "
            f"its storage of {root.nbytes} bytes"
        ) from error
