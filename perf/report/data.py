"""Data of result files, arranged for the report: the object that `--format json` prints and the page shows.

Times are seconds. A ratio is triten's time over a baseline's: below 1, triten is faster. `null` means
unknown. A row is a benchmark, as in the result file.

    format, version   "triten.perf.report", 2
    files       list, the oldest commit first: path, label, commit, dirty, time, started, complete, rehearsal, machine,
                versions, settings, limits (as in the result file), environment (equal numbers: the times are
                comparable), repeat (whether the file before it measured the same code)
    peers       list of baseline names, the most important first
    mean_bars   object by suite: least and aim, the geometric mean of ratios to torch on the CPU that is accepted
    rows        list, in the order of the files. Each row comes from the last file that has it:
        suite, operator, name, size, dtype, device, direction, threads, bytes, flops, bar, note, verdict
        label           the row's name in one line
        file            index of the file that it is taken from; files: of all that have it
        current         whether suites and totals count it: not if later runs of its suite dropped it
        renamed_from    labels of its earlier names
        in_means        whether geometric means count it: not if it meets ever-new shapes
        summary         object by library: median, low_quartile, high_quartile, interquartile_range
        ratios          object by baseline: ratio, low, high
        bytes_per_second, flops_per_second, limit, of_limit       as in the result file
        intensity       operations for each byte
        accepted_peer   the baseline of `excess`; null for a bar of seconds
        excess          the ratio over the bar's; without a bar, over 1: above 1 it takes longer than accepted
        history         list, for each file null or: median, low, high, ratios (object by baseline: a number)
    suites      list, for each suite and device, of the current rows: rows, timed, met, missed, unsure, failed, means
                (by baseline: count, mean, faster), bar: null or least, aim, verdict, and state, history, trend (see
                `trends`)
    totals      rows, timed, met, missed, unsure, failed, means, state, history, trend
    worst       indices of the ten rows with the largest excess
    changes     list, of the rows of the last file that an earlier file of its environment has (see `changes`): row,
                base_file, base_seconds, new_seconds, ratio, low, high, verdict, regression
    summary     sentences and tiles (see `summary`)
    profiles    list of profiles of training steps (see `step_profile/page_record`)
    threshold   share of the time
    doubts      list of sentences: reasons why the numbers are less reliable
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..step_profile.page_record import profile_records
from ..suite.compare import THRESHOLD
from ..suite.display import NEW_SHAPES
from ..suite.results import MET, MISSED, OURS, UNSURE, Result, Row, RowKey
from ..suite.workloads import MEAN_BARS
from .changes import SLOWER, Change, changes
from .linking import current_key, renames
from .runs import Benchmark, Run, is_failure, read_history, run_of
from .summary import summary
from .trends import trends

FORMAT, VERSION = "triten.perf.report", 2
PREFERRED_PEERS = ("torch", "cupy", "numpy", "numexpr", "numba")
WORST = 10
NO_SUMMARY: dict[str, Any] = {"sentences": [], "tiles": []}

Record = dict[str, Any]


def report_data(paths: Sequence[Path], threshold: float = THRESHOLD, profiles: Sequence[Path] = ()) -> Record:
    """Arrange the data of result files.

    Args:
        paths: Result files of `python -m triten.perf run`, in any order; none if there are only profiles.
        threshold: Minimum relative change of a row's time that counts as a change.
        profiles: Traces of `tt.profiler`, and snapshots of `tt.cuda.memory`.

    Raises:
        ResultFileError: if a result file cannot be read, or is given twice.
        TraceError: if a profile cannot be read.
    """
    shown = profile_records(profiles)
    history = read_history(paths)
    runs = [run_of(*each) for each in history]
    renamed = renames(runs)
    named = [{current_key(key, renamed): key for key in run.benchmarks} for run in runs]
    results = [result for _, result in history]
    peers = _peers(results)
    rows = _rows(results, runs, renamed, named)
    groups = _groups(rows, len(results))
    indices = {key: index for index, key in enumerate(rows)}
    changed = [_change_record(each, indices[each.key], threshold) for each in changes(runs, named, threshold)]
    records = list(rows.values())
    everything = [key for keys in groups.values() for key in keys]
    current = [rows[key] for key in everything]
    data = {
        "format": FORMAT,
        "version": VERSION,
        "files": _files(history, runs),
        "peers": peers,
        "mean_bars": {suite: {"least": least, "aim": aim} for suite, (least, aim) in MEAN_BARS.items()},
        "rows": records,
        "suites": [
            _suite(*group, [rows[key] for key in keys], peers) | trends(keys, runs, named, peers, group)
            for group, keys in groups.items()
        ],
        "totals": _totals(current, peers) | trends(everything, runs, named, peers),
        "worst": worst(records),
        "changes": sorted(changed, key=lambda each: -each["ratio"]),
        "threshold": threshold,
        "doubts": _doubts(results),
    }
    return data | {"summary": summary(data) if paths else NO_SUMMARY, "profiles": shown}


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
    held = [index for index, row in enumerate(rows) if row["current"] and row["excess"] is not None]
    return sorted(held, key=lambda index: -rows[index]["excess"])[:count]


def _peers(results: Sequence[Result]) -> list[str]:
    names = {peer for result in results for row in result.rows for peer in row.peers}
    return [peer for peer in PREFERRED_PEERS if peer in names] + sorted(names - set(PREFERRED_PEERS))


def _files(history: Sequence[tuple[Path, Result]], runs: Sequence[Run]) -> list[Record]:
    environments = list(dict.fromkeys(run.environment for run in runs))
    copied = ("started", "complete", "rehearsal", "machine", "versions", "settings")
    return [
        {
            "path": str(path),
            "label": run.label,
            "commit": run.commit,
            "dirty": run.dirty,
            "time": (result.commit or {}).get("time"),
            **{name: getattr(result, name) for name in copied},
            "limits": asdict(result.limits),
            "environment": environments.index(run.environment),
            "repeat": index > 0 and run.is_repeat_of(runs[index - 1]),
        }
        for index, ((path, result), run) in enumerate(zip(history, runs, strict=True))
    ]


def _rows(
    results: Sequence[Result],
    runs: Sequence[Run],
    renamed: Mapping[RowKey, RowKey],
    named: Sequence[Mapping[RowKey, RowKey]],
) -> dict[RowKey, Record]:
    """Return a record for each benchmark, by its newest key."""
    by_file = [{current_key(row.key, renamed): row for row in result.rows} for result in results]
    keys = dict.fromkeys(key for rows in by_file for key in rows)
    earlier: dict[RowKey, list[str]] = {}
    for old in renamed:
        earlier.setdefault(current_key(old, renamed), []).append(str(old))
    records = {}
    for key in keys:
        files = [index for index, members in enumerate(by_file) if key in members]
        file = files[-1]
        history = [
            _point(run.benchmarks[own[key]]) if key in own else None
            for run, own in zip(runs, named, strict=True)
        ]
        record = _row_record(by_file[file][key], results[file])
        records[key] = record | {
            "file": file,
            "files": files,
            "renamed_from": earlier.get(key, []),
            "history": history,
        }
    return records


def _row_record(row: Row, result: Result) -> Record:
    intensity = row.flops / row.bytes if row.flops and row.bytes else None
    peer, excess = _excess(row)
    return {
        **row.key._asdict(),
        **{name: getattr(row, name) for name in ("threads", "bytes", "flops", "note")},
        "label": str(row.key),
        "bar": row.bar._asdict() if row.bar else None,
        "in_means": row.operator != NEW_SHAPES,
        **row.derived(result.limits, result.confidence),
        "intensity": intensity,
        "accepted_peer": peer,
        "excess": excess,
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


def _point(benchmark: Benchmark) -> Record:
    median, low, high = benchmark.seconds
    ratios = {peer: ratio.estimate for peer, ratio in benchmark.ratios.items()}
    return {"median": median, "low": low, "high": high, "ratios": ratios}


def _change_record(change: Change, row: int, threshold: float) -> Record:
    regression = change.verdict == SLOWER and change.ratio.estimate > 1 + threshold
    return {
        "row": row,
        "base_file": change.base,
        "base_seconds": change.base_seconds,
        "new_seconds": change.new_seconds,
        "ratio": change.ratio.estimate,
        "low": change.ratio.low,
        "high": change.ratio.high,
        "verdict": change.verdict,
        "regression": regression,
    }


def _counts(rows: Sequence[Record]) -> Record:
    verdicts = [row["verdict"] for row in rows]
    return {
        "rows": len(rows),
        "timed": sum(OURS in row["summary"] for row in rows),
        "met": verdicts.count(MET),
        "missed": verdicts.count(MISSED),
        "unsure": verdicts.count(UNSURE),
        "failed": sum(is_failure(row["note"]) for row in rows),
    }


def _means(rows: Sequence[Record], peers: Sequence[str]) -> Record:
    means = {}
    for peer in peers:
        ratios = [row["ratios"][peer]["ratio"] for row in rows if row["in_means"] and peer in row["ratios"]]
        if ratios:
            faster = sum(ratio < 1 for ratio in ratios)
            means[peer] = {"count": len(ratios), "mean": geometric_mean(ratios), "faster": faster}
    return means


def _groups(rows: Mapping[RowKey, Record], files: int) -> dict[tuple[str, str], list[RowKey]]:
    """Group the current rows by suite and device, and mark each row as current or not.

    A row is current if no later file has at least half as many rows of its suite as the suite's largest file.
    A partial run thus drops nothing.
    """
    members: dict[tuple[str, str], list[RowKey]] = {}
    for key in rows:
        members.setdefault((key.suite, key.device), []).append(key)
    for keys in members.values():
        counts = [sum(file in rows[key]["files"] for key in keys) for file in range(files)]
        full = max(file for file, count in enumerate(counts) if 2 * count >= max(counts))
        for key in keys:
            rows[key]["current"] = rows[key]["file"] >= full
    return {
        group: [key for key in keys if rows[key]["current"]]
        for group, keys in members.items()
        if any(rows[key]["current"] for key in keys)
    }


def _suite(suite: str, device: str, rows: Sequence[Record], peers: Sequence[str]) -> Record:
    means = _means(rows, peers)
    bar = None
    if device == "cpu" and suite in MEAN_BARS and "torch" in means:
        (least, aim), mean = MEAN_BARS[suite], means["torch"]["mean"]
        verdict = "aim met" if mean <= aim else "met" if mean <= least else "MISSED"
        bar = {"least": least, "aim": aim, "verdict": verdict}
    return {"suite": suite, "device": device, **_counts(rows), "means": means, "bar": bar}


def _totals(rows: Sequence[Record], peers: Sequence[str]) -> Record:
    return _counts(rows) | {"means": _means(rows, peers)}


def _doubts(results: Sequence[Result]) -> list[str]:
    doubts = []
    fields = [("machine", name) for name in ("host", "processor", "cores", "gpu", "python")]
    fields += [("settings", name) for name in ("threads", "quick", "collector", "graph")]
    for section, name in fields:
        values = list(dict.fromkeys(str(getattr(result, section).get(name)) for result in results))
        if len(values) > 1:
            doubts.append(f"{name} differs between the files: {', '.join(values)}")
    rehearsed = sum(result.rehearsal for result in results)
    if rehearsed:
        doubts.append(f"{rehearsed} of {len(results)} files: a rehearsal, whose times are meaningless")
    unfinished = sum(not result.complete for result in results)
    if unfinished:
        doubts.append(f"{unfinished} of {len(results)} files: incomplete, the run was interrupted")
    return doubts
