"""Summary of the newest run: three sentences and a few tiles, for the top of the page and of the Markdown report.

sentences   list of texts: how fast, what changed since the run before, what needs attention
tiles       list of objects: name, value, state (good, warning, bad or neutral), note, trend (better, worse, flat or
            null)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .changes import FASTER, SLOWER
from .runs import is_failure
from .trends import BETTER, FLAT

GOOD, WARNING, BAD, NEUTRAL = "good", "warning", "bad", "neutral"

Record = dict[str, Any]


def summary(data: Mapping[str, Any]) -> Record:
    """Return the sentences and the tiles for the data of `report_data`."""
    sentences = [_speed(data), _change(data), _attention(data)]
    return {"sentences": [each for each in sentences if each], "tiles": _tiles(data)}


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    Example:
        >>> from triten.perf.report.summary import counted
        >>> counted(1, "target"), counted(2, "target")
        ('1 target', '2 targets')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _main_peer(data: Mapping[str, Any]) -> str | None:
    return next((peer for peer in data["peers"] if peer in data["totals"]["means"]), None)


def _speed(data: Mapping[str, Any]) -> str:
    peer = _main_peer(data)
    if peer is None:
        return f"{counted(data['totals']['timed'], 'benchmark')} timed, without a baseline."
    mean = data["totals"]["means"][peer]
    sentence = (
        f"triten is {1 / mean['mean']:.2f} times as fast as {peer} (geometric mean of "
        f"{counted(mean['count'], 'benchmark')})"
    )
    trend = data["totals"]["trend"].get(peer)
    if trend is None:
        return f"{sentence}."
    if trend["direction"] == FLAT:
        return f"{sentence}; no change since the previous run."
    side = "up" if trend["direction"] == BETTER else "down"
    return f"{sentence}; {side} {abs(1 / trend['ratio'] - 1):.1%} since the previous run."


def _change(data: Mapping[str, Any]) -> str:
    files, changes = data["files"], data["changes"]
    last = files[-1]
    if len(files) == 1:
        return ""
    if not changes:
        return "No earlier run has the same machine, settings and benchmarks: there is nothing to compare."
    base = files[max(each["base_file"] for each in changes)]
    since = f"Since {base['label']} ({_day(base)})"
    if last["repeat"] and all(each["base_file"] == len(files) - 2 for each in changes):
        return f"{since}, the code is the same: every difference is noise."
    slower = [each for each in changes if each["verdict"] == SLOWER]
    faster = [each for each in changes if each["verdict"] == FASTER]
    rest = len(changes) - len(slower) - len(faster)
    if not slower and not faster:
        return f"{since}, no benchmark of {len(changes)} changed beyond the noise."
    parts = []
    if slower:
        parts.append(f"{counted(len(slower), 'benchmark')} slower (most: {_named(data, slower[0])})")
    if faster:
        parts.append(f"{counted(len(faster), 'benchmark')} faster (most: {_named(data, faster[-1])})")
    return f"{since}: {'; '.join(parts)}; {rest} without a change beyond the noise."


def _named(data: Mapping[str, Any], change: Mapping[str, Any]) -> str:
    label = data["rows"][change["row"]]["label"]
    return f"{label}, {change['ratio'] - 1:+.0%} time"


def _attention(data: Mapping[str, Any]) -> str:
    totals, rows = data["totals"], data["rows"]
    parts = []
    if totals["failed"]:
        failed = next(row for row in rows if row["current"] and is_failure(row["note"]))
        parts.append(
            f"{counted(totals['failed'], 'benchmark')} failed or computed a wrong result, such as {failed['label']}"
        )
    if totals["missed"]:
        suite = max(data["suites"], key=lambda each: each["missed"])
        with_target = totals["met"] + totals["missed"] + totals["unsure"]
        worst = next((rows[index] for index in data["worst"] if rows[index]["verdict"] == "MISSED"), None)
        farthest = f"; farthest off: {worst['label']}" if worst else ""
        parts.append(
            f"{totals['missed']} of {counted(with_target, 'target')} missed, most in {suite['suite']} "
            f"({suite['missed']}){farthest}"
        )
    means = [each["suite"] for each in data["suites"] if each["bar"] and each["bar"]["verdict"] == "MISSED"]
    if means:
        parts.append(f"the mean of {', '.join(means)} misses its target")
    if parts:
        return f"Needs attention: {'; '.join(parts)}."
    return (
        f"Nothing needs attention: no target of {totals['met'] + totals['unsure']} is missed."
        if totals["met"]
        else ""
    )


def _tiles(data: Mapping[str, Any]) -> list[Record]:
    totals = data["totals"]
    tiles: list[Record] = []
    for peer, mean in totals["means"].items():
        trend = totals["trend"].get(peer)
        speed = 1 / mean["mean"]
        # A baseline of a few special benchmarks is not the headline.
        if mean["count"] * 10 < totals["timed"]:
            continue
        # Only the main baseline is a promise; the others inform.
        state = NEUTRAL if peer != _main_peer(data) else GOOD if speed >= 1 else BAD
        note = f"faster in {mean['faster']} of {mean['count']}"
        direction = trend["direction"] if trend else None
        tiles.append(_tile(f"Speed-up over {peer}", f"{speed:.2f}×", state, note, direction))
    with_target = totals["met"] + totals["missed"] + totals["unsure"]
    if with_target:
        share = totals["missed"] / with_target
        state = GOOD if not totals["missed"] else WARNING if share < 0.5 else BAD
        note = f"{totals['missed']} missed" + (
            f", {totals['unsure']} inconclusive" if totals["unsure"] else ""
        )
        before = [each for each in totals["history"][:-1] if each is not None]
        tiles.append(
            _tile(
                "Targets met",
                f"{totals['met']} of {with_target}",
                state,
                note,
                _targets_trend(totals, before),
            )
        )
    if data["changes"]:
        counts = [sum(each["verdict"] == verdict for each in data["changes"]) for verdict in (SLOWER, FASTER)]
        note = f"of {len(data['changes'])} compared"
        tiles.append(_tile("Slower", str(counts[0]), BAD if counts[0] else GOOD, note))
        if counts[1]:
            tiles.append(_tile("Faster", str(counts[1]), GOOD, note))
    if totals["failed"]:
        tiles.append(_tile("Failed or wrong", str(totals["failed"]), BAD, f"of {totals['rows']} benchmarks"))
    return tiles


def _tile(name: str, value: str, state: str, note: str, trend: str | None = None) -> Record:
    return {"name": name, "value": value, "state": state, "note": note, "trend": trend}


def _targets_trend(totals: Mapping[str, Any], before: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the trend of the missed targets; None unless the last two runs have as many targets."""
    after = totals["history"][-1]
    if not before or after is None:
        return None
    counts = [sum(each[name] for name in ("met", "missed", "unsure")) for each in (before[-1], after)]
    if counts[0] != counts[1]:
        return None
    step = after["missed"] - before[-1]["missed"]
    return FLAT if step == 0 else "worse" if step > 0 else BETTER


def _day(file: Mapping[str, Any]) -> str:
    moment = datetime.fromisoformat(file["time"] or file["started"])
    return f"{moment.day} {moment:%b %Y}"
