"""Compressed lines: the line of each value, and the order of values by the other lines.

On the CPU a kernel computes both. Elsewhere dense operators compute them without synchronization.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ...runtime.device import CPU
from ..generated import functions as ops
from ..structured.stub import StructuredCall, find_kernel
from ..tensor_data import from_numpy


@cache
def _kernel(stub: str) -> Any:
    call = StructuredCall("sparse_lines", {}, (), (), None, CPU, {})
    return find_kernel(stub, "cpu", "sparse tensors")(call).into


def lines_of(compressed: Any, total: int, plain: Any = None, length: int = 0) -> Any:
    """Return the line of each value, counted over all matrices of a batch, [total].

    Args:
        compressed: where each line begins, [..., lines + 1], of dtype int32 or int64.
        total: the number of values.
        plain: the position of each value in its line. On the CPU, positions from `length` on raise RuntimeError.
            Default: None, without a check.
        length: the number of positions in a line.
    """
    if compressed._spec.device is CPU:
        positions = None if plain is None else plain._data
        return from_numpy(_kernel("_sparse_lines_stub")(compressed._data, total, positions, length))
    taken = compressed[..., 1:] - compressed[..., :-1]
    if not taken._spec.numel:
        return ops.zeros((total,), dtype=compressed.dtype, device=compressed._spec.device)
    return ops.repeat_interleave(taken.reshape(-1), output_size=total)


def other_lines(compressed: Any, plain: Any, length: int) -> tuple[Any, Any, Any]:
    """Return one matrix in the other direction: line starts, their indices, and the order of the values in them."""
    if compressed._spec.device is CPU:
        made = _kernel("_sparse_other_lines_stub")(compressed._data, plain._data, length)
        begins, line, order = (from_numpy(part) for part in made)
        return begins, line, order
    line = lines_of(compressed, plain._spec.sizes[0])
    if plain._spec.is_meta:
        return ops.empty((length + 1,), dtype=plain.dtype, device="meta"), line, plain
    ordered, order = ops.sort(plain, stable=True, dim=0, descending=False)
    bounds = ops.arange(length + 1, dtype=plain.dtype, device=plain._spec.device)
    begins = ops.searchsorted(ordered, bounds).to(plain.dtype)
    return begins, line.index_select(0, order), order
