"""Indices of the entries of a matrix's triangles (ATen/native/TensorFactories.cpp)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.device import device as Device
from ...runtime.layout import strided
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import int32, int64
from ..generated.functions import arange, empty, repeat_interleave, stack
from ..plans.host_kernel import host_kernel

if TYPE_CHECKING:
    from ...runtime.layout import layout as Layout
    from ..tensor import Tensor


def _entries_below(row: int, col: int, offset: int) -> int:
    """Return the number of entries of a lower triangle; `offset` is within -row and col."""
    first, whole = max(0, -offset), min(row, max(0, col - offset - 1))
    # Row r holds r + offset + 1 entries, up to all of them.
    growing = (whole - first) * (first + whole + 2 * offset + 1) // 2 if whole > first else 0
    return growing + max(0, row - max(first, whole)) * col


def _triangle(
    name: str,
    row: int,
    col: int,
    offset: int,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return the indices of a triangle: a row of the rows, and a row of the columns."""
    for side, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{side} must be non-negative, got{size}")
    if layout not in (None, strided):
        raise NotImplementedError(f"{name}(): expected the layout {strided}, got {layout}")
    if dtype not in (None, int32, int64):
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")
    offset, upper = max(-row, min(offset, col)), name == "triu_indices"
    first, last = (0, min(row, col - offset)) if upper else (max(0, -offset), row)
    last = max(first, last) if col else first
    entries = (
        row * col - _entries_below(row, col, max(-row, offset - 1))
        if upper
        else _entries_below(row, col, offset)
    )
    if entries >= 1 << 62:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={[2, entries]}")
    empty((2, entries), dtype=int64, device=device)  # rejects oversized results before any computation
    rows = arange(first, last, device=device)
    start = (rows + offset).clamp(min=0) if upper else rows * 0
    lengths = col - start if upper else (rows + (offset + 1)).clamp(max=col)
    before = lengths.cumsum(0) - lengths
    at_row, shift = (repeat_interleave(each, lengths, output_size=entries) for each in (rows, start - before))
    columns = arange(entries, device=rows.device) + shift
    made = stack((at_row, columns)).to(dtype or int64)
    return made.pin_memory() if pin else made


@host_kernel("tril_indices", "arange.start_step", "repeat_interleave.Tensor", "stack")
def tril_indices(
    row: int,
    col: int,
    offset: int,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return `torch.tril_indices`."""
    return _triangle("tril_indices", row, col, offset, dtype, layout, device, pin)


@host_kernel("triu_indices", "arange.start_step", "repeat_interleave.Tensor", "stack")
def triu_indices(
    row: int,
    col: int,
    offset: int,
    dtype: ScalarType | None,
    layout: Layout | None,
    device: Device | None,
    pin: bool | None,
) -> Tensor:
    """Return `torch.triu_indices`."""
    return _triangle("triu_indices", row, col, offset, dtype, layout, device, pin)
