"""Calls of search in sorted sequences, of bags of embeddings, and of places of elements that are not zero."""

from __future__ import annotations

from collections.abc import Iterator

from .sample import FLOATING, NUMBERS, SIZES, Sample, empty, tt


def searches(capability: int) -> Iterator[Sample]:
    """Yield samples of every search, embedding bag and counting kernel, at every dtype."""
    for dtype in NUMBERS:
        if dtype == "bool":
            continue
        x, line = empty(1 << 20, dtype=dtype), empty(4096, dtype=dtype)
        yield Sample(f"searchsorted {dtype}", lambda x=x, line=line: tt.searchsorted(line, x))
    each = empty(4096, 64, dtype="int64")
    for dtype in SIZES.values():
        x = empty(10000, 64, dtype=dtype)
        yield Sample(f"scatter {dtype}", lambda x=x: x.scatter(0, each, x), ("locate", "elect", "place"))
    for dtype in ("complex64", "complex128"):
        x = empty(10000, 64, dtype=dtype)
        yield Sample(f"nonzero_static {dtype}", lambda x=x: tt.nonzero_static(x, size=1000))
        yield Sample(f"scatter_add {dtype}", lambda x=x: x.scatter_add(0, each, x))
    rows, order, values = empty(64, 512), empty(64, 512, dtype="int64"), empty(64, 1024)
    yield Sample(
        "searchsorted rows through a sorter",
        lambda: tt.searchsorted(rows, values, sorter=order, right=True, out_int32=True),
    )
    huge, few = empty(1 << 32, dtype="uint8"), empty(4096, dtype="uint8")
    yield Sample("searchsorted uint8 among 2**32", lambda: tt.searchsorted(huge, few))
    yield Sample("nonzero_static uint8 of 2**32", lambda: tt.nonzero_static(huge, size=1000))
    repeats = empty(1 << 20, dtype="int64")
    yield Sample(
        "repeat_interleave of a size", lambda: tt.repeat_interleave(repeats, output_size=1 << 22), ("report",)
    )
    for dtype in FLOATING:
        for index in ("int64", "int32"):
            indices, grad = empty(1 << 16, dtype=index), empty(1 << 16, 256, dtype=dtype)
            yield Sample(
                f"gradient of embedding {dtype} by {index}",
                lambda g=grad, i=indices: tt.ops.aten.embedding_dense_backward(g, i, 10000, -1, False),
                ("count_keys",),
            )
        yield Sample(f"index_add {dtype}", lambda g=grad, i=indices: g.index_add(0, i, g), ("count_keys",))
    where, starts = empty(1 << 16, dtype="int64"), empty(4096, dtype="int32")
    for dtype in FLOATING:
        table = empty(10000, 1024, dtype=dtype)
        weights = empty(1 << 16, dtype=dtype)
        for mode in (0, 1, 2):
            yield Sample(
                f"embedding_bag {mode} {dtype}",
                lambda t=table, m=mode: tt._embedding_bag(t, where, starts, mode=m, padding_idx=3),
                ("pool_bags",),
            )
        yield Sample(
            f"embedding_bag weighted {dtype}",
            lambda t=table, w=weights: tt._embedding_bag(t, where, starts, per_sample_weights=w),
            ("pool_bags",),
        )
        narrow = empty(10000, 48, dtype=dtype)
        yield Sample(f"embedding_bag narrow {dtype}", lambda t=narrow: tt._embedding_bag(t, where, starts))
