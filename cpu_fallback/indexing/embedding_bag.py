"""Bags of rows of a table: sums in the order of the indices, means, and the first of the largest."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.meta.embedding_bag import (
    MAX,
    MEAN,
    WRONG_FIRST,
    WRONG_INDEX,
    WRONG_LAST,
    WRONG_ORDER,
)
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from ..widen import FLOAT32, NARROW
from . import sparse_rows
from .index_bounds import is_within

Array = np.ndarray[Any, Any]


def check_bags(indices: Array, starts: Array, rows: int) -> None:
    """Refuse bags that do not follow one another from the first index on, and indices outside the table."""
    length = indices.size
    if starts.size:
        if starts[0] != 0:
            raise RuntimeError(WRONG_FIRST.format(wrong=int(starts[0])))
        if starts[-1] > length:
            raise RuntimeError(WRONG_LAST.format(wrong=int(starts[-1]), length=length))
        falls = np.flatnonzero(starts[1:] < starts[:-1])
        if falls.size:
            raise RuntimeError(WRONG_ORDER.format(wrong=int(starts[falls[0] + 1]), length=length))
    if not is_within(indices, rows):
        wrong = int(indices.max()) if indices.max() >= rows else int(indices.min())
        raise RuntimeError(WRONG_INDEX.format(wrong=wrong))


def first_largest(values: Array, starts: Array) -> tuple[Array, Array]:
    """Return each column's largest element in each run of rows, and its first index; NaN only if it comes first."""
    heads = np.zeros(len(values), np.bool_)
    heads[starts] = True
    values = np.where(np.isnan(values) & ~heads[:, None], -np.inf, values)
    largest = np.maximum.reduceat(values, starts, 0)
    lengths = np.diff(np.append(starts, len(values)))
    spread = np.repeat(largest, lengths, 0)
    attains = (values == spread) | np.isnan(values)
    positions = np.where(attains, np.arange(len(values))[:, None], len(values))
    return largest, np.minimum.reduceat(positions, starts, 0)


def embedding_bag(call: StructuredCall) -> PlannedKernel:
    """Compute all four results; 16-bit floats accumulate in float32."""
    spec = call.args["weight"]
    rows, width = spec.sizes
    mode: int = call.args["mode"]
    padding: int = call.args["padding_idx"]
    bags = call.outputs[0].sizes[0]
    narrow = spec.dtype in NARROW

    @quietly
    def into(
        out: Array,
        origin: Array,
        sizes: Array,
        attained: Array,
        weight: Array,
        indices: Array,
        offsets: Array,
        scale: Array | None = None,
    ) -> None:
        check_bags(indices, offsets, rows)
        ends = offsets[1:] if len(offsets) > bags else np.append(offsets[1:], len(indices))
        bag = np.repeat(np.arange(bags), ends[:bags] - offsets[:bags])
        # Indices after the last offset are in no bag.
        origin.fill(bags)
        origin[: len(bag)] = bag
        indices = indices[: len(bag)]
        scale = None if scale is None else scale[: len(bag)]
        if padding >= 0:
            is_kept = indices != padding
            indices, bag = indices[is_kept], bag[is_kept]
            scale = None if scale is None else scale[is_kept]
        count = np.bincount(bag, minlength=bags)
        np.copyto(sizes, count)
        out.fill(0)
        attained.fill(0)
        if mode != MAX:
            np.copyto(attained, count)
        if not out.size or not bag.size:
            return
        if mode != MAX and not narrow and weight.dtype.kind == "f" and len(bag) * width >= sparse_rows.FROM:
            total = out if out.flags.c_contiguous else np.zeros((bags, width), out.dtype)
            bounds = np.zeros(bags + 1, np.int64)
            np.cumsum(count, out=bounds[1:])
            scale = None if scale is None else np.ascontiguousarray(scale, out.dtype)
            sparse_rows.add_bags(total, bounds, indices, np.ascontiguousarray(weight), scale)
            if mode == MEAN:
                total /= np.maximum(count, 1)[:, None].astype(total.dtype)
            if total is not out:
                np.copyto(out, total)
            return
        values = np.take(weight, indices, 0)
        if narrow:
            values = values.astype(FLOAT32)
        if mode == MAX:
            filled = np.flatnonzero(count)
            largest, positions = first_largest(values, np.searchsorted(bag, filled))
            out[filled] = largest.astype(out.dtype)
            attained[filled] = indices[positions]
            return
        if scale is not None:
            values = values * scale.astype(values.dtype)[:, None]
        total = np.zeros((bags, width), values.dtype)
        if len(values) == bags * count[0] and (count == count[0]).all():
            np.add.reduce(values.reshape(bags, -1, width), 1, None, total)
        else:
            filled = np.flatnonzero(count)
            total[filled] = np.add.reduceat(values, np.searchsorted(bag, filled), 0)
        if mode == MEAN:
            total /= np.maximum(count, 1)[:, None].astype(total.dtype)
        np.copyto(out, total, casting="unsafe")

    return PlannedKernel(into)


register_stub("_embedding_bag_stub", "cpu", embedding_bag)
