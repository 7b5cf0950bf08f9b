"""Whole slices picked, put and added by index; cat, flip and triangles.

Elements are placed by their position in a contiguous array, which NumPy does several times faster than with an
index for each dimension.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.scalars import check_integer
from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.memory_format import contiguous_strides
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.constants import Constants
from ..plain_numpy import concatenate, copyto, np
from ..widen import FLOAT32, NARROW
from . import sparse_rows
from .index_bounds import check_bounds, check_rows, is_within, own
from .index_loops import gather_by_loop, index_geometry, scatter_by_loop
from .scatter_reduction import (
    COMBINED_BY,
    add_rows,
    add_slices,
    combine_at,
    combine_rows,
    divide_by_counts,
    identity_of,
)


def cat(call: StructuredCall) -> PlannedKernel:
    """Concatenate the arrays that are not skipped."""
    specs = call.args["tensors"]
    kept_indices: tuple[int, ...] = call.extra["kept"]
    axis: int = call.extra["dim"]
    everything = len(kept_indices) == len(specs)
    if not kept_indices:
        return PlannedKernel(lambda out, arrays: None)
    same = all(specs[i].dtype is call.outputs[0].dtype for i in kept_indices)

    def join(out: Any, arrays: Sequence[Any]) -> None:
        concatenate(arrays, axis, out)

    @quietly
    def into(out: Any, arrays: Sequence[Any]) -> None:
        concatenate(arrays if everything else [arrays[i] for i in kept_indices], axis, out, casting="unsafe")

    if same and everything and all(spec.is_contiguous for spec in specs):
        np_dtype, empty = call.outputs[0].np_dtype, np.empty

        def sized(sizes: tuple[int, ...]) -> PlannedKernel:
            return PlannedKernel(join, lambda arrays: concatenate(arrays, axis, empty(sizes, np_dtype)))

        chosen("joined as they lie", "all {} are contiguous and of the result's dtype", len(specs))
        kernel = sized(call.outputs[0].sizes)._replace(any_shape=sys.maxsize, sized=sized)
        if all(spec.strides == contiguous_strides(spec.sizes) for spec in specs):
            # NumPy then gives its new array the same order, and is not told of one.
            kernel = kernel._replace(
                fresh=concatenate if axis == 0 else lambda arrays: concatenate(arrays, axis)
            )
        return kernel
    chosen(
        "joined with casts or gaps", "some of {} are of another dtype, empty, or not contiguous", len(specs)
    )
    return PlannedKernel(into)


def _wrapped(index: Any, size: int, dim: int) -> Any:
    """Wrap an index whose negative values count from the end. Raise IndexError out of bounds."""
    if not is_within(index, size):
        check_bounds(index, size, dim, True, IndexError)
        return np.where(index < 0, index + size, index)
    return index


def _key(indices: Sequence[Any]) -> tuple[Any, ...]:
    """Return indices as NumPy takes them."""
    return tuple([slice(None) if i is None else own(i) for i in indices])


def _translated(failure: IndexError) -> IndexError:
    """Return NumPy's out-of-bounds error in PyTorch's words."""
    return IndexError(str(failure).replace("axis", "dimension"))


def index(call: StructuredCall) -> PlannedKernel:
    """Compute ``self[indices]`` with integer indices; NumPy and PyTorch agree on the order of the dimensions."""
    indices = call.args["indices"]
    used = [i for i, spec in enumerate(indices) if spec is not None]
    spec = call.args["self"]
    copyto = np.copyto
    if len(used) == 1:
        axis = used[0]
        chosen("taken along a dimension", "dimension {} alone has an index", axis)
        size = spec.sizes[axis]
        take = np.take

        def one(out: Any, data: Any, indices: Sequence[Any]) -> None:
            where = indices[axis]
            check_bounds(where, size, axis, True, IndexError)
            if out.flags.c_contiguous:
                take(data, where, axis, out, "wrap")
            else:
                copyto(out, take(data, where, axis, None, "wrap"))

        def one_fresh(data: Any, indices: Sequence[Any]) -> Any:
            try:
                return data.take(indices[axis], axis)
            except IndexError as failure:
                raise _translated(failure) from None

        return PlannedKernel(one, one_fresh if size and spec.ndim > 0 else None)

    chosen("NumPy's indexing by arrays", "{} dimensions have indices", len(used))

    def several(out: Any, data: Any, indices: Sequence[Any]) -> None:
        try:
            copyto(out, data[_key(indices)])
        except IndexError as failure:
            raise _translated(failure) from None

    def several_fresh(data: Any, indices: Sequence[Any]) -> Any:
        try:
            result = data[_key(indices)]
        except IndexError as failure:
            raise _translated(failure) from None
        return result if result.flags.c_contiguous else result.copy()

    return PlannedKernel(several, several_fresh)


def index_masked(call: StructuredCall) -> PlannedKernel:
    """Compute ``self[indices]`` if some indices are masks; the result is a new contiguous array."""
    spec = call.args["self"]
    indices = call.args["indices"]

    def fresh(data: Any, indices: Sequence[Any]) -> Any:
        key = _key([i.astype(np.bool_) if i is not None and i.dtype == np.uint8 else i for i in indices])
        try:
            result = data[key]
        except IndexError as failure:
            raise _translated(failure) from None
        return result if result.flags.c_contiguous and result.flags.owndata else result.copy()

    if (
        len(indices) == 1
        and indices[0].ndim == spec.ndim > 0
        and spec.is_contiguous
        and indices[0].is_contiguous
    ):
        return PlannedKernel(
            fresh, lambda data, indices: data.reshape(-1).compress(own(indices[0].reshape(-1)))
        )
    return PlannedKernel(fresh, fresh)


def index_put(call: StructuredCall) -> PlannedKernel:
    """Write or add values at integer indices of a copy of `self`."""
    spec = call.args["self"]
    sizes: tuple[int, ...] = call.extra["sizes"]
    copyto = np.copyto

    def put(out: Any, data: Any, indices: Sequence[Any], values: Any) -> None:
        if out is not data:
            copyto(out, data)
        try:
            out[_key(indices)] = values
        except IndexError as failure:
            raise _translated(failure) from None

    if not call.args["accumulate"]:
        return PlannedKernel(put)
    return PlannedKernel(_adding(spec, call.args["indices"], call.args["values"], sizes))


def _adding(
    spec: TensorSpec,
    index_specs: Sequence[TensorSpec | None],
    values_spec: TensorSpec,
    sizes: tuple[int, ...],
) -> Callable[..., None]:
    """Return the kernel of `index_put` that adds values of a shape that broadcasts to `sizes`, in their order."""
    narrow, whole, copyto = spec.dtype in NARROW, spec.sizes, np.copyto
    used = tuple([d for d, index in enumerate(index_specs) if index is not None])
    rest = tuple([d for d in range(len(whole)) if d not in used])
    width = math.prod([whole[d] for d in rest])
    spreads, axes = values_spec.sizes != sizes, used + rest
    is_turned = axes != tuple(range(len(whole)))
    order: tuple[int, ...] | None = None
    if used:
        count = max([index.ndim for index in index_specs if index is not None])
        adjacent = used == tuple(range(used[0], used[-1] + 1))
        picked = tuple(range(used[0], used[0] + count)) if adjacent else tuple(range(count))
        order = picked + tuple([i for i in range(len(sizes)) if i not in picked])
    if order == tuple(range(len(sizes))):
        order = None

    @quietly
    def add(out: Any, data: Any, indices: Sequence[Any], values: Any) -> None:
        if out is not data:
            copyto(out, data)
        if not used:
            copyto(out, np.add(out, values), casting="unsafe")
            return
        positions: Any = 0
        for d in used:
            positions = positions * whole[d] + _wrapped(indices[d], whole[d], d)
        positions = np.asarray(positions, np.int64).reshape(-1)
        if spreads:
            values = np.broadcast_to(values, sizes)
        if order is not None:
            values = values.transpose(order)
        rows = np.ascontiguousarray(values).reshape(positions.size, width)
        turned = out.transpose(axes) if is_turned else out
        work = turned if turned.flags.c_contiguous else np.ascontiguousarray(turned)
        add_rows(work.reshape(-1, width) if width else work.reshape(0, 0), positions, rows, narrow)
        if work is not turned:
            copyto(turned, work)

    return add


def index_select(call: StructuredCall) -> PlannedKernel:
    """Return entries of one dimension."""
    axis: int = call.extra["dim"]
    spec = call.args["self"]
    size = spec.sizes[axis] if spec.ndim else 1
    scalar = spec.ndim == 0
    take = np.take

    def into(out: Any, data: Any, index: Any) -> None:
        check_rows(index, size)
        if scalar:
            out[...] = data
        elif not out.size:
            return
        elif out.flags.c_contiguous:
            take(data, index.reshape(-1), axis, out, "clip")
        else:
            np.copyto(out, take(data, index.reshape(-1), axis, None, "clip"))

    def fresh(data: Any, index: Any) -> Any:
        check_rows(index, size)
        return data.take(index.reshape(-1), axis, None, "clip")

    # NumPy copies rows of several elements as quickly.
    geometry = index_geometry(spec, axis, call.args["index"], call.outputs[0])
    if geometry is not None and geometry.is_flat and size:
        by_loop = gather_by_loop(geometry, spec.itemsize, into)
        if by_loop is not None:
            return PlannedKernel(by_loop)
    return PlannedKernel(into, fresh if size and not scalar else None)


def _row_places(sizes: tuple[int, ...], axis: int) -> Callable[[Any], Any]:
    """Return a function from row numbers to the flat indices of those rows' elements, in the source's order.

    A contiguous array of `sizes` has a row for each number along `axis`. The flat indices have the source's
    shape, with a row for each given number.
    """
    inner = math.prod(sizes[axis + 1 :])
    outer = math.prod(sizes[:axis])
    before = (np.arange(outer) * (sizes[axis] * inner)).reshape(-1, 1, 1)
    after = np.arange(inner)
    if outer == 1 and inner == 1:
        return lambda rows: rows
    rest = after if outer == 1 else before + after
    column = (-1, 1)
    return lambda rows: (rows.reshape(column) * inner + rest).reshape(-1)


FEW = 1 << 12
"""Elements up to which places are counted for all of them at once."""


def _rows_of(
    call: StructuredCall, max_elements: int = FEW
) -> tuple[tuple[int, ...], Callable[[Any], Any], Callable[[Any], Any] | None]:
    """Return the target's sizes (a scalar's as a vector's), an index checker, and `_row_places` for few
    elements.
    """
    axis: int = call.extra["dim"]
    sizes = call.args["self"].sizes or (1,)
    size = sizes[axis]
    few = max(call.args["self"].numel, call.args["source"].numel) <= max_elements
    element_indices = _row_places(sizes, axis) if few else None

    def checked(index: Any) -> Any:
        rows = own(index.reshape(-1))
        check_bounds(rows, size, axis, False, IndexError)
        return rows

    return sizes, checked, element_indices


def index_add(call: StructuredCall) -> PlannedKernel:
    """Add slices of the source at the index, in order."""
    axis: int = call.extra["dim"]
    spec = call.args["self"]
    narrow = spec.dtype in NARROW
    scaled = "alpha" in call.runtime
    integral = spec.dtype.is_integral
    constant = Constants(FLOAT32 if narrow else spec.np_dtype, float)
    sizes, checked, element_indices = _rows_of(call, sparse_rows.FROM)
    size = sizes[axis]
    inner = math.prod(sizes[axis + 1 :])
    add_at, multiply = np.add.at, np.multiply

    def add(out: Any, source: Any, index: Any) -> None:
        rows = checked(index)
        if not rows.size or not out.size:
            return
        if element_indices is not None and not narrow and out.flags.c_contiguous:
            add_at(out.reshape(-1), element_indices(rows), source.reshape(-1))
            return
        if axis and not narrow and out.flags.c_contiguous:
            add_slices(out.reshape(-1, size, inner), rows, source.reshape(-1, rows.size, inner))
            return
        target = np.moveaxis(out, axis, 0) if out.ndim else out.reshape(1)
        moved = np.moveaxis(source, axis, 0) if source.ndim else source.reshape(1)
        work = target if target.flags.c_contiguous else np.ascontiguousarray(target)
        values = np.ascontiguousarray(moved).reshape(rows.size, -1)
        add_rows(work.reshape(size, -1), rows, values, narrow)
        if work is not target:
            copyto(target, work)

    geometry = index_geometry(spec, axis, call.args["index"], call.args["source"])
    add = scatter_by_loop(geometry, call.outputs[0], add, checked)

    @quietly
    def into(out: Any, data: Any, index: Any, source: Any, alpha: Any = 1) -> None:
        if out is not data:
            copyto(out, data)
        if scaled:
            if integral:
                check_integer(alpha, spec.dtype)
            source = multiply(source.astype(FLOAT32) if narrow else source, constant[alpha])
        add(out, source, index)

    return PlannedKernel(into)


def index_reduce(call: StructuredCall) -> PlannedKernel:
    """Reduce slices of the source at the index, in order; 16-bit floats accumulate in float32."""
    axis: int = call.extra["dim"]
    reduce: str = call.args["reduce"]
    includes: bool = call.args["include_self"]
    spec = call.args["self"]
    narrow = spec.dtype in NARROW
    wide = FLOAT32 if narrow else spec.np_dtype
    function = COMBINED_BY.get(reduce, np.add)
    start = None if includes else identity_of(reduce, wide)
    sizes, checked, element_indices = _rows_of(call)
    size = sizes[axis]
    shape = (-1, size, math.prod(sizes[axis + 1 :]))

    @quietly
    def into(out: Any, data: Any, index: Any, source: Any) -> None:
        if out is not data:
            copyto(out, data)
        rows = checked(index)
        if not rows.size or not out.size:
            return
        if element_indices is not None and out.flags.c_contiguous:
            work = out.reshape(-1)
            if narrow:
                work = work.astype(wide)
            values = source.reshape(-1)
            combine_at(
                function, work, element_indices(rows), values.astype(wide) if narrow else values, start
            )
            if reduce == "mean":
                divide_by_counts(work.reshape(shape), rows, includes, 1)
            if narrow:
                copyto(out, work.reshape(out.shape), casting="unsafe")
            return
        target = np.moveaxis(out, axis, 0) if out.ndim else out.reshape(1)
        moved = np.moveaxis(source, axis, 0) if source.ndim else source.reshape(1)
        work = np.ascontiguousarray(target, wide).reshape(size, -1)
        values = np.ascontiguousarray(moved, wide).reshape(rows.size, -1)
        combine_rows(function, work, rows, values, start)
        if reduce == "mean":
            divide_by_counts(work, rows, includes)
        if not np.may_share_memory(work, target):
            copyto(target, work.reshape(target.shape), casting="unsafe")

    return PlannedKernel(into)


def index_copy(call: StructuredCall) -> PlannedKernel:
    """Write slices of the source at the index."""
    axis: int = call.extra["dim"]
    _, checked, _ = _rows_of(call)
    before = (slice(None),) * axis
    # A single index has its own place in a result; the source's one stands there already.
    alone = call.args["source"].ndim == call.args["self"].ndim

    def write(out: Any, source: Any, index: Any) -> None:
        rows = checked(index)
        if not out.ndim:
            out[...] = source.reshape(-1)[-1] if source.size else out
        elif alone:
            out[(*before, rows)] = source
        else:
            moved = np.moveaxis(source, axis, 0) if source.ndim else source.reshape(1)
            np.moveaxis(out, axis, 0)[rows] = moved

    geometry = index_geometry(call.args["self"], axis, call.args["index"], call.args["source"])
    write = scatter_by_loop(geometry, call.outputs[0], write)

    def into(out: Any, data: Any, index: Any, source: Any) -> None:
        if out is not data:
            copyto(out, data)
        write(out, source, index)

    return PlannedKernel(into)


def flip(call: StructuredCall) -> PlannedKernel:
    """Reverse dimensions."""
    dims: tuple[int, ...] = call.extra["dims"]
    key = tuple([slice(None, None, -1) if d in dims else slice(None) for d in range(call.outputs[0].ndim)])
    return PlannedKernel(lambda out, data: np.copyto(out, data[key]))


TRIANGLE_ROWS = 64
"""Rows of a band of a triangle: only the elements around its part of the diagonal are masked."""


def triangle(lower: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of ``tril`` or ``triu``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        diagonal: int = call.args["diagonal"]
        rows, columns = call.outputs[0].sizes[-2:]
        diagonal = max(-rows, min(diagonal, columns))
        zero = np.zeros((), call.outputs[0].np_dtype)

        def outside(rows: int, columns: int, diagonal: int) -> Any:
            within = np.tri(rows, columns, diagonal if lower else diagonal - 1, np.bool_)
            return ~within if lower else within

        if rows * columns <= FEW:
            mask = outside(rows, columns, diagonal)

            def masked(out: Any, data: Any) -> None:
                if out is not data:
                    copyto(out, data)
                copyto(out, zero, where=mask)

            return PlannedKernel(masked)

        outside_of = functools.lru_cache(4)(outside)

        def into(out: Any, data: Any) -> None:
            if out is not data and np.may_share_memory(out, data):
                data = data.copy()
            for first in range(0, rows, TRIANGLE_ROWS):
                last = min(first + TRIANGLE_ROWS, rows)
                # The diagonal crosses the columns from `begin` to `end` in these rows.
                begin, end = (max(0, min(row + diagonal, columns)) for row in (first, last))
                band, source = out[..., first:last, :], data[..., first:last, :]
                kept, rest = (slice(end), slice(end, None)) if lower else (slice(begin, None), slice(begin))
                if out is not data:
                    copyto(band[..., kept], source[..., kept])
                band[..., rest] = zero
                if begin < end:
                    corner = outside_of(last - first, end - begin, first + diagonal - begin)
                    copyto(band[..., begin:end], zero, where=corner)

        return PlannedKernel(into)

    return factory


for _stub, _factory in {
    "cat_stub": cat,
    "index_stub": index,
    "index_masked_stub": index_masked,
    "index_put_stub": index_put,
    "index_select_stub": index_select,
    "index_add_stub": index_add,
    "index_reduce_stub": index_reduce,
    "index_copy_stub": index_copy,
    "flip_stub": flip,
    "tril_stub": triangle(True),
    "triu_stub": triangle(False),
}.items():
    register_stub(_stub, "cpu", _factory)
