"""Search in sorted sequences, by the comparisons that the device makes, so that NaN has one place everywhere."""

from __future__ import annotations

from typing import Any

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .undispatched import np
from .widen import FLOAT32, NARROW


def bisected(sequence: Any, values: Any, right: bool) -> Any:
    """The place of each value (rows, m) in its row of sequences (rows, n), or in the only row (1, n)."""
    n = sequence.shape[1]
    flat = sequence.reshape(-1)
    start = np.arange(sequence.shape[0])[:, None] * n
    low = np.zeros(values.shape, np.int64)
    high = np.full(values.shape, n, np.int64)
    for _ in range(n.bit_length()):
        middle = (low + high) >> 1
        found = flat.take(start + middle, mode="clip")
        before = ~(found > values) if right else ~(found >= values)
        before &= low < high
        high = np.where(before | (low >= high), high, middle)
        low = np.where(before, middle + 1, low)
    return low


def searchsorted(call: StructuredCall) -> PlannedKernel:
    """Places in one sequence by NumPy's search; in rows of their own, or beside NaN, by halving for all at once."""
    common = call.extra["common"]
    right: bool = call.extra["right"]
    wide = FLOAT32 if common in NARROW else common.np
    n = call.args["sorted_sequence"].sizes[-1]
    has_nan = common.is_floating_point

    def into(out: Any, sequence: Any, values: Any, sorter: Any = None) -> None:
        if sorter is not None:
            if sorter.size and (int(sorter.min()) < 0 or int(sorter.max()) >= n):
                raise RuntimeError("torch.searchsorted(): sorter index out of range")
            sequence = np.take_along_axis(sequence, sorter, -1)
        # Narrow floats are rounded to the common dtype before they are widened.
        sequence, values = (each.astype(common.np).astype(wide) for each in (sequence, values))
        if not values.size:
            return
        if sequence.ndim == 1 and not (has_nan and (np.isnan(sequence[-1:]).any() or np.isnan(values).any())):
            np.copyto(out, np.searchsorted(sequence, values, "right" if right else "left"))
            return
        rows = sequence.reshape(-1, n) if n else np.zeros((1, 0), wide)
        given = values.reshape(1, -1) if sequence.ndim == 1 or not n else values.reshape(len(rows), -1)
        np.copyto(out, bisected(rows, given, right).reshape(out.shape))

    return PlannedKernel(into)


register_stub("searchsorted_stub", "cpu", searchsorted)
