"""Compressed lines on the CPU: the line of each value, and the order in which values lie by the other lines."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..plain_numpy import np
from .products import check_columns, check_rows, loops, own_indices

Array = np.ndarray[Any, Any]


def lines(call: StructuredCall) -> PlannedKernel:
    """Expand compressed indices to the line of each value, numbered over all matrices of a batch.

    The kernel also checks plain indices, if there are any, against the length of a line.
    """

    def into(compressed: Array, total: int, plain: Array | None, length: int) -> Array:
        (compressed,) = own_indices(compressed)
        before, after = compressed[..., :-1], compressed[..., 1:]
        counts = (after - before).reshape(-1)
        # A difference that wraps around would send NumPy's `repeat` beyond its result.
        if (after < before).any() or counts.max(initial=0) > total or int(counts.sum()) != total:
            raise RuntimeError(
                f"sparse tensor: its compressed indices do not rise from 0 to the number of values, {total}"
            )
        if plain is not None and plain.size and plain.view(f"u{plain.itemsize}").max() >= length:
            raise RuntimeError(f"sparse tensor: a plain index lies outside of [0, {length})")
        return np.repeat(np.arange(len(counts), dtype=compressed.dtype), counts)

    return PlannedKernel(into)


def other_lines(call: StructuredCall) -> PlannedKernel:
    """Convert compressed lines to the other layout: line offsets, plain indices, and the order of values."""

    def into(compressed: Array, plain: Array, length: int) -> tuple[Array, Array, Array]:
        compressed, plain = own_indices(compressed, plain)
        count = len(plain)
        check_rows("to_sparse", compressed, count)
        check_columns("to_sparse", plain, length)
        if int(compressed[-1]) != count or int(compressed[0]):
            raise RuntimeError(
                f"sparse tensor: its lines have {int(compressed[-1])} values, and it specifies {count}"
            )
        dtype = compressed.dtype
        made = np.empty(length + 1, dtype), np.empty(count, dtype), np.empty(count, dtype)
        numbers = np.arange(count, dtype=dtype)
        loops().csr_tocsc(len(compressed) - 1, length, compressed, plain, numbers, *made)
        return made

    return PlannedKernel(into)


register_stub("_sparse_lines_stub", "cpu", lines)
register_stub("_sparse_other_lines_stub", "cpu", other_lines)
