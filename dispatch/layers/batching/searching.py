"""Rules of search in sorted sequences and of modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...generated import functions as ops
from .layout import Batch, Dims, Rule, front, rank_of, sizes_of, whole
from .reduction import along

if TYPE_CHECKING:
    from ...tensor import Tensor


def searchsorted(
    batch: Batch,
    dims: Dims,
    sequence: Tensor,
    self: Tensor,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Tensor | None,
) -> tuple[Any, Any]:
    """Run `searchsorted`: a shared sequence is searched once, per-example sequences become rows."""
    options: dict[str, Any] = {"out_int32": out_int32, "right": right, "side": side}
    shared = dims[0] is None and dims[5] is None
    if shared and rank_of(sequence, None) == 1:
        return ops.searchsorted(sequence, front(self, dims[1]), **options, sorter=sorter), 0
    order = None if sorter is None else whole(sorter, dims[5], batch.size)
    rows, values = whole(sequence, dims[0], batch.size), whole(self, dims[1], batch.size)
    if rows._spec.ndim > 2:
        return ops.searchsorted(rows.contiguous(), values, **options, sorter=order), 0
    flat = values.reshape((batch.size, -1)) if values._spec.numel else values.reshape((batch.size, 0))
    out = ops.searchsorted(rows, flat, **options, sorter=order)
    return out.reshape((batch.size, *sizes_of(self, dims[1]))), 0


RULES: dict[str, Rule] = {"searchsorted.Tensor": searchsorted, "mode": along(1, 2)}
