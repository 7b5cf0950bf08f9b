"""Factories made of others: ranges, identities, fills, ``out=`` forms."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.determinism import fills_uninitialized_memory
from ...runtime.device import CPU, META
from ...runtime.device import device as Device
from ...runtime.layout import sparse_coo
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import complex128, dtype_of_fill, float32, float64, get_default_dtype, int64
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from ...runtime.user_frame import levels_to_user
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..generated.functions import _arange_, _linspace_, as_strided, empty, empty_like, empty_strided, fill_
from ..iterator.overlap import shares_memory
from ..plans.host_kernel import host_kernel, is_unseen
from ..plans.register import planned_by
from ..scalars import element_of, overflow_error, truncated
from ..structured.allocation import allocator_of, numpy_may_allocate
from ..structured.deterministic_fill import fill_uninitialized
from ..structured.meta.factories import is_sparse, spec_from
from ..structured.resizing import resize_to_length
from ..structured.stub import StructuredCall, find_kernel
from ..tensor import Tensor, blank_tensor
from .dimnames import named_factory
from .filled import plan_eye, plan_eye_m, plan_full, plan_full_like
from .triangles import tril_indices as tril_indices
from .triangles import triu_indices as triu_indices

if TYPE_CHECKING:
    from ...runtime.layout import layout as Layout
    from ...runtime.memory_format import memory_format as MemoryFormat
    from ...runtime.scalar_type import Number


@planned_by(plan_full)
def full(
    size: Sequence[int],
    fill_value: Number,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return `torch.full`; `dtype` defaults to the type of the value."""
    if is_sparse(layout):
        raise RuntimeError(f"full(...) is not implemented for sparse layout: {layout}")
    chosen = dtype_of_fill(fill_value.__class__) if dtype is None else dtype
    return empty(tuple(size), dtype=chosen, layout=layout, device=device, pin_memory=pin).fill_(fill_value)


@planned_by(plan_full_like)
def full_like(
    self: Tensor,
    value: Number,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
    fmt: MemoryFormat | None,
) -> Tensor:
    """Return `torch.full_like`; sizes, dtype and device default to those of `self`."""
    return empty_like(
        self, dtype=dtype, layout=layout, device=device, pin_memory=pin, memory_format=fmt
    ).fill_(value)


def new_full(
    self: Tensor,
    size: Sequence[int],
    value: Number,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return `torch.Tensor.new_full`; dtype and device default to those of `self`."""
    return self.new_empty(tuple(size), dtype=dtype, layout=layout, device=device, pin_memory=pin).fill_(value)


def empty_out(size: Sequence[int], memory_format: MemoryFormat | None, out: Tensor) -> Tensor:
    """Run ``empty(size, out=)``: resize the output without a write."""
    if out._spec.layout is sparse_coo:
        return out.sparse_resize_and_clear_(size, len(size), 0)
    out.resize_(size, memory_format=memory_format)
    if fills_uninitialized_memory():
        fill_uninitialized(out._data, out._spec)
    return out


def zeros_out(size: Sequence[int], out: Tensor) -> Tensor:
    """Run ``zeros(size, out=)``."""
    if out._spec.layout is sparse_coo:
        return out.sparse_resize_and_clear_(size, len(size), 0)
    return out.resize_(size).zero_()


def ones_out(size: Sequence[int], out: Tensor) -> Tensor:
    """Run ``ones(size, out=)``."""
    return out.resize_(size).fill_(1)


def full_out(size: Sequence[int], fill_value: Number, out: Tensor) -> Tensor:
    """Run ``full(size, fill_value, out=)``."""
    return out.resize_(size).fill_(fill_value)


def fill__tensor(self: Tensor, value: Tensor) -> Tensor:
    """Run ``fill_`` with a 0-d tensor."""
    if value.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
        )
    spec, part = self._spec, self
    if spec.overlaps:
        for dim, stride in enumerate(spec.strides):
            if stride == 0 and spec.sizes[dim] > 1:
                part = part.narrow(dim, 0, 1)
    if shares_memory(self, value):
        value = value.clone()
    part.copy_(value)
    return self


@host_kernel("fill", "empty_like", "fill_.Scalar")
def fill_scalar(self: Tensor, value: Number) -> Tensor:
    """Return `torch.fill`: a new tensor with the metadata of `self`, filled."""
    return empty_like(self).fill_(value)


def fill_tensor(self: Tensor, value: Tensor) -> Tensor:
    """Return `torch.fill` with a 0-d tensor."""
    return empty_like(self).fill_(value)


def zero_(self: Tensor) -> Tensor:
    """Run ``zero_`` for a backend without its own kernel."""
    return self.fill_(0)


def scalar_tensor(
    s: Number, dtype: ScalarType | None, layout: Layout | None, device: Device | None, pin: bool | None
) -> Tensor:
    """Return `torch.scalar_tensor`: a 0-d tensor; `dtype` defaults to the default dtype."""
    return empty((), dtype=dtype or get_default_dtype(), layout=layout, device=device, pin_memory=pin).fill_(
        s
    )


def _range_dtype(*numbers: Number) -> ScalarType:
    """Return int64 for integers, else the default dtype."""
    return int64 if all(isinstance(n, int) for n in numbers) else get_default_dtype()


def _range_length(start: Any, end: Any, step: Any, dtype: ScalarType) -> int:
    """Return the number of elements of `arange`. Raises RuntimeError for a zero step or an infinite range."""
    if any(isinstance(n, complex) for n in (start, end, step)):
        raise RuntimeError(f"arange(): complex bounds are not supported, got {start} -> {end} by {step}")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end < start) if step > 0 else (end > start):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is int64:
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise ValueError("step must be nonzero")
        if not all(-(1 << 63) <= n < 1 << 63 for n in (start, end, step)):
            raise overflow_error(int64)
        length = max(0, -((int(start) - int(end)) // int(step)))
        if length >= 1 << 63:
            raise RuntimeError(f"invalid size, possible overflow? arange({start}, {end}, {step})")
        return length
    distance = (end - start) / step
    if not distance < 1 << 63:
        raise RuntimeError(f"invalid size, possible overflow? arange({start}, {end}, {step})")
    elements: int = math.ceil(distance)
    return elements


TEMPLATE_BYTES, TEMPLATES = 1 << 10, 256
"""Maximum size in bytes of cached ranges, and number of cached ranges per plan; a call copies a cached range."""


def _plan_range(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan a short integer range on the host as a copy of a cached range."""
    count = len(args) - 4
    composed = op.rebind((arange, arange_start, arange_start_step)[count - 1], args)
    whole = all(n.__class__ is int for n in args[:count])
    if not whole or args[-1] or not is_unseen(key_set, ("aten::empty.memory_format", "aten::_arange_")):
        return composed
    templates: dict[Any, Any] = {}

    def planned(*numbers: int) -> Any:
        template = templates.get(numbers)
        if template is None:
            made = composed(*numbers)
            if (
                made._spec.nbytes <= TEMPLATE_BYTES
                and len(templates) < TEMPLATES
                and numpy_may_allocate(made._spec)
            ):
                templates[numbers] = (made._data.copy(), made._spec)
            return made
        out = blank_tensor()
        out._data = template[0].copy()
        out._spec = template[1]
        out._version_cell = out._autograd = out._view_base = None
        return out

    return planned


@planned_by(_plan_range)
def arange_start_step(
    start: Number,
    end: Number,
    step: Number,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return `torch.arange`: start, start + step, ... below `end`."""
    chosen = _range_dtype(start, end, step) if dtype is None else dtype
    length = _range_length(start, end, step, chosen)
    return _arange_(empty(length, dtype=chosen, layout=layout, device=device, pin_memory=pin), start, step)


@planned_by(_plan_range)
def arange_start(
    start: Number,
    end: Number,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return ``arange(start, end)``."""
    return arange_start_step(start, end, 1, dtype, layout, device, pin)


@planned_by(_plan_range)
def arange(
    end: Number, dtype: ScalarType | None, layout: Layout | None, device: Device | None, pin: bool | None
) -> Tensor:
    """Return ``arange(end)``."""
    return arange_start_step(0, end, 1, dtype, layout, device, pin)


def arange_start_out(start: Number, end: Number, step: Number, out: Tensor) -> Tensor:
    """Run ``arange(start, end, step, out=)``; an output with the right number of elements keeps its shape."""
    resize_to_length(out, _range_length(start, end, step, out.dtype))
    return _arange_(out, start, step)


def arange_out(end: Number, out: Tensor) -> Tensor:
    """Run ``arange(end, out=)``."""
    return arange_start_out(0, end, 1, out)


def _closed_length(start: Any, end: Any, step: Any) -> int:
    """Warn of `range`, and return the number of its elements, with its end. Raises RuntimeError as `arange`."""
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning,
        stacklevel=levels_to_user(),
    )
    _range_length(start, end, step, get_default_dtype())
    steps: int = math.floor((end - start) / step)
    return steps + 1


def range_step(
    start: Number,
    end: Number,
    step: Number,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return `torch.range`: start, start + step, ... up to and including `end`, in the default dtype unless given."""
    length = _closed_length(start, end, step)
    made = empty(length, dtype=dtype or get_default_dtype(), layout=layout, device=device, pin_memory=pin)
    return _arange_(made, start, step)


def range_start(
    start: Number,
    end: Number,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return ``range(start, end)``."""
    return range_step(start, end, 1, dtype, layout, device, pin)


def range_out(start: Number, end: Number, step: Number, out: Tensor) -> Tensor:
    """Run ``range(start, end, step, out=)``; an output with the right number of elements keeps its shape."""
    length = _closed_length(start, end, step)
    if out.numel() != length:
        out.resize_((length,))
    return _arange_(out, start, step)


def range_start_out(start: Number, end: Number, out: Tensor) -> Tensor:
    """Run ``range(start, end, out=)``."""
    return range_out(start, end, 1, out)


def fill_diagonal_(self: Tensor, fill_value: Number, wrap: bool) -> Tensor:
    """Fill the main diagonal (`torch.Tensor.fill_diagonal_`); with `wrap`, start again below each square."""
    sizes, strides = self._spec.sizes, self._spec.strides
    if len(sizes) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(sizes) > 2 and len(set(sizes)) != 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    if 0 in sizes:
        return self
    starts, offset = [0], self.storage_offset()
    rows, columns = sizes[0], sizes[1]
    if wrap and len(sizes) == 2 and rows > columns + 1:
        starts = list(range(0, rows, columns + 1))
    for start in starts:
        length = min(rows - start, columns)
        diagonal = as_strided(self, [length], [sum(strides)], offset + start * strides[0])
        fill_(diagonal, fill_value)
    return self


def _check_bounds(name: str, start: Tensor | Number, end: Tensor | Number) -> None:
    """Check that tensor bounds of a `linspace` or `logspace` are 0-d."""
    bounds = {"start": start, "end": end}
    tensors = {
        bound_name: bound.ndim for bound_name, bound in bounds.items() if isinstance(bound, TensorImpl)
    }
    if any(tensors.values()):
        got = " and ".join(f"{bound_name} with {ndim} dimension(s)" for bound_name, ndim in tensors.items())
        raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, but got {got}.")


def _number(bound: Any) -> Any:
    is_tensor: bool = isinstance(bound, TensorImpl)
    return bound.item() if is_tensor else bound


def _plan_linspace(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan new host memory, filled in one step between numbers or one-element tensors."""
    start, end, steps, *options = args
    base, dtype = (options[0], options[1:]) if len(options) == 5 else (None, options)
    dtype, layout, device, pin = dtype
    bounds = (start, end)
    if (
        pin
        or steps < 0
        or (base is not None and steps)
        or (dtype is not None and not dtype.is_floating_point)
    ):
        return None
    for bound in bounds:
        if isinstance(bound, TensorImpl):
            spec = bound._spec
            if spec.ndim or spec.dtype.is_complex or spec.requires_grad:
                return None
        elif isinstance(bound, complex):
            return None
    if not is_unseen(key_set, ("aten::empty.memory_format", "aten::_linspace_")):
        return None
    made = spec_from("linspace", (steps,), dtype, layout, device)
    if made.device is not CPU:
        return None
    allocate = allocator_of(made)
    numbers: dict[str, Any] = {"self": made, "start": float, "end": float}
    call = StructuredCall("_linspace_", numbers, ("self", "start", "end"), (made,), None, CPU, {})
    fill = find_kernel("linspace_stub", "cpu", "_linspace_")(call).into
    tensors = any(isinstance(bound, TensorImpl) for bound in bounds)

    def plan(start: Any, end: Any, *_: Any) -> Tensor:
        out = blank_tensor()
        out._data = data = allocate()
        if steps:
            if tensors:
                start, end = _number(start), _number(end)
            fill(data, data, start, end)
        out._spec = made
        out._version_cell = out._autograd = out._view_base = None
        return out

    return plan


@planned_by(_plan_linspace)
def linspace(
    start: Any,
    end: Any,
    steps: int,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return `torch.linspace`: `steps` values from `start` to `end`, both included."""
    return _filled_linspace("linspace", start, end, steps, dtype, layout, device, pin)


def _filled_linspace(
    name: str,
    start: Any,
    end: Any,
    steps: int,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return the numbers of `linspace`, or the exponents of `logspace`."""
    _check_bounds(name, start, end)
    if any(isinstance(bound, TensorImpl) and bound.is_meta for bound in (start, end)):
        start, end, device = 0, 0, META
    start, end = _number(start), _number(end)
    has_complex = isinstance(start, complex) or isinstance(end, complex)
    if dtype is None:
        dtype = get_default_dtype().to_complex() if has_complex else get_default_dtype()
    elif has_complex and not dtype.is_complex:
        raise RuntimeError(
            f"torch.{name}(): inferred dtype {get_default_dtype().to_complex()} can't be safely cast to passed "
            f"dtype {dtype.scalar_name}"
        )
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return _linspace_(empty(steps, dtype=dtype, layout=layout, device=device, pin_memory=pin), start, end)


def linspace_out(start: Tensor | Number, end: Tensor | Number, steps: int, out: Tensor) -> Tensor:
    """Run ``linspace(start, end, steps, out=)``."""
    _check_bounds("linspace", start, end)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if out.numel() != steps:
        out.resize_((steps,))
    return _linspace_(out, _number(start), _number(end))


def _check_eye(n: int, m: int) -> None:
    if n < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {n}")
    if m < 0:
        raise RuntimeError(f"m must be greater or equal to 0, got {m}")


def _with_diagonal(out: Tensor) -> Tensor:
    """Return zeros with ones on the diagonal."""
    out.zero_()
    rows, columns = out.shape
    if rows and columns:
        step = out.stride(0) + out.stride(1)
        out.detach().as_strided((min(rows, columns),), (step,)).fill_(1)
    return out


@planned_by(plan_eye_m)
def eye_m(
    n: int, m: int, dtype: ScalarType | None, layout: Layout | None, device: Device | None, pin: bool | None
) -> Tensor:
    """Return `torch.eye`, with n rows and m columns."""
    _check_eye(n, m)
    return _with_diagonal(empty((n, m), dtype=dtype, layout=layout, device=device, pin_memory=pin))


@planned_by(plan_eye)
def eye(
    n: int, dtype: ScalarType | None, layout: Layout | None, device: Device | None, pin: bool | None
) -> Tensor:
    """Return ``eye(n)``: a square identity matrix."""
    return eye_m(n, n, dtype, layout, device, pin)


def eye_m_out(n: int, m: int, out: Tensor) -> Tensor:
    """Run ``eye(n, m, out=)``."""
    _check_eye(n, m)
    return _with_diagonal(out.resize_((n, m)))


def eye_out(n: int, out: Tensor) -> Tensor:
    """Run ``eye(n, out=)``."""
    return eye_m_out(n, n, out)


empty_named = named_factory("empty.memory_format", 1)
full_named = named_factory("full", 2)
zeros_named = named_factory("zeros", 1)
ones_named = named_factory("ones", 1)


@planned_by(_plan_linspace)
def logspace(
    start: Tensor | Number,
    end: Tensor | Number,
    steps: int,
    base: float,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return `torch.logspace`: `steps` powers of `base`, with exponents from `start` to `end`."""
    _check_bounds("logspace", start, end)
    is_integral = dtype is not None and not (dtype.is_floating_point or dtype.is_complex)
    is_narrow = dtype is not None and dtype.is_floating_point and dtype.itemsize < float32.itemsize
    if dtype is not None and (is_integral or is_narrow):
        for number in (start, end):
            if isinstance(number, int | float):
                element_of(number, dtype if is_integral else float32)
    # The result's dtype may be unable to represent the exponents.
    first, last = (0, 0) if is_integral or is_narrow else (start, end)
    made = _filled_linspace("logspace", first, last, steps, dtype, layout, device, pin)
    return powers(made, start, end, base)


def logspace_out(
    start: Tensor | Number, end: Tensor | Number, steps: int, base: float, out: Tensor
) -> Tensor:
    """Run ``logspace(start, end, steps, base, out=)``."""
    _check_bounds("logspace", start, end)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if out.numel() != steps:
        out.resize_((steps,))
    return powers(out, start, end, base)


def _integer(bound: Any, dtype: ScalarType) -> int:
    """Truncate a bound to an integer; a tensor's element, too."""
    number = bound.item() if isinstance(bound, Tensor) else bound
    if isinstance(number, complex):
        raise overflow_error(dtype)
    return truncated(number, dtype.name)


def powers(out: Tensor, start: Any, end: Any, base: float) -> Tensor:
    """Write powers of `base` to `out`, computed in double precision for any dtype.

    As in ATen's kernel, integers are powers from integer exponents to integer exponents.
    """
    wide = complex128 if out.dtype.is_complex else float64
    if not (out.dtype.is_floating_point or out.dtype.is_complex):
        start, end = (_integer(bound, out.dtype) for bound in (start, end))
    if out.is_meta:
        return out
    exponents = linspace(start, end, out.numel(), wide, None, out.device, None)
    return out.copy_((base**exponents).reshape(out.shape))


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return `torch.empty_permuted`: a dense tensor whose dimensions are in the order `physical_layout` in memory."""
    rank = len(size)
    if len(physical_layout) != rank:
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {rank} "
            f"is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    seen: set[int] = set()
    for index, dim in enumerate(physical_layout):
        if not 0 <= dim < rank:
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {rank - 1}, but got {dim} at index {index}).  "
                "NB: negative dims not currently supported; file an issue if you want it."
            )
        if dim in seen:
            raise RuntimeError("Duplicate dim not allowed")
        seen.add(dim)
    strides = contiguous_strides(tuple(size[d] for d in physical_layout))
    logical = [strides[list(physical_layout).index(d)] for d in range(rank)]
    return empty_strided(size, logical, dtype=dtype, layout=layout, device=device, pin_memory=pin)
