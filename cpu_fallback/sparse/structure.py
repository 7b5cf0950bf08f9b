"""Compressed lines on the CPU: the line of each value, and the order in which values lie by the other lines."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..plain_numpy import np
from .products import check_columns, check_rows, loops, own_indices

Array = np.ndarray[Any, Any]


def lines(call: StructuredCall) -> PlannedKernel:
    """Expand compressed indices to the line of each value, numbered over all matrices of a batch."""

    def into(compressed: Array, total: int) -> Array:
        taken = compressed[..., 1:] - compressed[..., :-1]
        counts = taken.reshape(-1)
        if (counts < 0).any() or int(counts.sum()) != total:
            raise RuntimeError(
                f"sparse tensor: its lines have {int(counts.sum())} values, and it specifies {total}"
            )
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
