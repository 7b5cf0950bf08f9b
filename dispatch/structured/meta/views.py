"""Geometries of view operators (ATen/native/TensorShape.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....runtime.device import CPU
from ....runtime.memory_format import contiguous_strides
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.scalar_type import float16, float32, float64
from ....runtime.tensor_spec import TensorSpec
from ....runtime.traceback_filter import HANDLER
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ...iterator.broadcast import expand_geometry
from ...plans.detach import detach as detach
from ...plans.embed import as_strided_backward as as_strided_backward
from ...plans.embed import embedded
from ...plans.view_kernel import Geometry, taker, view_maker
from ...tensor import Tensor
from ..operand_checks import check_sizes_given
from .dims import wrap_dim


def infer_size(sizes: Sequence[int], numel: int) -> tuple[int, ...]:
    """Return the sizes with a -1 filled in. Raises RuntimeError if they do not hold `numel` elements."""
    if len(sizes) == 1 and sizes[0] == -1:
        return (numel,)
    product, unknown_count = math.prod(sizes), sizes.count(-1)
    if unknown_count < 2 and sizes and min(sizes) >= -unknown_count:
        if not unknown_count:
            if product == numel:
                return tuple(sizes)
        elif product and numel % product == 0:
            result = list(sizes)
            result[result.index(-1)] = numel // -product
            return tuple(result)
    result = list(sizes)
    unknown = [i for i, n in enumerate(result) if n == -1]
    if len(unknown) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if any(n < -1 for n in result):
        raise RuntimeError(f"invalid shape dimension {min(result)}")
    known = math.prod(n for n in result if n != -1)
    if unknown:
        if known == 0:
            raise RuntimeError(
                f"cannot reshape tensor of {numel} elements into shape {result} because the unspecified "
                "dimension size "
                "-1 can be any value and is ambiguous"
            )
        if numel % known == 0:
            result[unknown[0]] = numel // known
            return tuple(result)
    elif known == numel:
        return tuple(result)
    raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {numel}")


def view_strides(
    sizes: Sequence[int], strides: Sequence[int], shape: Sequence[int]
) -> tuple[int, ...] | None:
    """Return strides that view the same elements in another shape; None if only a copy can (ATen computeStride)."""
    numel = math.prod(sizes)
    if numel == 0:
        if tuple(sizes) == tuple(shape):
            return tuple(strides)
        out = [1] * len(shape)
        for d in range(len(shape) - 2, -1, -1):
            out[d] = max(shape[d + 1], 1) * out[d + 1]
        return tuple(out)
    if not sizes:
        return (1,) * len(shape)
    out = [0] * len(shape)
    view_d = len(shape) - 1
    chunk_base = strides[-1]
    tensor_numel = 1
    view_numel = 1
    for d in range(len(sizes) - 1, -1, -1):
        tensor_numel *= sizes[d]
        if d == 0 or (sizes[d - 1] != 1 and strides[d - 1] != tensor_numel * chunk_base):
            while view_d >= 0 and (view_numel < tensor_numel or shape[view_d] == 1):
                out[view_d] = view_numel * chunk_base
                view_numel *= shape[view_d]
                view_d -= 1
            if view_numel != tensor_numel:
                return None
            if d > 0:
                chunk_base = strides[d - 1]
                tensor_numel = view_numel = 1
    return tuple(out) if view_d == -1 else None


def view(self: TensorSpec, size: Sequence[int]) -> Geometry:
    """Return another shape over the same elements."""
    shape = infer_size(size, self.numel)
    if self.is_contiguous and self.numel and 1 not in self.sizes:
        return Geometry(shape, contiguous_strides(shape))
    strides = view_strides(self.sizes, self.strides, shape)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return Geometry(shape, strides)


def _unsafe_view(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``_unsafe_view``: `view` of a temporary of the caller, so that the result is not a view to autograd."""
    spec: TensorSpec = args[0]._spec
    geometry = view(spec, args[1])
    result = spec.replace(sizes=geometry.sizes, strides=geometry.strides, requires_grad=False)
    take = taker(spec, result, geometry)
    return lambda self: Tensor.from_data(take(self._data), result)


def _strided_from(self: TensorSpec, size: Sequence[int], stride: Sequence[int], offset: int) -> Geometry:
    """Return any sizes and strides, `offset` elements after the tensor's first; `as_strided` checked the bounds."""
    check_sizes_given("_strided_from", "size", size)
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(stride)} and {len(size)}")
    return Geometry(tuple(size), tuple(stride), offset)


def expand(self: TensorSpec, size: Sequence[int], implicit: bool) -> Geometry:
    """Return the geometry with size-1 and new leading dimensions expanded."""
    sizes, strides = expand_geometry(self.sizes, self.strides, size)
    if min(sizes, default=0) < 0:
        raise RuntimeError(f"expand: sizes must be -1 or not negative, got {list(size)}")
    return Geometry(sizes, strides)


def permute(self: TensorSpec, dims: Sequence[int]) -> Geometry:
    """Return the dimensions in another order."""
    if len(dims) != self.ndim:
        raise RuntimeError(
            f"permute: number of dimensions in the tensor input ({self.ndim}) does not match the length of "
            "the "
            f"desired ordering of dimensions ({len(dims)})"
        )
    order = [wrap_dim(d, self.ndim) for d in dims]
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    sizes, strides = self.sizes, self.strides
    return Geometry(tuple([sizes[d] for d in order]), tuple([strides[d] for d in order]), axes=tuple(order))


def transpose(self: TensorSpec, dim0: int, dim1: int) -> Geometry:
    """Swap two dimensions."""
    rank = self.ndim
    a, b = wrap_dim(dim0, rank), wrap_dim(dim1, rank)
    if rank == 2 and a != b:
        return Geometry(self.sizes[::-1], self.strides[::-1], 0, None, None, (1, 0))
    sizes, strides, axes = list(self.sizes), list(self.strides), list(range(rank))
    if axes:
        sizes[a], sizes[b] = sizes[b], sizes[a]
        strides[a], strides[b] = strides[b], strides[a]
        axes[a], axes[b] = b, a
    return Geometry(tuple(sizes), tuple(strides), 0, None, None, tuple(axes))


def t(self: TensorSpec) -> Geometry:
    """Return the transpose of a matrix; tensors of lower rank are unchanged."""
    if self.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return Geometry(self.sizes[::-1], self.strides[::-1], axes=(1, 0) if self.ndim == 2 else None)


def select(self: TensorSpec, dim: int, index: int) -> Geometry:
    """Return one index of a dimension, without that dimension."""
    if self.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, self.ndim)
    size = self.sizes[d]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.sizes)} at dimension {d}"
        )
    index %= size
    return Geometry(
        self.sizes[:d] + self.sizes[d + 1 :],
        self.strides[:d] + self.strides[d + 1 :],
        index * self.strides[d],
        numpy_index=(slice(None),) * d + (index,),
    )


def slice_(self: TensorSpec, dim: int, start: int | None, end: int | None, step: int) -> Geometry:
    """Return a range of a dimension; bounds are clamped as Python's are."""
    if self.ndim == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    d = wrap_dim(dim, self.ndim)
    sizes, strides = self.sizes, self.strides
    first, last = _clamped(sizes[d], start, end)
    return Geometry(
        (*sizes[:d], (last - first + step - 1) // step, *sizes[d + 1 :]),
        (*strides[:d], strides[d] * step, *strides[d + 1 :]),
        first * strides[d],
        (*(slice(None),) * d, slice(first, last, step)),
    )


def _clamped(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return the bounds of a range within a dimension; an empty range ends where it starts."""
    first = 0 if start is None else start
    if first < 0:
        first = first + size if first > -size else 0
    elif first > size:
        first = size
    last = size if end is None else end
    if last < 0:
        last += size
    return first, first if last < first else size if last > size else last


def slice_first(self: TensorSpec, start: int | None, end: int | None, step: int) -> Geometry:
    """Return ``x[start:end:step]``: a slice whose step Python checks."""
    if step <= 0:
        raise ValueError("step must be greater than zero" if step else "slice step cannot be zero")
    sizes, strides = self.sizes, self.strides
    if not sizes:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    first, last = _clamped(sizes[0], start, end)
    stride = strides[0]
    return Geometry(
        ((last - first + step - 1) // step, *sizes[1:]),
        (stride * step, *strides[1:]),
        first * stride,
        (slice(first, last, step),),
    )


def squeeze_all(self: TensorSpec) -> Geometry:
    """Remove the dimensions of size 1."""
    kept_dims = [i for i in range(self.ndim) if self.sizes[i] != 1]
    return Geometry(tuple(self.sizes[i] for i in kept_dims), tuple(self.strides[i] for i in kept_dims))


def squeeze_dim(self: TensorSpec, dim: int | Sequence[int]) -> Geometry:
    """Remove the named dimensions that have size 1."""
    named: set[int] = set()
    for d in (dim,) if isinstance(dim, int) else dim:
        wrapped = wrap_dim(d, self.ndim)
        if wrapped in named:
            raise RuntimeError(f"dim {wrapped} appears multiple times in the list of dims")
        named.add(wrapped)
    kept_dims = [i for i in range(self.ndim) if i not in named or self.sizes[i] != 1]
    return Geometry(tuple(self.sizes[i] for i in kept_dims), tuple(self.strides[i] for i in kept_dims))


def unsqueeze(self: TensorSpec, dim: int) -> Geometry:
    """Return the geometry with a new dimension of size 1 before `dim`."""
    d = wrap_dim(dim, self.ndim + 1)
    stride = self.sizes[d] * self.strides[d] if d < self.ndim else 1
    return Geometry(
        (*self.sizes[:d], 1, *self.sizes[d:]),
        (*self.strides[:d], stride, *self.strides[d:]),
        numpy_index=(slice(None),) * d + (None,),
    )


def alias(self: TensorSpec) -> Geometry:
    """Return the same geometry for another tensor."""
    return Geometry(self.sizes, self.strides)


def view_dtype(self: TensorSpec, dtype: ScalarType) -> Geometry:
    """Return the same bytes as another dtype; the last dimension shrinks or grows with the element size."""
    old, new = self.itemsize, dtype.itemsize
    if old == new:
        return Geometry(self.sizes, self.strides, dtype=dtype)
    suffix = f"to view {self.dtype.scalar_name} as {dtype.scalar_name} (different element sizes)"
    if self.ndim == 0:
        raise RuntimeError(f"self.dim() cannot be 0 {suffix}")
    last, stride = self.sizes[-1], self.strides[-1]
    if old > new:
        if stride != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {suffix}, but got {stride}")
        ratio = old // new
        strides = (*[s * ratio for s in self.strides[:-1]], 1)
        return Geometry((*self.sizes[:-1], last * ratio), strides, dtype=dtype)
    ratio = new // old
    if last % ratio:
        raise RuntimeError(f"self.size(-1) must be divisible by {ratio} {suffix}, but got {last}")
    if stride != 1:
        raise RuntimeError(f"self.stride(-1) must be 1 {suffix}, but got {stride}")
    for position, outer in enumerate(self.strides[:-1]):
        if outer % ratio:
            raise RuntimeError(
                f"self.stride({position}) must be divisible by {ratio} {suffix}, but got {outer}"
            )
    strides = (*[s // ratio for s in self.strides[:-1]], 1)
    return Geometry((*self.sizes[:-1], last // ratio), strides, dtype=dtype)


def view_as_real(self: TensorSpec) -> Geometry:
    """Return complex numbers as pairs of reals in a new last dimension."""
    if not self.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return Geometry((*self.sizes, 2), (*[s * 2 for s in self.strides], 1), dtype=self.dtype.to_real())


def view_as_complex(self: TensorSpec) -> Geometry:
    """Return pairs of reals in the last dimension as complex numbers."""
    if self.dtype not in (float16, float32, float64):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of "
            "scalar type: "
            f"{self.dtype.scalar_name}"
        )
    if self.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if self.sizes[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    if self.strides[-1] != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % 2 for s in self.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return Geometry(self.sizes[:-1], tuple(s // 2 for s in self.strides[:-1]), dtype=self.dtype.to_complex())


def diagonal(self: TensorSpec, offset: int, dim1: int, dim2: int) -> Geometry:
    """Return the diagonal of two dimensions as a last dimension."""
    a, b = wrap_dim(dim1, self.ndim), wrap_dim(dim2, self.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = self.sizes[a], self.sizes[b]
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    first = 0
    if length:
        first = offset * self.strides[b] if offset >= 0 else -offset * self.strides[a]
    kept_dims = [i for i in range(self.ndim) if i not in (a, b)]
    return Geometry(
        (*[self.sizes[i] for i in kept_dims], length),
        (*[self.strides[i] for i in kept_dims], self.strides[a] + self.strides[b]),
        first,
    )


def unfold(self: TensorSpec, dimension: int, size: int, step: int) -> Geometry:
    """Return windows of `size`, each `step` after the previous one, as a new last dimension."""
    d = wrap_dim(dimension, self.ndim)
    have = self.sizes[d] if self.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > have:
        raise RuntimeError(f"maximum size for tensor at dimension {d} is {have} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if self.ndim == 0:
        return Geometry((size,), (1,))
    windows = (have - size) // step + 1
    return Geometry(
        (*self.sizes[:d], windows, *self.sizes[d + 1 :], size),
        (*self.strides[:d], self.strides[d] * step, *self.strides[d + 1 :], self.strides[d]),
    )


NEW_AXIS, INTEGER, RANGE = 0, 1, 2
"""Kinds of items of a `_basic_index`: (NEW_AXIS, 0, 0, 0), (INTEGER, i, 0, 0), (RANGE, start, stop, step)."""


def _check_basic_index(self: TensorSpec, items: Sequence[Sequence[int]]) -> None:
    """Raise IndexError for items that are not numbers or ranges of the tensor's dimensions."""
    if any(len(item) != 4 or item[0] not in (NEW_AXIS, INTEGER, RANGE) for item in items):
        raise IndexError(f"_basic_index: expected four numbers for each item of index, but got {items}")
    covering = [item for item in items if item[0] != NEW_AXIS]
    if len(covering) > self.ndim:
        raise IndexError(
            f"_basic_index: index has {len(covering)} items for a tensor of {self.ndim} dimensions"
        )
    for (kind, start, stop, step), size in zip(covering, self.sizes, strict=False):
        last = start if kind == INTEGER else max(start, stop) - 1
        if start < 0 or last >= max(size, int(kind == RANGE)) or (kind == RANGE and step < 1):
            raise IndexError(f"_basic_index: item {(kind, start, stop, step)} reaches beyond {size} elements")


def basic_index(self: TensorSpec, index: Sequence[int]) -> Geometry:
    """Return the geometry of ``x[...]`` with numbers, ranges and new dimensions, four numbers for each, in bounds."""
    sizes: list[int] = []
    strides: list[int] = []
    picked: list[int | slice | None] = []
    offset = 0
    d = 0
    items = [index[position : position + 4] for position in range(0, len(index), 4)]
    _check_basic_index(self, items)
    for kind, start, stop, step in items:
        if kind == NEW_AXIS:
            sizes.append(1)
            strides.append(self.sizes[d] * self.strides[d] if d < self.ndim else 1)
            picked.append(None)
            continue
        stride = self.strides[d]
        offset += start * stride
        if kind == INTEGER:
            picked.append(start)
        else:
            sizes.append((stop - start + step - 1) // step)
            strides.append(stride * step)
            picked.append(slice(start, stop, step))
        d += 1
    return Geometry(
        (*sizes, *self.sizes[d:]),
        (*strides, *self.strides[d:]),
        offset,
        numpy_index=tuple(picked) if picked else None,
    )


def select_first(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``x[i]``: the index is given at each call, so that a loop over rows keeps one plan."""
    spec: TensorSpec = args[0]._spec
    if spec.ndim == 0:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ "
            "to convert a "
            "0-dim tensor to a number"
        )
    if isinstance(args[1], float | complex):
        raise TypeError(f"_select_first(): argument 'index' must be int, not {type(args[1]).__name__}")
    size = spec.sizes[0]
    result = spec.detached.replace(sizes=spec.sizes[1:], strides=spec.strides[1:])
    nbytes = spec.strides[0] * spec.itemsize
    on_host = spec.device is CPU
    if spec.is_inference:

        def inference_view(self: Tensor, index: int) -> Tensor:
            if not -size <= index < size:
                _refuse_index(index, size)
            data = self._data
            part = data[index, ...] if on_host else data.offset_by(index % size * nbytes)
            return Tensor.from_data(part, result)

        return inference_view
    # Indexing a vector would return a NumPy scalar, not a view.
    expression = "data[index]" if result.ndim else "data[index, ...]"
    constants: dict[str, Any] = {"size": size, "refuse": _refuse_index}
    if not on_host:
        expression = "data.offset_by(index % size * nbytes)"
        constants["nbytes"] = nbytes
    return view_maker(expression, tuple(constants), ", index", _IN_BOUNDS)(result, **constants)


_IN_BOUNDS = f"""if not -size <= index < size:
            try: refuse(index, size)
            {HANDLER}"""
"""Bounds check of a view that is called with an index."""


def _refuse_index(index: int, size: int) -> None:
    if not -(2**63) <= index < 2**63:
        raise ValueError(f"Overflow when unpacking long long: index {index} of dimension 0")
    raise IndexError(f"index {index} is out of bounds for dimension 0 with size {size}")


select_backward = embedded(select)
slice_backward = embedded(slice_)
diagonal_backward = embedded(diagonal)
basic_index_backward = embedded(basic_index)
