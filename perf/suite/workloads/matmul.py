"""Matmuls: cubes, skinny ones, batches, transposes, dtypes."""

from __future__ import annotations

from collections.abc import Iterator

from ..workload import Operand, Scale, Workload, bar, normal

BAR = 1.8


def workloads(scale: Scale) -> Iterator[Workload]:
    """Rows by shape."""
    large = scale.side(2048, 512, 16)
    for side in sorted({scale.side(64, 64, 8), scale.side(512, 256, 8), large}):
        yield _product("mm", "a @ b", (side, side), (side, side), "float32")
    yield _product("mm", "a @ b", (large // 2, large // 2), (large // 2, large // 2), "float64")
    yield _product("mm", "a @ b", (large // 4, large // 4), (large // 4, large // 4), "bfloat16")
    yield _product("mm", "a @ b.t()", (large, large // 4), (large // 2, large // 4), "float32", "a @ b.T")
    yield _product("mm", "a.t() @ b", (large // 4, large), (large // 4, large // 2), "float32", "a.T @ b")
    yield _product("mv", "a @ b", (large, large), (large,), "float32")
    batch = scale.side(32, 8, 2)
    yield _product(
        "bmm", "a @ b", (batch, large // 16, large // 16), (batch, large // 16, large // 16), "float32"
    )
    rows, width = scale.side(256, 64, 4), large // 2
    yield Workload(
        "matmul", "linear", "linear with bias", f"{rows}x{width}x{width}", "float32", "F.linear(a, b, c)",
        "a @ b.T + c", {"a": Operand(normal(rows, width)), "b": Operand(normal(width, width)),
                        "c": Operand(normal(width))}, bar=bar(BAR),
    )  # fmt: skip


def _product(
    operator: str, statement: str, left: tuple[int, ...], right: tuple[int, ...], dtype: str, arrays: str = ""
) -> Workload:
    size = " @ ".join("x".join(map(str, shape)) for shape in (left, right))
    return Workload(
        "matmul", operator, f"{operator} {statement}", size, dtype, statement,
        "" if dtype == "bfloat16" else arrays or statement,
        {"a": Operand(normal(*left), dtype), "b": Operand(normal(*right), dtype)}, bar=bar(BAR),
    )  # fmt: skip
