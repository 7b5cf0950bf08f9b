"""Search in sorted sequences, by the comparisons that the device makes, so that NaN has one place everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.meta import searching as meta
from ...dispatch.structured.meta_base import MetaBase
from ...dispatch.structured.stub import HostKernel, PlannedKernel, StructuredCall, register_stub
from ...runtime.parallel import parallel_for
from ...runtime.scalar_type import dtype as ScalarType
from ..plain_numpy import np
from ..widen import FLOAT32, NARROW
from .index_bounds import own


def bisected(sequence: Any, values: Any, right: bool) -> Any:
    """Return the insertion index of each value (rows, m) in its row of sequences (rows, n), or in the one row
    (1, n).
    """
    n = sequence.shape[1]
    flat = sequence.reshape(-1)
    start = np.arange(sequence.shape[0])[:, None] * n
    low = np.zeros(values.shape, np.int64)
    high = np.full(values.shape, n, np.int64)
    for _ in range(n.bit_length()):
        middle = (low + high) >> 1
        probed = flat.take(start + middle, mode="clip")
        before = ~(probed > values) if right else ~(probed >= values)
        before &= low < high
        high = np.where(before | (low >= high), high, middle)
        low = np.where(before, middle + 1, low)
    return low


FEW_ROWS = 64
LONG_ROW = 32
"""Rows of sequences up to which, and values of a row from which, NumPy searches row by row."""
SHARED = 1 << 13
"""Values that a thread looks for at least."""


def found_in(sequence: Any, values: Any, side: str) -> Any:
    """Search one sequence with NumPy, on several threads for many values."""
    if values.size < 2 * SHARED:
        return sequence.searchsorted(values, side)
    line = values.reshape(-1)
    indices = np.empty(line.shape, np.int64)

    def part(first: int, last: int) -> None:
        indices[first:last] = sequence.searchsorted(line[first:last], side)

    parallel_for(0, len(line), SHARED, part)
    return indices.reshape(values.shape)


def _converted(value: ScalarType, common: ScalarType, wide: Any) -> Callable[[Any], Any] | None:
    """Return a cast to the dtype of comparison: values round to the common dtype first, and then widen."""
    if value is common:
        return None if common.np == wide else lambda array: array.astype(wide)
    return lambda array: array.astype(common.np).astype(wide, copy=False)


def searchsorted(call: StructuredCall) -> PlannedKernel:
    """Return insertion indices: NumPy's search for one sequence, vectorized bisection for rows or with NaN."""
    common = call.extra["common"]
    right: bool = call.extra["right"]
    side = "right" if right else "left"
    wide = FLOAT32 if common in NARROW else common.np
    of_sequence = call.args["sorted_sequence"]
    n = of_sequence.sizes[-1]
    of_values = call.args["self"].dtype
    convert_sequence = _converted(of_sequence.dtype, common, wide)
    convert_values = _converted(of_values, common, wide)
    one_line = of_sequence.ndim == 1 and n > 0
    copyto = np.copyto

    def into(out: Any, sequence: Any, values: Any, sorter: Any = None) -> None:
        if sorter is not None:
            sorter = own(sorter)
            if sorter.size and (int(sorter.min()) < 0 or int(sorter.max()) >= n):
                raise RuntimeError("torch.searchsorted(): sorter index out of range")
            sequence = np.take_along_axis(sequence, sorter, -1)
        if convert_sequence is not None:
            sequence = convert_sequence(sequence)
        if convert_values is not None:
            values = convert_values(values)
        if not values.size:
            return
        # NaN is above all numbers for both, as long as there is none among those that are searched.
        if one_line and sequence[-1] == sequence[-1]:
            copyto(out, found_in(sequence, values, side))
            return
        rows = sequence.reshape(-1, n) if n else np.zeros((1, 0), wide)
        value_rows = values.reshape(1, -1) if sequence.ndim == 1 or not n else values.reshape(len(rows), -1)
        is_quick = sequence.ndim > 1 and n and (len(rows) <= FEW_ROWS or value_rows.shape[1] >= LONG_ROW)
        if is_quick and np.equal(rows[:, -1], rows[:, -1]).all():
            lines = [row.searchsorted(line, side) for row, line in zip(rows, value_rows, strict=True)]
            copyto(out, np.concatenate(lines).reshape(out.shape))
            return
        copyto(out, bisected(rows, value_rows, right).reshape(out.shape))

    return PlannedKernel(into)


def bucketize(call: StructuredCall) -> HostKernel | None:
    """Return the host kernel of `searchsorted` with its arguments exchanged."""
    values, boundaries, out_int32, right = call.args.values()
    if boundaries.ndim != 1:
        return None
    result = MetaBase(call.name, "functional", (), call.device)
    meta.searchsorted(result, boundaries, values, out_int32, right, None, None)
    turned = {"sorted_sequence": boundaries, "self": values}
    outputs = (result.outputs[0],)
    search = searchsorted(call._replace(args=turned, outputs=outputs, extra=result.extra)).into
    return HostKernel(
        outputs, None, lambda out, values, boundaries: search(out, boundaries, values), quiet=False
    )


register_stub("searchsorted_stub", "cpu", searchsorted)
register_stub("bucketize_host_stub", "cpu", bucketize)
