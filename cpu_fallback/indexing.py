"""Indexing kernels: cat, take, gather, scatter, masks.

Elements are picked and placed by their position in a contiguous array, which NumPy does several times faster
than with an index for each dimension. Sums over equal indices run in the order of the index: they are
deterministic, and narrow floats are added in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dispatch.scalars import element_of
from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .blocks import Blocks
from .elementwise import MAX_CONSTANTS
from .error_state import IGNORE, reset_state, set_state
from .pointwise import constant_cache
from .selection import selected
from .undispatched import concatenate
from .widen import FLOAT32, NARROW

BLOCK_OF_CHOICES = 1 << 16
"""Elements from which a mask's choices are made by bits, a block at a time."""
BLOCK = 1 << 18
"""Elements of row sums handled at a time, which bounds the memory for their positions."""


UNSIGNED = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
"""A negative index read as unsigned is a large one, so that one maximum finds both kinds out of bounds."""
greatest = np.maximum.reduce


def is_within(index: Any, size: int) -> bool:
    """Whether every index lies in ``[0, size)``."""
    return not index.size or bool(greatest(index.view(UNSIGNED[index.dtype.itemsize]), None) < size)


def check_bounds(index: Any, size: int, dim: int, wraps: bool, error: type[Exception]) -> None:
    """Refuse an index outside ``[0, size)``, or ``[-size, size)`` if negative ones count from the end."""
    if is_within(index, size):
        return
    low, high = int(index.min()), int(index.max())
    if high >= size or low < (-size if wraps else 0):
        wrong = high if high >= size else low
        raise error(f"index {wrong} is out of bounds for dimension {dim} with size {size}")


def check_rows(index: Any, size: int) -> None:
    """Refuse a row number outside ``[0, size)``."""
    if not is_within(index, size):
        raise IndexError("index out of range in self")


def cat(call: StructuredCall) -> PlannedKernel:
    """The arrays that count, one after another."""
    specs = call.args["tensors"]
    kept: tuple[int, ...] = call.extra["kept"]
    axis: int = call.extra["dim"]
    everything = len(kept) == len(specs)
    if not kept:
        return PlannedKernel(lambda out, arrays: None)
    same = all(specs[i].dtype is call.outputs[0].dtype for i in kept)

    def join(out: Any, arrays: Sequence[Any]) -> None:
        concatenate(arrays, axis, out)

    def into(out: Any, arrays: Sequence[Any]) -> None:
        token = set_state(IGNORE)
        try:
            concatenate(arrays if everything else [arrays[i] for i in kept], axis, out, casting="unsafe")
        finally:
            reset_state(token)

    if same and everything and all(spec.is_contiguous for spec in specs):
        sizes, np_dtype, empty = call.outputs[0].sizes, call.outputs[0].np_dtype, np.empty
        return PlannedKernel(join, lambda arrays: concatenate(arrays, axis, empty(sizes, np_dtype)))
    return PlannedKernel(into)


def _wrapped(index: Any, size: int, dim: int) -> Any:
    """Positions from an index whose negative values count from the end. Raises IndexError out of bounds."""
    if not is_within(index, size):
        check_bounds(index, size, dim, True, IndexError)
        return np.where(index < 0, index + size, index)
    return index


def _key(indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([slice(None) if i is None else i for i in indices])


def _translated(failure: IndexError) -> IndexError:
    """NumPy's out-of-bounds error in PyTorch's words."""
    return IndexError(str(failure).replace("axis", "dimension"))


def index(call: StructuredCall) -> PlannedKernel:
    """``self[indices]`` with integer indices; NumPy and PyTorch agree on the order of the dimensions."""
    indices = call.args["indices"]
    used = [i for i, spec in enumerate(indices) if spec is not None]
    spec = call.args["self"]
    copyto = np.copyto
    if len(used) == 1:
        axis = used[0]
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

    def several(out: Any, data: Any, indices: Sequence[Any]) -> None:
        try:
            copyto(out, data[_key(indices)])
        except IndexError as failure:
            raise _translated(failure) from None

    def several_fresh(data: Any, indices: Sequence[Any]) -> Any:
        try:
            found = data[_key(indices)]
        except IndexError as failure:
            raise _translated(failure) from None
        return found if found.flags.c_contiguous else found.copy()

    return PlannedKernel(several, several_fresh)


def index_masked(call: StructuredCall) -> PlannedKernel:
    """``self[indices]`` where some indices are masks; the result is a new contiguous array."""
    spec = call.args["self"]
    indices = call.args["indices"]

    def fresh(data: Any, indices: Sequence[Any]) -> Any:
        key = _key([i.astype(np.bool_) if i is not None and i.dtype == np.uint8 else i for i in indices])
        try:
            found = data[key]
        except IndexError as failure:
            raise _translated(failure) from None
        return found if found.flags.c_contiguous and found.flags.owndata else found.copy()

    if (
        len(indices) == 1
        and indices[0].ndim == spec.ndim > 0
        and spec.is_contiguous
        and indices[0].is_contiguous
    ):
        return PlannedKernel(fresh, lambda data, indices: data.reshape(-1).compress(indices[0].reshape(-1)))
    return PlannedKernel(fresh, fresh)


def add_at(target: Any, places: Any, values: Any, narrow: bool) -> None:
    """Add values to places of a contiguous 1-D array, in order."""
    token = set_state(IGNORE)
    try:
        if narrow:
            wide = target.astype(FLOAT32)
            np.add.at(wide, places, values.astype(FLOAT32))
            np.copyto(target, wide, casting="unsafe")
        else:
            np.add.at(target, places, values)
    finally:
        reset_state(token)


def add_rows(target: Any, rows: Any, values: Any, narrow: bool) -> None:
    """Add rows of `values` (n, width) to those of a contiguous `target` (m, width) that `rows` (n) names."""
    width = target.shape[1]
    if not width or not len(rows):
        return
    if narrow:
        wide = target.astype(FLOAT32)
        add_rows(wide, rows, values.astype(FLOAT32), False)
        token = set_state(IGNORE)
        try:
            np.copyto(target, wide, casting="unsafe")
        finally:
            reset_state(token)
        return
    flat = target.reshape(-1)
    columns = np.arange(width)
    step = max(BLOCK // width, 1)
    for start in range(0, len(rows), step):
        places = (rows[start : start + step, None] * width + columns).reshape(-1)
        add_at(flat, places, values[start : start + step].reshape(-1), False)


def _positions(indices: Sequence[Any], sizes: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    """The picked dimensions' places, counted through those dimensions alone, and the dimensions."""
    used = tuple(i for i, index in enumerate(indices) if index is not None)
    place: Any = 0
    for d in used:
        place = place * sizes[d] + _wrapped(indices[d], sizes[d], d)
    return np.asarray(place, np.int64), used


def index_put(call: StructuredCall) -> PlannedKernel:
    """`self` with values put or added at integer indices."""
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
    narrow = spec.dtype in NARROW
    whole = spec.sizes

    def add(out: Any, data: Any, indices: Sequence[Any], values: Any) -> None:
        if out is not data:
            copyto(out, data)
        places, used = _positions(indices, whole)
        if not used:
            token = set_state(IGNORE)
            try:
                copyto(out, np.add(out, values), casting="unsafe")
            finally:
                reset_state(token)
            return
        rest = tuple(d for d in range(len(whole)) if d not in used)
        adjacent = used == tuple(range(used[0], used[-1] + 1))
        front = used[0] if adjacent else 0
        picked_axes = tuple(range(front, front + places.ndim))
        spread = np.broadcast_to(values, sizes)
        order = picked_axes + tuple(i for i in range(len(sizes)) if i not in picked_axes)
        width = int(np.prod([whole[d] for d in rest], dtype=np.int64))
        rows = np.ascontiguousarray(spread.transpose(order)).reshape(places.size, width)
        turned = out.transpose(used + rest)
        work = turned if turned.flags.c_contiguous else np.ascontiguousarray(turned)
        add_rows(work.reshape(-1, width) if width else work.reshape(0, 0), places.reshape(-1), rows, narrow)
        if work is not turned:
            copyto(turned, work)

    return PlannedKernel(add)


def index_select(call: StructuredCall) -> PlannedKernel:
    """Entries of one dimension."""
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

    return PlannedKernel(into)


def index_add(call: StructuredCall) -> PlannedKernel:
    """Slices of the source added at the index, in order."""
    axis: int = call.extra["dim"]
    spec = call.args["self"]
    size = spec.sizes[axis] if spec.ndim else 1
    narrow = spec.dtype in NARROW
    scaled = "alpha" in call.runtime
    constant = constant_cache(FLOAT32 if narrow else spec.np_dtype)

    def into(out: Any, data: Any, index: Any, source: Any, alpha: Any = 1) -> None:
        if out is not data:
            np.copyto(out, data)
        rows = index.reshape(-1)
        check_bounds(rows, size, axis, False, IndexError)
        if not rows.size or not out.size:
            return
        if scaled:
            token = set_state(IGNORE)
            try:
                source = (source.astype(FLOAT32) if narrow else source) * constant(alpha)
            finally:
                reset_state(token)
        target = np.moveaxis(out, axis, 0) if out.ndim else out.reshape(1)
        moved = np.moveaxis(source, axis, 0) if source.ndim else source.reshape(1)
        work = target if target.flags.c_contiguous else np.ascontiguousarray(target)
        values = np.ascontiguousarray(moved).reshape(rows.size, -1)
        add_rows(work.reshape(size, -1), rows, values, narrow)
        if work is not target:
            np.copyto(target, work)

    return PlannedKernel(into)


IDENTITIES: dict[str, Any] = {"sum": 0, "mean": 0, "prod": 1}
COMBINED_BY: dict[str, Any] = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def identity_of(reduce: str, dtype: Any) -> Any:
    """What combines with anything to that, as a number of a NumPy dtype."""
    if reduce in IDENTITIES:
        return dtype.type(IDENTITIES[reduce])
    if dtype.kind == "f":
        return dtype.type(-np.inf if reduce == "amax" else np.inf)
    if dtype.kind == "b":
        return dtype.type(reduce == "amin")
    return getattr(np.iinfo(dtype), "min" if reduce == "amax" else "max")


def index_reduce(call: StructuredCall) -> PlannedKernel:
    """Slices of the source combined at the index, in order; narrow floats in float32."""
    axis: int = call.extra["dim"]
    reduce: str = call.args["reduce"]
    includes: bool = call.args["include_self"]
    spec = call.args["self"]
    size = spec.sizes[axis] if spec.ndim else 1
    wide = FLOAT32 if spec.dtype in NARROW else spec.np_dtype
    function = COMBINED_BY.get(reduce, np.add)
    start = None if includes else identity_of(reduce, wide)

    def into(out: Any, data: Any, index: Any, source: Any) -> None:
        if out is not data:
            np.copyto(out, data)
        rows = index.reshape(-1)
        check_bounds(rows, size, axis, False, IndexError)
        if not rows.size or not out.size:
            return
        target = np.moveaxis(out, axis, 0) if out.ndim else out.reshape(1)
        moved = np.moveaxis(source, axis, 0) if source.ndim else source.reshape(1)
        work = np.ascontiguousarray(target).reshape(size, -1).astype(wide)
        values = np.ascontiguousarray(moved).reshape(rows.size, -1).astype(wide)
        width = work.shape[1]
        places = (rows[:, None] * width + np.arange(width)).reshape(-1)
        combine_at(function, work.reshape(-1), places, values.reshape(-1), start)
        if reduce == "mean":
            divide_by_counts(work, rows, includes)
        np.copyto(target, work.reshape(target.shape), casting="unsafe")

    return PlannedKernel(into)


def divide_by_counts(sums: Any, rows: Any, includes: bool) -> None:
    """Divide each row by how often it is named, and once more where it `includes` itself; integers round down."""
    counts = np.bincount(rows, minlength=len(sums))
    changed = np.flatnonzero(counts)
    counts = (counts[changed] + includes).reshape((-1,) + (1,) * (sums.ndim - 1))
    token = set_state(IGNORE)
    try:
        if sums.dtype.kind in "fc":
            sums[changed] /= counts.astype(sums.dtype)
        else:
            sums[changed] = sums[changed] // counts
    finally:
        reset_state(token)


def index_copy(call: StructuredCall) -> PlannedKernel:
    """Slices of the source put at the index."""
    axis: int = call.extra["dim"]
    spec = call.args["self"]
    size = spec.sizes[axis] if spec.ndim else 1

    def into(out: Any, data: Any, index: Any, source: Any) -> None:
        if out is not data:
            np.copyto(out, data)
        rows = index.reshape(-1)
        check_bounds(rows, size, axis, False, IndexError)
        if not out.ndim:
            out[...] = source.reshape(-1)[-1] if source.size else out
            return
        moved = np.moveaxis(source, axis, 0) if source.ndim else source.reshape(1)
        np.moveaxis(out, axis, 0)[rows] = moved

    return PlannedKernel(into)


def _places_function(sizes: tuple[int, ...], axis: int, picked: tuple[int, ...]) -> Callable[[Any], Any]:
    """A function from an index of shape `picked` along `axis` to places in a contiguous array of `sizes`."""
    strides = [1] * len(sizes)
    for d in range(len(sizes) - 2, -1, -1):
        strides[d] = strides[d + 1] * sizes[d + 1]
    rest: Any = None
    for d, n in enumerate(picked):
        if d != axis:
            steps = (np.arange(n) * strides[d]).reshape((n,) + (1,) * (len(picked) - d - 1))
            rest = steps if rest is None else rest + steps
    stride = strides[axis]

    def places(index: Any) -> Any:
        scaled = index if stride == 1 else index * np.int64(stride)
        return scaled if rest is None else scaled + rest

    return places


def gather(call: StructuredCall) -> PlannedKernel:
    """Elements along one dimension, each by its own index."""
    axis: int = call.extra["dim"]
    sizes = call.args["self"].sizes or (1,)
    picked = call.args["index"].sizes or (1,)
    shape = call.outputs[0].sizes
    if 0 in picked:
        return PlannedKernel(lambda out, data, index: None)
    places = _places_function(sizes, axis, picked)

    def fresh(data: Any, index: Any) -> Any:
        index = index.reshape(picked)
        check_bounds(index, sizes[axis], axis, False, RuntimeError)
        return data.reshape(-1).take(places(index), mode="clip").reshape(shape)

    def into(out: Any, data: Any, index: Any) -> None:
        np.copyto(out, fresh(data, index))

    return PlannedKernel(into, fresh)


def combine_at(function: Any, target: Any, places: Any, values: Any, start: Any) -> None:
    """Combine values, in order, into places of a contiguous 1-D array, which begin at `start` if it is not None."""
    token = set_state(IGNORE)
    try:
        if start is not None:
            target[places] = start
        function.at(target, places, values)
    finally:
        reset_state(token)


def scatter_reduce(call: StructuredCall) -> PlannedKernel:
    """Elements of the source combined along one dimension by index: in their order, narrow floats in float32."""
    axis: int = call.extra["dim"]
    reduce: str = call.extra["reduce"]
    includes: bool = call.args["include_self"]
    spec = call.args["self"]
    sizes = spec.sizes or (1,)
    picked = call.args["index"].sizes or (1,)
    places = None if 0 in picked else _places_function(sizes, axis, picked)
    part = tuple([slice(0, n) for n in picked])
    wide = FLOAT32 if spec.dtype in NARROW else spec.np_dtype
    function = COMBINED_BY.get(reduce, np.add)
    start = identity_of(reduce, wide)

    def into(out: Any, data: Any, index: Any, src: Any) -> None:
        if out is not data:
            np.copyto(out, data)
        if places is None:
            return
        index = index.reshape(picked)
        check_bounds(index, sizes[axis], axis, False, RuntimeError)
        where = places(index).reshape(-1)
        values = (src if src.ndim else src.reshape(1))[part].reshape(-1).astype(wide)
        flat = np.ascontiguousarray(out).reshape(-1).astype(wide)
        combine_at(function, flat, where, values, None if includes else start)
        if reduce == "mean":
            divide_by_counts(flat, where, includes)
        np.copyto(out, flat.reshape(out.shape), casting="unsafe")

    return PlannedKernel(into)


def scatter(call: StructuredCall) -> PlannedKernel:
    """Elements of the source, or a number, put, added or multiplied along one dimension by index."""
    axis: int = call.extra["dim"]
    reduce: str | None = call.extra["reduce"]
    spec = call.args["self"]
    sizes = spec.sizes or (1,)
    picked = call.args["index"].sizes or (1,)
    narrow = spec.dtype in NARROW
    from_tensor = "src" in call.args
    constant = constant_cache(spec.np_dtype)
    empty = 0 in picked
    places = None if empty else _places_function(sizes, axis, picked)
    part = tuple([slice(0, n) for n in picked])

    def into(out: Any, data: Any, index: Any, src: Any) -> None:
        if out is not data:
            np.copyto(out, data)
        if places is None:
            return
        index = index.reshape(picked)
        check_bounds(index, sizes[axis], axis, False, RuntimeError)
        where = places(index).reshape(-1)
        if from_tensor:
            values = (src if src.ndim else src.reshape(1))[part].reshape(-1)
        else:
            values = np.broadcast_to(constant(src), where.shape)
        work = out if out.flags.c_contiguous else np.ascontiguousarray(out)
        flat = work.reshape(-1)
        if reduce is None:
            flat[where] = values
        elif reduce == "add":
            add_at(flat, where, values, narrow)
        else:
            multiply_at(flat, where, values, narrow)
        if work is not out:
            np.copyto(out, work)

    return PlannedKernel(into)


def multiply_at(target: Any, places: Any, values: Any, narrow: bool) -> None:
    """Multiply places of a contiguous 1-D array by values, in order."""
    token = set_state(IGNORE)
    try:
        if narrow:
            wide = target.astype(FLOAT32)
            np.multiply.at(wide, places, values.astype(FLOAT32))
            np.copyto(target, wide, casting="unsafe")
        else:
            np.multiply.at(target, places, values)
    finally:
        reset_state(token)


def masked_fill(call: StructuredCall) -> PlannedKernel:
    """A number where the mask holds."""
    constant = constant_cache(call.outputs[0].np_dtype)
    dtype = call.outputs[0].dtype
    fitting: dict[Any, Any] = {}
    from_tensor = "value" in call.runtime and not isinstance(call.args["value"], type)
    np_dtype = call.outputs[0].np_dtype
    same = call.args["self"].sizes == call.outputs[0].sizes == call.args["mask"].sizes

    def number(value: Any) -> Any:
        if not from_tensor:
            if value and value not in fitting:
                element_of(value, dtype)
                if len(fitting) < MAX_CONSTANTS:
                    fitting[value] = None
            return constant(value)
        token = set_state(IGNORE)
        try:
            return value.astype(np_dtype)
        finally:
            reset_state(token)

    fixed = None if "value" in call.runtime else call.args["value"]

    def into(out: Any, data: Any, mask: Any, value: Any = fixed) -> None:
        if out is not data:
            np.copyto(out, data)
        np.copyto(out, number(value), where=mask)

    def fresh(data: Any, mask: Any, value: Any = fixed) -> Any:
        out = data.copy()
        np.copyto(out, number(value), where=mask)
        return out

    if call.outputs[0].numel > BLOCK_OF_CHOICES and not from_tensor:
        blocks = Blocks(call.outputs[0], [call.args["self"], call.args["mask"], None])

        def step(out: Any, data: Any, mask: Any, filled: Any) -> None:
            np.copyto(out, selected(mask, filled, data))

        return PlannedKernel(
            lambda out, data, mask, value=fixed: blocks.run(step, out, data, mask, number(value))
        )
    return PlannedKernel(into, fresh if same and call.args["self"].is_contiguous else None)


def nonzero(call: StructuredCall) -> PlannedKernel:
    """Places of elements that are not zero; gives the places, as (n, rank) over a (rank, n) block, and n."""
    spec = call.args["self"]
    sizes, rank = spec.sizes, spec.ndim

    def fresh(data: Any) -> Any:
        if data.dtype.kind == "V":
            data = data.astype(FLOAT32)
        places = np.flatnonzero(data.reshape(-1))
        if rank == 1:
            return places.reshape(-1, 1), len(places)
        block = np.empty((rank, len(places)), np.int64)
        if rank:
            for d, found in enumerate(np.unravel_index(places, sizes)):
                block[d] = found
        return block.T, len(places)

    return PlannedKernel(lambda *data: None, fresh)


def nonzero_static(call: StructuredCall) -> PlannedKernel:
    """As many places as are wanted, and a number where there are fewer."""
    sizes = call.args["self"].sizes
    fill: int = call.args["fill_value"]

    def into(out: Any, data: Any) -> None:
        if data.dtype.kind == "V":
            data = data.astype(FLOAT32)
        places = np.flatnonzero(data.reshape(-1))[: len(out)]
        out.fill(fill)
        if sizes:
            for d, found in enumerate(np.unravel_index(places, sizes)):
                out[: len(places), d] = found

    return PlannedKernel(into)


def take(call: StructuredCall) -> PlannedKernel:
    """Elements of the flattened array; negative places count from the end."""
    numel = call.args["self"].numel

    def into(out: Any, data: Any, index: Any) -> None:
        if not index.size:
            return
        low, high = int(index.min()), int(index.max())
        if high >= numel or low < -numel:
            wrong = high if high >= numel else low
            raise IndexError(f"out of range: tried to access index {wrong} on a tensor of {numel} elements.")
        np.copyto(out, data.reshape(-1).take(index, mode="wrap"))

    return PlannedKernel(into)


def flip(call: StructuredCall) -> PlannedKernel:
    """Dimensions the other way round."""
    dims: tuple[int, ...] = call.extra["dims"]
    key = tuple([slice(None, None, -1) if d in dims else slice(None) for d in range(call.outputs[0].ndim)])
    return PlannedKernel(lambda out, data: np.copyto(out, data[key]))


def triangle(lower: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """The factory of ``tril`` or ``triu``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        diagonal: int = call.args["diagonal"]
        rows, columns = call.outputs[0].sizes[-2:]

        def into(out: Any, data: Any) -> None:
            if out is not data:
                np.copyto(out, data)
            outside = np.tri(rows, columns, diagonal if lower else diagonal - 1, np.bool_)
            np.copyto(out, np.zeros((), out.dtype), where=~outside if lower else outside)

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
    "gather_stub": gather,
    "scatter_stub": scatter,
    "scatter_reduce_stub": scatter_reduce,
    "masked_fill_stub": masked_fill,
    "nonzero_stub": nonzero,
    "nonzero_static_stub": nonzero_static,
    "take_stub": take,
    "flip_stub": flip,
    "tril_stub": triangle(True),
    "triu_stub": triangle(False),
}.items():
    register_stub(_stub, "cpu", _factory)
