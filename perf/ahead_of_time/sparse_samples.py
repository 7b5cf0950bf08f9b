"""Calls of products with the dense parts of sparse matrices."""

from __future__ import annotations

from collections.abc import Iterator

from .sample import FLOATING, NUMBERS, Sample, empty, tt


def sparse_products(capability: int) -> Iterator[Sample]:
    """Rows of elements with wide, narrow and single columns; pairs of rows; blocks of 64 and of 16."""
    aten = tt.ops.aten
    crow, col = empty(4097, dtype="int64"), empty(1 << 18, dtype="int64")
    short_crow, short_col = empty(4097, dtype="int32"), empty(512, dtype="int32")
    pairs = empty(1 << 18, dtype="int64")
    for dtype in NUMBERS:
        if dtype == "bool":
            continue
        values, few = empty(1 << 18, dtype=dtype), empty(512, dtype=dtype)
        wide = empty(4096, 64, dtype=dtype)
        for width in (128, 16, 1):
            dense = empty(4096, width, dtype=dtype)
            yield Sample(
                f"csr_mm {dtype} of {width} columns", lambda v=values, x=dense: aten._csr_mm(crow, col, v, x)
            )
        yield Sample(
            f"csr_mm {dtype} without long rows",
            lambda v=few, x=wide: aten._csr_mm(short_crow, short_col, v, x),
        )
        rows = empty(4096, 128, dtype=dtype)
        yield Sample(f"sampled_mm {dtype}", lambda x=rows: aten._sampled_mm(pairs, pairs, x, x))
    begins, columns = empty(65, dtype="int64"), empty(512, dtype="int64")
    for dtype in FLOATING:
        for size in (64, 16):
            blocks, dense = empty(512, size, size, dtype=dtype), empty(64 * size, 256, dtype=dtype)
            yield Sample(
                f"bsr_mm {dtype} of blocks of {size}",
                lambda v=blocks, x=dense: aten._bsr_mm(begins, columns, v, x),
            )
