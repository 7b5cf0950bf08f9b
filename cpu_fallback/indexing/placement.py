"""Host kernels of composites that move elements to given places: `put`, `roll`, scatters by masks, diagonals.

Each gives what its composite in `dispatch/composite/` gives, to the bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...dispatch.iterator.broadcast import infer_size
from ...dispatch.structured.stub import HostKernel, by_arguments, register_stub
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import bool_, int64
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.constants import RangedConstants
from ..plain_numpy import copyto, np
from ..widen import FULL_FLOATS
from .index_bounds import UNSIGNED, check_bounds, greatest, own
from .index_loops import gather_by_loop, index_geometry, scatter_by_loop
from .scatter_gather import places_function

WORD = UNSIGNED[8]


def _is_plain(*specs: TensorSpec) -> bool:
    """Return True if all specs are contiguous and have the strides of newly allocated memory."""
    return all(spec.is_contiguous and spec.strides == contiguous_strides(spec.sizes) for spec in specs)


def _from_start(index: Any, size: int, dim: int) -> Any:
    """Wrap an index within ``[-size, size)`` to a nonnegative index."""
    if greatest(index.view(WORD), None) < size:
        return index
    check_bounds(index, size, dim, True, IndexError)
    return np.where(index < 0, index + size, index)


def _copying(
    sizes: Sequence[int], like: TensorSpec, fresh: Callable[..., Any], quiet: bool = False
) -> HostKernel:
    """Return the kernel of a function that makes a new array; large results are copied to allocated memory."""
    out = TensorSpec.contiguous(tuple(sizes), like.dtype, like.device)
    return HostKernel(
        (out,), fresh, lambda out, *args: copyto(out, fresh(*args)), quiet=quiet, declines=False
    )


def put(self: TensorSpec, index: TensorSpec, source: TensorSpec, accumulate: bool) -> HostKernel | None:
    """Write elements of the source into the flattened array, in order, or add them for float32 and float64."""
    same = self.dtype is source.dtype and index.numel == source.numel
    if index.dtype is not int64 or not same or not _is_plain(self) or not self.numel:
        return None
    if accumulate and self.dtype not in FULL_FLOATS:
        return None
    numel, add_at = self.numel, np.add.at

    def write(out: Any, index: Any, source: Any) -> Any:
        if index.size:
            where = _from_start(own(index.reshape(-1)), numel, 0)
            if accumulate:
                add_at(out.reshape(-1), where, source.reshape(-1))
            else:
                out.reshape(-1)[where] = source.reshape(-1)
        return out

    def into(out: Any, data: Any, index: Any, source: Any) -> None:
        copyto(out, data)
        write(out, index, source)

    out = TensorSpec.contiguous(self.sizes, self.dtype, self.device)
    return HostKernel(
        (out,), lambda data, *rest: write(data.copy(), *rest), into, quiet=accumulate, declines=False
    )


def index_fill(self: TensorSpec, dim: int, index: TensorSpec, value: Any) -> HostKernel | None:
    """Fill entries of one dimension with a number."""
    d = dim + self.ndim if dim < 0 else dim
    if index.dtype is not int64 or index.ndim > 1 or not 0 <= d < self.ndim or not _is_plain(self):
        return None
    if isinstance(value, TensorSpec) or (value is complex and not self.dtype.is_complex):
        return None
    size = self.sizes[d]
    constant = RangedConstants(self.np_dtype, float, self.dtype)
    before = (slice(None),) * d

    def write(out: Any, filled: Any, index: Any) -> None:
        if index.size:
            out[(*before, _from_start(own(index.reshape(-1)), size, 0))] = filled

    def fresh(data: Any, index: Any, value: Any) -> Any:
        out = data.copy()
        write(out, constant[value], index)
        return out

    out_spec = TensorSpec.contiguous(self.sizes, self.dtype, self.device)
    fill = scatter_by_loop(index_geometry(self, d, index, None), out_spec, write)

    def into(out: Any, data: Any, index: Any, value: Any) -> None:
        copyto(out, data)
        fill(out, constant[value], index)

    return HostKernel((out_spec,), fresh, into, quiet=False, declines=False)


def take_along_dim(self: TensorSpec, indices: TensorSpec, dim: int | None) -> HostKernel | None:
    """Gather along one dimension; indices may count from the end, and nothing is broadcast."""
    if dim is None or indices.dtype is not int64 or self.ndim != indices.ndim or not self.ndim:
        return None
    axis = dim + self.ndim if dim < 0 else dim
    if not 0 <= axis < self.ndim or not _is_plain(self, indices) or not indices.numel:
        return None
    if (self.sizes[:axis], self.sizes[axis + 1 :]) != (indices.sizes[:axis], indices.sizes[axis + 1 :]):
        return None
    size = self.sizes[axis]
    flat_indices = places_function(self.sizes, axis, indices.sizes)

    def fresh(data: Any, index: Any) -> Any:
        if not greatest(index.view(WORD), None) < size:
            index = np.where(index < 0, index + size, index)
            check_bounds(index, size, axis, False, RuntimeError)
        return data.reshape(-1).take(flat_indices(index), None, None, "clip")

    def copy(out: Any, data: Any, index: Any) -> None:
        copyto(out, fresh(data, index))

    out = TensorSpec.contiguous(indices.sizes, self.dtype, self.device)
    into = gather_by_loop(index_geometry(self, axis, indices, out), self.itemsize, copy) or copy
    return HostKernel((out,), fresh, into, quiet=False, declines=False)


def masked_scatter(self: TensorSpec, mask: TensorSpec, source: TensorSpec) -> HostKernel | None:
    """Write elements of the source, in order, where the mask holds; nothing is broadcast."""
    if self.dtype is not source.dtype or mask.dtype is not bool_ or self.sizes != mask.sizes:
        return None
    if not _is_plain(self, mask, source):
        return None
    source_size = source.numel

    def fresh(data: Any, mask: Any, source: Any) -> Any:
        out = data.copy()
        count = np.count_nonzero(mask)
        if count > source_size:
            raise RuntimeError("Number of elements of source < number of ones in mask")
        if count:
            np.place(out, mask, source if count == source_size else source.reshape(-1)[:count])
        return out

    return _copying(self.sizes, self, fresh)


def unsafe_masked_put(
    self: TensorSpec, mask: TensorSpec, indices: Sequence[TensorSpec | None], values: TensorSpec
) -> HostKernel | None:
    """Add values where a mask holds, ignoring the index elsewhere; each dimension has an index."""
    index_specs = [spec for spec in indices if spec is not None and spec.dtype is int64]
    if len(index_specs) != len(indices) or len(index_specs) != self.ndim or self.dtype not in FULL_FLOATS:
        return None
    if not self.numel or not _is_plain(self):
        return None
    shape: tuple[int, ...] = ()
    try:
        for spec in index_specs:
            shape = infer_size(shape, spec.sizes)
    except RuntimeError:
        return None
    if mask.dtype is not bool_ or values.dtype is not self.dtype or not values.sizes == mask.sizes == shape:
        return None
    limits = [(-n, n - 1) for n in self.sizes]
    zero = np.zeros((), self.np_dtype)

    def fresh(data: Any, mask: Any, indices: Any, values: Any) -> Any:
        out = data.copy()
        flat_index: Any = 0
        for index, (low, high) in zip(indices, limits, strict=True):
            if not greatest(index.view(WORD), None) <= high:
                index = index.clip(low, high)
                index = np.where(index < 0, index + (high + 1), index)
            flat_index = flat_index * (high + 1) + index
        where = np.broadcast_to(flat_index, shape).reshape(-1)
        np.add.at(out.reshape(-1), where, np.where(mask, values, zero).reshape(-1))
        return out

    return _copying(self.sizes, self, fresh, quiet=True)


def diag_embed(self: TensorSpec, offset: int, dim1: int, dim2: int) -> HostKernel | None:
    """Put the last dimension on the diagonal of two new last dimensions, with zeros elsewhere."""
    rank = self.ndim + 1
    first, second = (d + rank if d < 0 else d for d in (dim1, dim2))
    if (first, second) != (rank - 2, rank - 1) or not self.ndim:
        return None
    return _diagonal(self, self.sizes[:-1], self.sizes[-1], offset)


def diagflat(self: TensorSpec, offset: int) -> HostKernel:
    """Put all elements on the diagonal of a matrix, with zeros elsewhere."""
    return _diagonal(self, (), self.numel, offset)


def _diagonal(spec: TensorSpec, batch: tuple[int, ...], length: int, offset: int) -> HostKernel:
    """Put each line of elements on the diagonal of a matrix."""
    side = length + abs(offset)
    out_spec = TensorSpec.contiguous((*batch, side, side), spec.dtype, spec.device)
    sizes, np_dtype = out_spec.sizes, out_spec.np_dtype
    flat = (*batch, side * side)
    first = offset if offset >= 0 else -offset * side
    key = (slice(None),) * len(batch) + (slice(first, first + length * (side + 1), side + 1),)
    source = (*batch, length)

    def fresh(data: Any) -> Any:
        out = np.zeros(flat, np_dtype)
        out[key] = data.reshape(source)
        return out.reshape(sizes)

    def into(out: Any, data: Any) -> None:
        out.fill(0)
        out.reshape(flat)[key] = data.reshape(source)

    return HostKernel((out_spec,), fresh, into, quiet=False, declines=False)


def block_diag(tensors: Sequence[TensorSpec]) -> HostKernel | None:
    """Put matrices, vectors and numbers of one dtype along the diagonal, with zeros elsewhere."""
    if not tensors or any(s.ndim > 2 or s.dtype is not tensors[0].dtype or not s.numel for s in tensors):
        return None
    rows, columns = 0, 0
    block_slices = []
    for spec in tensors:
        height, width = (1,) * (2 - spec.ndim) + spec.sizes
        block_slices.append((slice(rows, rows + height), slice(columns, columns + width)))
        rows, columns = rows + height, columns + width
    out_spec = TensorSpec.contiguous((rows, columns), tensors[0].dtype, tensors[0].device)
    sizes, np_dtype = out_spec.sizes, out_spec.np_dtype

    def into(out: Any, arrays: Any) -> None:
        out.fill(0)
        for block, array in zip(block_slices, arrays, strict=True):
            out[block] = array

    def fresh(arrays: Any) -> Any:
        out = np.zeros(sizes, np_dtype)
        for block, array in zip(block_slices, arrays, strict=True):
            out[block] = array
        return out

    return HostKernel((out_spec,), fresh, into, quiet=False, declines=False)


def _strided(spec: TensorSpec, size: Sequence[int], stride: Sequence[int], offset: int) -> TensorSpec | None:
    """Return the spec of a strided view of a contiguous tensor, or None if the view is out of bounds."""
    if len(size) != len(stride) or min(size, default=0) < 0:
        return None
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if not _is_plain(spec) or 0 in size or offset < 0 or reach >= spec.numel:
        return None
    return TensorSpec.of(tuple(size), tuple(stride), spec.dtype, spec.device)


def _viewer(part: TensorSpec, offset: int) -> Callable[[Any], Any]:
    """Return a function from a contiguous array to its strided view."""
    itemsize = part.itemsize
    sizes, np_dtype, nbytes = part.sizes, part.np_dtype, offset * itemsize
    strides = tuple([s * itemsize for s in part.strides])
    array = np.ndarray
    return lambda data: array(sizes, np_dtype, data, nbytes, strides)


def strided_copy(
    self: TensorSpec, size: Sequence[int], stride: Sequence[int], offset: int
) -> HostKernel | None:
    """Copy a strided view of a contiguous array."""
    part = _strided(self, size, stride, offset)
    if part is None:
        return None
    view = _viewer(part, offset)
    out = TensorSpec.contiguous(part.sizes, part.dtype, part.device)
    return HostKernel(
        (out,),
        lambda data: view(data).copy(),
        lambda out, data: copyto(out, view(data)),
        quiet=False,
        declines=False,
    )


def strided_scatter(
    self: TensorSpec, src: TensorSpec, size: Sequence[int], stride: Sequence[int], offset: int
) -> HostKernel | None:
    """Copy a contiguous array, and write another's elements to a strided view of the copy."""
    part = _strided(self, size, stride, offset)
    if part is None or part.overlaps or src.sizes != part.sizes or src.dtype is not self.dtype:
        return None
    view = _viewer(part, offset)

    def fresh(data: Any, source: Any) -> Any:
        out = data.copy()
        copyto(view(out), source)
        return out

    return _copying(self.sizes, self, fresh)


def rolled(self: TensorSpec, shifts: Mapping[int, int]) -> Callable[[Any, Any], None]:
    """Return the function that copies an array shifted cyclically: `shifts` has how far, by dimension."""
    halves = [[(slice(None), slice(None))]] * self.ndim
    for d, shift in shifts.items():
        size = self.sizes[d]
        offset = shift % size
        if offset:
            # The last `offset` elements go to the front.
            halves[d] = [
                (slice(0, offset), slice(size - offset, size)),
                (slice(offset, size), slice(0, size - offset)),
            ]
    moves = [tuple(zip(*parts, strict=True)) for parts in itertools.product(*halves)]

    def into(out: Any, x: Any) -> None:
        for target, source in moves:
            out[target] = x[source]

    return into


def roll(self: TensorSpec, shifts: Sequence[int], dims: Sequence[int]) -> HostKernel | None:
    """Copy an array, or without `dims` the flattened one, shifted cyclically."""
    flat = not dims and len(shifts) == 1
    if not self.numel or not self.ndim or not (flat or len(shifts) == len(dims) > 0):
        return None
    if not _is_plain(self) or any(not -self.ndim <= d < self.ndim for d in dims):
        return None
    out = TensorSpec.contiguous(self.sizes, self.dtype, self.device)
    if not flat:
        moved: dict[int, int] = {}
        for d, shift in zip(dims, shifts, strict=True):
            moved[d % self.ndim] = moved.get(d % self.ndim, 0) + shift
        return HostKernel((out,), None, rolled(self, moved))
    line = TensorSpec.contiguous((self.numel,), self.dtype, self.device)
    move = rolled(line, {0: shifts[0]})
    return HostKernel((out,), None, lambda out, x: move(out.reshape(-1), x.reshape(-1)))


HOST_KERNELS = {
    "_strided_copy": strided_copy,
    "_strided_scatter": strided_scatter,
    "_unsafe_masked_index_put_accumulate": unsafe_masked_put,
    "block_diag": block_diag,
    "diag_embed": diag_embed,
    "diagflat": diagflat,
    "index_fill": index_fill,
    "masked_scatter": masked_scatter,
    "put": put,
    "roll": roll,
    "take_along_dim": take_along_dim,
}

for _name, _factory in HOST_KERNELS.items():
    register_stub(f"{_name}_host_stub", "cpu", by_arguments(_factory))
