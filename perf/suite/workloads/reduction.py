"""Sums and other reductions: of all elements, along rows, along columns."""

from __future__ import annotations

from collections.abc import Iterator

from ..workload import Operand, Scale, Workload, bar, normal

BAR = 1.1
# operator, name: (statement, the same over arrays)
CALLS = {
    ("sum", "sum of all"): ("a.sum()", "a.sum()"),
    ("sum", "sum of rows"): ("a.sum(1)", "a.sum(1)"),
    ("sum", "sum of columns"): ("a.sum(0)", "a.sum(0)"),
    ("mean", "mean of all"): ("a.mean()", "a.mean()"),
    ("mean", "mean of columns"): ("a.mean(0)", "a.mean(0)"),
    ("prod", "prod of rows"): ("(1 + a * 0.001).prod(1)", ""),
    ("var", "var of rows"): ("a.var(1)", "a.var(1, ddof=1)"),
    ("amax", "amax of rows"): ("a.amax(1)", "a.max(1)"),
    ("amax", "amax of columns"): ("a.amax(0)", "a.max(0)"),
    ("argmax", "argmax of rows"): ("a.argmax(1)", "a.argmax(1)"),
    ("logsumexp", "logsumexp of rows"): ("a.logsumexp(1)", ""),
    ("cumsum", "cumsum of rows"): ("a.cumsum(1)", "a.cumsum(1)"),
    ("sort", "sort of rows"): ("a.sort(1)[0]", "np.sort(a, 1)"),
    ("topk", "topk of rows"): ("a.topk(8, 1)[0]", ""),
}


def workloads(scale: Scale) -> Iterator[Workload]:
    """Rows by call and size; the sum by dtype too."""
    large = scale.side(4096, 1024, 16)
    for (operator, name), (statement, arrays) in CALLS.items():
        side = min(large, 1024) if operator in ("sort", "topk") else large
        for size in sorted({min(64, side), side}):
            yield Workload(
                "reduction", operator, name, f"{size}x{size}", "float32", statement, arrays,
                {"a": Operand(normal(size, size))}, bar=bar(BAR) if size == side else None,
            )  # fmt: skip
    for dtype, arrays in (("float64", "a.sum()"), ("int64", "a.sum()"), ("bfloat16", "")):
        operands = {"a": Operand(normal(large, large, scale=100.0), dtype)}
        yield Workload(
            "reduction",
            "sum",
            "sum of all",
            f"{large}x{large}",
            dtype,
            "a.sum()",
            arrays,
            operands,
            bar=bar(BAR),
        )
