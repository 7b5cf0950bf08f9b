"""Merging of several processes' runs of the same rows into one result.

A merged sample is the median of one process. The spread therefore includes variation between processes, such
as memory placement or the pairing of threads with cores. Samples of a single process do not show it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from .results import Limits, Result, Row, RowKey


def merged(results: Sequence[Result], *, everywhere: bool = False, pairing: str | None = None) -> Result:
    """Merge many runs into one result: for each row and library, one median per run that timed it.

    Args:
        results: At least one result.
        everywhere: If True, leave out rows that not every run timed. Default: False.
        pairing: Name shared with another result whose runs were interleaved with these.

    Example:
        >>> from triten.perf.suite.merging import merged
        >>> from triten.perf.suite.results import Result, Row
        >>> def of(*seconds):
        ...     row = Row("s", "add", "a + b", "1", "float32", "cpu", samples={"triten": list(seconds)})
        ...     return Result({}, {}, {}, rows=[row])
        >>> merged([of(1.0, 2.0, 9.0), of(3.0)]).rows[0].samples
        {'triten': [2.0, 3.0]}
    """
    rows: dict[RowKey, list[Row]] = {}
    for result in results:
        for row in result.rows:
            rows.setdefault(row.key, []).append(row)
    timed = {key: [row for row in row_runs if row.samples] for key, row_runs in rows.items()}
    is_included = {key: len(row_runs) == len(results) or not everywhere for key, row_runs in timed.items()}
    last = results[-1]
    return replace(
        results[0],
        rows=[_merged_row(row_runs, timed[key]) for key, row_runs in rows.items() if is_included[key]],
        limits=_best_limits([result.limits for result in results]),
        pairing=pairing,
        complete=all(result.complete for result in results),
        updated=last.updated,
    )


def _merged_row(runs: Sequence[Row], timed: Sequence[Row]) -> Row:
    notes = [row.note for row in runs if row.note]
    # A library that one run could not time has no sample beside the others'.
    libraries = (
        [name for name in timed[0].samples if all(name in row.samples for row in timed)] if timed else []
    )
    samples = {name: [statistics.median(row.samples[name]) for row in timed] for name in libraries}
    return replace(runs[0], samples=samples, note=notes[0] if notes else "")


def _best_limits(limits: Sequence[Limits]) -> Limits:
    """Return the best limits; for an empty call, the median time."""
    products: dict[str, float] = {}
    for each in limits:
        for dtype, rate in each.matrix_flops_per_second.items():
            products[dtype] = max(rate, products.get(dtype, 0.0))
    copies = [each.copy_bytes_per_second for each in limits if each.copy_bytes_per_second]
    empty = [each.empty_call_seconds for each in limits if each.empty_call_seconds]
    return Limits(max(copies, default=None), products, statistics.median(empty) if empty else None)
