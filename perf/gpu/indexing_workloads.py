"""Workloads that move elements by index, scan, sort and select."""

from __future__ import annotations

from collections.abc import Iterator

from .workloads import ITEMSIZE, Operand, Workload

INDEXING = "indexing"
SORTING = "sorting and selecting"
MILLION = 1 << 20


def by_index(scale: int) -> Iterator[Workload]:
    """Yield embedding, gather, index_add and scatter_add, with the embedding's backward pass."""
    vocabulary, width, tokens = max(128_256 // scale, 16), max(4096 // scale, 8), max(16384 // scale, 4)
    table, index = Operand((vocabulary, width), "bfloat16"), Operand((tokens,), "int64", high=vocabulary)
    rows = Operand((tokens, width), "bfloat16")
    size = f"{tokens} of {vocabulary}x{width} bfloat16"
    picked = 2 * rows.nbytes + index.nbytes
    yield Workload(INDEXING, f"embedding {size}", "F.embedding(i, w)", {"i": index, "w": table}, moved=picked)
    yield Workload(
        INDEXING, f"embedding backward {size}", "lib.autograd.grad(y, (w,), g, retain_graph=True)",
        {"i": index, "w": table, "g": rows}, moved=rows.nbytes + table.nbytes + index.nbytes,
        setup="w.requires_grad_()\ny = F.embedding(i, w)",
    )  # fmt: skip
    yield Workload(
        INDEXING, f"index_select {size}", "w.index_select(0, i)", {"i": index, "w": table}, moved=picked
    )
    for dtype in ("float32", "bfloat16"):
        source = Operand((tokens, width), dtype)
        target = Operand((max(8192 // scale, 4), width), dtype)
        into = Operand((tokens,), "int64", high=target.shape[0])
        moved = source.nbytes + 2 * target.nbytes + into.nbytes
        size = f"{tokens} rows into {target.shape[0]}x{width} {dtype}"
        yield Workload(
            INDEXING,
            f"index_add {size}",
            "x.index_add(0, i, s)",
            {"x": target, "i": into, "s": source},
            moved=moved,
        )
        every = Operand(source.shape, "int64", high=target.shape[0])
        yield Workload(
            INDEXING, f"scatter_add {size}", "x.scatter_add(0, i, s)", {"x": target, "i": every, "s": source},
            moved=moved + every.nbytes - into.nbytes,
        )  # fmt: skip
    x = Operand((tokens, width), "float32")
    columns = Operand(x.shape, "int64", high=width)
    yield Workload(
        INDEXING, f"gather of rows {tokens}x{width} float32", "x.gather(1, i)", {"x": x, "i": columns},
        moved=2 * x.nbytes + columns.nbytes,
    )  # fmt: skip
    flat = Operand((max(64 * MILLION // scale**2, 64),), "float32")
    size = f"{flat.shape[0]} float32"
    yield Workload(INDEXING, f"cumsum {size}", "x.cumsum(0)", {"x": flat}, flat.nbytes)
    yield Workload(
        INDEXING, f"nonzero, half of {size}", "m.nonzero()", {"x": flat}, setup="m = x > 0",
        moved=flat.shape[0] + flat.shape[0] // 2 * 8,
    )  # fmt: skip
    yield Workload(
        INDEXING, f"masked_select, half of {size}", "x[m]", {"x": flat}, setup="m = x > 0",
        moved=flat.nbytes + flat.nbytes // 2 + flat.shape[0],
    )  # fmt: skip


def sorts(scale: int) -> Iterator[Workload]:
    """Yield sorts, top-k and unique. Only values are compared: equal elements have no order."""
    for count in (16 * MILLION, 256 * MILLION):
        count = max(count // scale**2, 64)
        for dtype in ("float32", "int32"):
            x = Operand((count,), dtype, high=1 << 30 if dtype == "int32" else 0)
            yield Workload(
                SORTING, f"sort {count} {dtype}", "x.sort()[0]", {"x": x},
                moved=2 * x.nbytes + count * ITEMSIZE["int64"],
            )  # fmt: skip
    rows, columns = max(256 // scale, 2), max(131_072 // scale, 64)
    for dtype in ("float32", "bfloat16"):
        x = Operand((rows, columns), dtype)
        for k in (1, 50, 256):
            k = max(k // scale, 1) if k > 1 else k
            yield Workload(
                SORTING,
                f"topk {k} of {rows}x{columns} {dtype}",
                f"x.topk({k}, 1)[0]",
                {"x": x},
                moved=x.nbytes,
            )
        yield Workload(SORTING, f"sort of rows {rows}x{columns} {dtype}", "x.sort(1)[0]", {"x": x},
                       moved=2 * x.nbytes + rows * columns * 8)  # fmt: skip
    count = max(16 * MILLION // scale**2, 64)
    numbers = Operand((count,), "int64", high=max(count // 16, 4))
    yield Workload(SORTING, f"unique {count} int64", "lib.unique(x)", {"x": numbers}, moved=numbers.nbytes)
    yield Workload(
        SORTING, f"bincount {count} int64", f"lib.bincount(x, minlength={numbers.high})", {"x": numbers},
        moved=numbers.nbytes,
    )  # fmt: skip


def indexing_workloads(scale: int) -> Iterator[Workload]:
    """Yield all workloads of this module. `scale` divides the sizes."""
    yield from by_index(scale)
    yield from sorts(scale)
