"""Data of result files, arranged for the report: the object that `--format json` prints and the page shows.

Times are seconds. A ratio is triten's time over a baseline's: below 1, triten is faster. `null` means
unknown.

    format, version   "triten.perf.report", 1
    files       list, the oldest commit first: path, label, commit, dirty, time, started, complete, rehearsal, machine,
                versions, settings, limits (as in the result file)
    peers       list of baseline names, those with the strictest bars first
    mean_bars   object by suite: least and aim, the geometric mean of ratios to torch on the CPU that is accepted
    rows        list, in the order of the files. Each row comes from the last file that has it:
        suite, operator, name, size, dtype, device, direction, threads, bytes, flops, bar, note, verdict
        label           the row's name in one line
        file            index of the file that it is taken from
        in_means        whether geometric means count it: not if it meets ever-new shapes
        summary         object by library: median, low_quartile, high_quartile, interquartile_range
        ratios          object by baseline: ratio, low, high
        bytes_per_second, flops_per_second, limit, of_limit       as in the result file
        intensity       operations for each byte
        accepted_peer   the baseline of `excess`; null for a bar of seconds
        excess          the ratio over the bar's; without a bar, over 1: above 1 it takes longer than accepted
        history         list, for each file null or: median, ratios (object by baseline: a number)
    suites      list, for each suite and device: rows, timed, met, missed, failed, means (by baseline: count, mean), and
                bar: null or least, aim, verdict
    totals      rows, timed, met, missed, failed, means (by baseline: count, mean, faster)
    worst       indices of the ten rows with the largest excess
    changes     list, the slowest first, of rows whose median changed by more than `threshold` from the first file that
                has them to the last, and whose interval does not contain 1: row, base_file, new_file, base_seconds,
                new_seconds, ratio, low, high, verdict, regression
    threshold   share of the time
    doubts      list of sentences: reasons why the numbers are less reliable
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..suite.compare import THRESHOLD, compare_results
from ..suite.display import NEW_SHAPES
from ..suite.results import OURS, Result, ResultFileError, Row, RowKey, read_results
from ..suite.workloads import MEAN_BARS

FORMAT, VERSION = "triten.perf.report", 1
PREFERRED_PEERS = ("torch", "cupy", "numpy", "numexpr", "numba")
WORST = 10

Record = dict[str, Any]


def report_data(paths: Sequence[Path], threshold: float = THRESHOLD) -> Record:
    """Arrange the data of result files.

    Args:
        paths: One or more result files of `python -m triten.perf run`, in any order.
        threshold: Minimum relative change of a row's time that `changes` lists.

    Raises:
        ResultFileError: if a file cannot be read, or is given twice.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise ResultFileError("a result file is given twice")
    found = sorted(((path, read_results(path)) for path in paths), key=lambda each: _moment(*each))
    results = [result for _, result in found]
    peers = _peers(results)
    by_file = [result.by_key for result in results]
    keys = list(dict.fromkeys(key for result in results for key in result.by_key))
    rows = [_row_record(key, found, by_file) for key in keys]
    return {
        "format": FORMAT,
        "version": VERSION,
        "files": [_file_record(path, result) for path, result in found],
        "peers": peers,
        "mean_bars": {suite: {"least": least, "aim": aim} for suite, (least, aim) in MEAN_BARS.items()},
        "rows": rows,
        "suites": _suites(rows, peers),
        "totals": _counts(rows) | {"means": _means(rows, peers)},
        "worst": worst(rows),
        "changes": _changes(results, keys, threshold),
        "threshold": threshold,
        "doubts": _doubts(results),
    }


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean of positive numbers; None for none.

    Example:
        >>> from triten.perf.report.data import geometric_mean
        >>> geometric_mean([0.5, 2.0]), geometric_mean([])
        (1.0, None)
    """
    logarithms = [math.log(value) for value in values]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else None


def worst(rows: Sequence[Record], count: int = WORST) -> list[int]:
    """Return the indices of the rows that most exceed their bars, the worst first."""
    held = [index for index, row in enumerate(rows) if row["excess"] is not None]
    return sorted(held, key=lambda index: -rows[index]["excess"])[:count]


def _moment(path: Path, result: Result) -> tuple[datetime, datetime]:
    """When the commit was made, then when it was measured: a history is of commits."""
    started = _parsed(path, "started", result.started)
    time = (result.commit or {}).get("time")
    return (started if time is None else _parsed(path, "commit.time", time)), started


def _parsed(path: Path, place: str, text: Any) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ResultFileError(f"{path}: damaged: {place}: expected a moment, got {text!r:.60}") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _peers(results: Sequence[Result]) -> list[str]:
    found = {peer for result in results for row in result.rows for peer in row.peers}
    return [peer for peer in PREFERRED_PEERS if peer in found] + sorted(found - set(PREFERRED_PEERS))


def _file_record(path: Path, result: Result) -> Record:
    commit = result.commit or {}
    dirty = bool(commit.get("dirty"))
    label = commit.get("hash", "")[:9] + ("+" if dirty else "") if commit else path.name
    copied = ("started", "complete", "rehearsal", "machine", "versions", "settings")
    return {
        "path": str(path),
        "label": label,
        "commit": commit.get("hash"),
        "dirty": dirty,
        "time": commit.get("time"),
        **{name: getattr(result, name) for name in copied},
        "limits": asdict(result.limits),
    }


def _row_record(
    key: RowKey, found: Sequence[tuple[Path, Result]], by_file: Sequence[dict[RowKey, Row]]
) -> Record:
    file = max(index for index, rows in enumerate(by_file) if key in rows)
    result = found[file][1]
    row = by_file[file][key]
    derived = row.derived(result.limits, result.confidence)
    intensity = row.flops / row.bytes if row.flops and row.bytes else None
    peer, excess = _excess(row)
    history = [_point(rows.get(key)) for rows in by_file]
    copied = ("threads", "bytes", "flops", "note")
    return {
        **key._asdict(),
        **{name: getattr(row, name) for name in copied},
        "label": str(key),
        "bar": row.bar._asdict() if row.bar else None,
        "file": file,
        "in_means": row.operator != NEW_SHAPES,
        **derived,
        "intensity": intensity,
        "accepted_peer": peer,
        "excess": excess,
        "history": history,
    }


def _excess(row: Row) -> tuple[str | None, float | None]:
    """Return the baseline that a row is compared with, and its ratio to the accepted time."""
    if row.bar is not None and row.bar.peer is None:
        summary = row.summary()
        return None, summary.median / row.bar.most if summary else None
    peers = [row.bar.peer] if row.bar is not None else [*PREFERRED_PEERS, *row.peers]
    for peer in peers:
        ratio = row.ratio(peer) if peer else None
        if ratio is not None:
            return peer, ratio.estimate / (row.bar.most if row.bar else 1.0)
    return None, None


def _point(row: Row | None) -> Record | None:
    summary = row.summary() if row else None
    if row is None or summary is None:
        return None
    ratios = {peer: ratio.estimate for peer in row.peers if (ratio := row.ratio(peer))}
    return {"median": summary.median, "ratios": ratios}


def _counts(rows: Sequence[Record]) -> Record:
    return {
        "rows": len(rows),
        "timed": sum(OURS in row["summary"] for row in rows),
        "met": sum(row["verdict"] == "met" for row in rows),
        "missed": sum(row["verdict"] == "MISSED" for row in rows),
        "failed": sum(row["note"].startswith(("WRONG", "FAILED")) for row in rows),
    }


def _means(rows: Sequence[Record], peers: Sequence[str]) -> Record:
    found = {}
    for peer in peers:
        ratios = [row["ratios"][peer]["ratio"] for row in rows if row["in_means"] and peer in row["ratios"]]
        if ratios:
            faster = sum(ratio < 1 for ratio in ratios)
            found[peer] = {"count": len(ratios), "mean": geometric_mean(ratios), "faster": faster}
    return found


def _suites(rows: Sequence[Record], peers: Sequence[str]) -> list[Record]:
    groups: dict[tuple[str, str], list[Record]] = {}
    for row in rows:
        groups.setdefault((row["suite"], row["device"]), []).append(row)
    found = []
    for (suite, device), members in groups.items():
        means = _means(members, peers)
        bar = None
        if device == "cpu" and suite in MEAN_BARS and "torch" in means:
            (least, aim), mean = MEAN_BARS[suite], means["torch"]["mean"]
            verdict = "aim met" if mean <= aim else "met" if mean <= least else "MISSED"
            bar = {"least": least, "aim": aim, "verdict": verdict}
        found.append({"suite": suite, "device": device, **_counts(members), "means": means, "bar": bar})
    return found


def _changes(results: Sequence[Result], keys: Sequence[RowKey], threshold: float) -> list[Record]:
    """From the first file that timed a row to the last: only rows past the threshold get an interval, which is slow."""
    indices = {key: index for index, key in enumerate(keys)}
    pairs: dict[tuple[int, int], list[RowKey]] = {}
    timed = [{row.key: row for row in result.rows if row.samples.get(OURS)} for result in results]
    for key in keys:
        present = [file for file, rows in enumerate(timed) if key in rows]
        if len(present) < 2:
            continue
        first, last = present[0], present[-1]
        before, after = timed[first][key].summary(), timed[last][key].summary()
        assert before is not None and after is not None
        if abs(after.median / before.median - 1) > threshold:
            pairs.setdefault((first, last), []).append(key)
    found = []
    for (first, last), changed in pairs.items():
        base, new = (
            replace(results[file], rows=[timed[file][key] for key in changed]) for file in (first, last)
        )
        for each in compare_results(
            base, new, threshold=threshold, confidence=new.confidence, compared=len(keys)
        ):
            if not each.ratio.contains(1.0):
                record = {
                    "row": indices[each.key], "base_file": first, "new_file": last, "base_seconds": each.base_seconds,
                    "new_seconds": each.new_seconds, "ratio": each.ratio.estimate, "low": each.ratio.low,
                    "high": each.ratio.high, "verdict": each.verdict, "regression": each.is_regression,
                }  # fmt: skip
                found.append(record)
    return sorted(found, key=lambda each: -each["ratio"])


def _doubts(results: Sequence[Result]) -> list[str]:
    said = []
    places = [("machine", name) for name in ("host", "processor", "cores", "gpu", "python")]
    places += [("settings", name) for name in ("threads", "quick", "collector", "graph")]
    for section, name in places:
        values = list(dict.fromkeys(str(getattr(result, section).get(name)) for result in results))
        if len(values) > 1:
            said.append(f"{name} differs between the files: {', '.join(values)}")
    rehearsed = sum(result.rehearsal for result in results)
    if rehearsed:
        said.append(f"{rehearsed} of {len(results)} files: a rehearsal, whose times say nothing")
    unfinished = sum(not result.complete for result in results)
    if unfinished:
        said.append(f"{unfinished} of {len(results)} files: incomplete, the run was cut off")
    return said
