"""Calls of sorting: short rows, long lines, one alone; a dtype of each size, and of each order of bits."""

from __future__ import annotations

from collections.abc import Iterator

from .sample import SIZES, Sample, empty


def sorting(capability: int) -> Iterator[Sample]:
    """Yield samples of every kernel of `triton_kernels/sorting/`, at every operand size."""
    for dtype in ("float32", *(d for d in SIZES.values() if d != "float32"), "int32", "int64"):
        for n in (2048, 1024, 128, 4096):
            yield Sample(f"sort {dtype} rows of {n}", lambda d=dtype, n=n: empty(64, n, dtype=d).sort())
        yield Sample(f"sort {dtype}", lambda d=dtype: empty(1 << 22, dtype=d).sort(), ("count_every_digit",))
        yield Sample(f"sort {dtype} of many lines", lambda d=dtype: empty(4096, 8192, dtype=d).sort(1, True))
    for dtype in ("float32", *(d for d in SIZES.values() if d != "float32")):
        x = empty(1 << 22, dtype=dtype)
        wide = ("count_candidates", "count_selected", "write_selected")
        yield Sample(f"topk {dtype}", lambda x=x: x.topk(100), wide)
        yield Sample(f"kthvalue {dtype}", lambda x=x: x.kthvalue(100), wide)
        yield Sample(f"median {dtype}", lambda x=x: x.median(), wide)
    yield Sample("topk float32 of many", lambda: empty(1 << 22).topk(10000))
    yield Sample("topk float32 rows", lambda: empty(4096, 1024).topk(5))
    yield Sample("nanmedian float32 rows", lambda: empty(4096, 1024).nanmedian(1))
    huge = empty(1 << 32, dtype="uint8")
    yield Sample("sort uint8 of 2**32", lambda: huge.sort())
    yield Sample("topk uint8 of 2**32", lambda: huge.topk(10))
