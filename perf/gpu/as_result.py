"""Rows that were timed on a GPU as rows of the suite's result file, which `report` and `compare` read."""

from __future__ import annotations

from collections.abc import Iterable

from ..suite import results
from ..suite.results import Limits
from .rows import CUDNN, EAGER, NOT_BUILT, PEER, Row
from .targets import MICROSECONDS, SPEED, SPEED_OF_CUDNN, SPEED_OF_EAGER, Target
from .workloads import ITEMSIZE

PEER_OF = {SPEED: PEER, SPEED_OF_EAGER: EAGER, SPEED_OF_CUDNN: CUDNN}
DTYPES = {*ITEMSIZE, "tf32"}


def as_result_rows(rows: Iterable[Row]) -> list[results.Row]:
    """Convert rows to the suite's form: microseconds to seconds, the group to the suite, the speed target to
    a bar.

    The share of the copy bandwidth, the aims and the breakdown of a call have no equivalent there.

    Example:
        >>> from triten.perf.gpu.as_result import as_result_rows
        >>> from triten.perf.gpu.rows import Row
        >>> times = {"triten": [2.0], "torch": [3.0]}
        >>> [row] = as_result_rows([Row("norms", "layer_norm 16384x4096 float32", times=times)])
        >>> row.operator, row.size, row.dtype, row.bar, row.samples["torch"]
        ('layer_norm', '16384x4096', 'float32', Bar(peer='torch', most=1.0), [3e-06])
    """
    return [_as_result_row(row) for row in rows]


def limits_of(copy_bandwidth: float | None, rows: Iterable[Row]) -> Limits:
    """Return the limits that a run measured: the copy, and by dtype the fastest matmul of any library.

    Example:
        >>> from triten.perf.gpu.as_result import limits_of
        >>> from triten.perf.gpu.rows import Row
        >>> rows = [Row("matmul, cubes", "mm 8x8x8 bfloat16", flops=1024, times={"triten": [2.0], "torch": [1.0]})]
        >>> limits_of(2e12, rows).matrix_flops_per_second
        {'bfloat16': 1024000000.0}
    """
    peaks: dict[str, float] = {}
    for row in rows:
        dtype = row.name.rpartition(" ")[2]
        if not row.group.startswith("matmul") or dtype not in DTYPES or not row.flops:
            continue
        for library in row.times:
            median = row.median(library)
            if median:
                peaks[dtype] = max(peaks.get(dtype, 0.0), row.flops / median * 1e6)
    return Limits(copy_bandwidth, peaks)


def _as_result_row(row: Row) -> results.Row:
    first, *middle, last = [*row.name.split(), ""] if " " not in row.name else row.name.split()
    named = last in DTYPES
    return results.Row(
        suite=row.group,
        operator=first.rstrip(",") if named else row.name,
        name=first if named else row.name,
        size=" ".join(middle) if named else "",
        dtype=last if named else "",
        device="cuda",
        bytes=row.nbytes or None,
        flops=row.flops or None,
        samples={who: [1e-6 * time for time in times] for who, times in row.times.items()},
        bar=_bar(row.targets),
        note=row.note if row.note.startswith(("WRONG", "FAILED", NOT_BUILT, "out of memory")) else "",
    )


def _bar(targets: Iterable[Target]) -> results.Bar | None:
    for target in targets:
        if target.measure == MICROSECONDS:
            return results.Bar(None, target.least * 1e-6)
        peer = PEER_OF.get(target.measure)
        if peer is not None and target.least > 0:
            return results.Bar(peer, 1 / target.least)
    return None
