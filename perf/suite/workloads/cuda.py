"""The tensor suites on CUDA: the sizes of `python -m triten.perf gpu`, in the suites' names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from ...gpu import workloads as table
from ..workload import Operand, Scale, Workload, normal

SUITES = {
    "elementwise": ("elementwise and copies",),
    "reduction": ("reductions",),
    "matmul": (
        "matmul, cubes", "matmul, tf32", "matmul, language models", "matmul, at most 64 rows", "matmul, 8 bits"
    ),
    "conv": ("conv2d, ResNet-50", "conv2d gradients, ResNet-50"),
    "norm": ("softmax", "norms"),
    "attention": ("attention",),
}  # fmt: skip
REHEARSAL_SCALE, QUICK_SCALE = 64, 4


@cache
def _rows(divisor: int) -> tuple[table.Workload, ...]:
    return tuple(table.all_workloads(divisor))


def workloads(suite: str, scale: Scale) -> Iterator[Workload]:
    """Yield the rows of the groups in a suite, without duplicates between groups."""
    titles = set()
    for row in _rows(scale.side(1, QUICK_SCALE, REHEARSAL_SCALE)):
        made = _in_suite(suite, row)
        if row.group in SUITES[suite] and made.title not in titles:
            titles.add(made.title)
            yield made


def _in_suite(suite: str, row: table.Workload) -> Workload:
    first = next(iter(row.operands.values()))
    operands = {
        name: Operand(
            partial(_normal, operand.shape), "" if operand.dtype == "float32" else operand.dtype,
            channels_last=operand.channels_last,
        )
        for name, operand in row.operands.items()
    }  # fmt: skip
    return Workload(
        suite, row.name.split(maxsplit=1)[0].rstrip(","), row.name, "x".join(map(str, first.shape)), first.dtype,
        row.statement, "", operands, tf32=row.tf32,
    )  # fmt: skip


def _normal(shape: tuple[int, ...]) -> object:
    return normal(*shape)()
