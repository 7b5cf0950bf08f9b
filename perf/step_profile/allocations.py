"""Live memory over time by allocation site, of a trace or of a snapshot of `tt.cuda.memory`.

A site is an operator and the line of the program that called it. Only memory that was allocated during the
recording counts.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...runtime.regular_file import open_regular
from .trace import Frame, Span, Trace, TraceError

SITES = 9
POINTS = 240
OTHERS = "other sites"
OUTSIDE = "outside of operators"
_PACKAGE = str(Path(__file__).resolve().parents[2])


class Change(NamedTuple):
    """Allocation (positive bytes) at a site, or a free of an address (negative bytes)."""

    moment: int
    address: int
    nbytes: int
    site: str


def site_of(span: Span | None) -> str:
    """Name the site of an allocation: the innermost operator, and the line of the program."""
    operator = span
    while operator is not None and operator.category != "cpu_op":
        operator = operator.parent
    if span is None:
        return OUTSIDE
    frames = span.frames()
    name = operator.name if operator is not None else span.name
    return f"{name}, {frames[-1].name}" if frames else name


def memory_of_trace(trace: Trace) -> list[dict[str, Any]]:
    """Return the memory of each device of a trace."""
    changes: dict[str, list[Change]] = {}
    for moment, device, address, nbytes, span in trace.memory:
        site = site_of(span) if nbytes > 0 else ""
        changes.setdefault(device, []).append(Change(moment, address, nbytes, site))
    return [
        memory
        for device, members in sorted(changes.items())
        if (memory := memory_over_time(device, sorted(members, key=lambda each: each.moment))) is not None
    ]


def memory_over_time(device: str, changes: Sequence[Change]) -> dict[str, Any] | None:
    """Return the live bytes by site, at a choice of moments that includes the peak; None if nothing was allocated.

    Returns:
        device, peak (bytes), peak_moment (ns), moments, and sites: name, at_peak, most (its own peak), allocations,
        bytes at each moment.
    """
    known: dict[int, tuple[str, int]] = {}
    live: dict[str, int] = {}
    peak_of: dict[str, int] = {}
    counts: dict[str, int] = {}
    steps: list[tuple[int, str, int]] = []
    total = peak = peak_at = 0
    at_peak: dict[str, int] = {}
    for moment, address, nbytes, site in changes:
        if nbytes > 0:
            known[address] = (site, nbytes)
            counts[site] = counts.get(site, 0) + 1
        elif address in known:
            site, size = known.pop(address)
            nbytes = -size
        else:
            continue
        steps.append((moment, site, nbytes))
        live[site] = live.get(site, 0) + nbytes
        peak_of[site] = max(peak_of.get(site, 0), live[site])
        total += nbytes
        if total > peak:
            peak, peak_at, at_peak = (
                total,
                len(steps) - 1,
                {name: size for name, size in live.items() if size},
            )
    if not steps:
        return None
    order = sorted(peak_of, key=lambda name: (-at_peak.get(name, 0), -peak_of[name], name))
    shown = order[:SITES]
    chosen = _choice(steps, peak_at)
    values: dict[str, list[int]] = {name: [] for name in [*shown, OTHERS]}
    now = dict.fromkeys(values, 0)
    for index, (_, site, nbytes) in enumerate(steps):
        now[site if site in now else OTHERS] += nbytes
        if index in chosen:
            for name, series in values.items():
                series.append(now[name])
    sites = [
        {
            "name": name,
            "at_peak": at_peak.get(name, 0),
            "most": peak_of[name],
            "allocations": counts[name],
            "bytes": values[name],
        }
        for name in shown
    ]
    rest = order[SITES:]
    if rest:
        sites.append(
            {
                "name": OTHERS,
                "at_peak": sum(at_peak.get(name, 0) for name in rest),
                "most": max(values[OTHERS]),
                "allocations": sum(counts[name] for name in rest),
                "bytes": values[OTHERS],
            }
        )
    moments = [steps[index][0] for index in sorted(chosen)]
    return {
        "device": device,
        "peak": peak,
        "peak_moment": steps[peak_at][0],
        "moments": moments,
        "sites": sites,
    }


def _choice(steps: Sequence[tuple[int, str, int]], peak_at: int) -> set[int]:
    """Return the indices of the moments that are shown: in each part of the time the one with the most memory."""
    if len(steps) <= POINTS:
        return set(range(len(steps)))
    begin, end = steps[0][0], steps[-1][0]
    width = max(1, (end - begin) / (POINTS - 3))
    best: dict[int, tuple[int, int]] = {}
    total = 0
    for index, (moment, _, nbytes) in enumerate(steps):
        total += nbytes
        part = int((moment - begin) / width)
        best[part] = max(best.get(part, (-1, 0)), (total, index))
    return {index for _, index in best.values()} | {0, peak_at, len(steps) - 1}


class _Plain(pickle.Unpickler):
    """Reader of pickles that consist of plain containers, numbers and strings."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, and a snapshot has plain values only")


def read_snapshot(path: Path) -> dict[str, Any]:
    """Read a file of `tt.cuda.memory._dump_snapshot` without running any code of the file.

    Raises:
        TraceError: if the file cannot be read or is no snapshot.
    """
    try:
        with open_regular(path) as file:
            snapshot = _Plain(file).load()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # a damaged pickle raises almost anything
        raise TraceError(f"{path}: not a snapshot of tt.cuda.memory: {error}") from None
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("device_traces"), list):
        raise TraceError(f"{path}: not a snapshot of tt.cuda.memory: expected a dict with device_traces")
    return snapshot


def memory_of_snapshot(path: Path) -> list[dict[str, Any]]:
    """Return the memory of each device of a snapshot file. Raise TraceError if it has no recorded events."""
    devices = read_snapshot(path)["device_traces"]
    try:
        memories = [
            memory
            for index, entries in enumerate(devices)
            if (memory := memory_over_time(f"cuda:{index}", list(_snapshot_changes(entries)))) is not None
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise TraceError(f"{path}: damaged: {type(error).__name__}: {error}") from None
    if not memories:
        raise TraceError(
            f"{path}: no allocation is recorded in it; call tt.cuda.memory._record_memory_history() before"
        )
    return memories


def _snapshot_changes(entries: Sequence[dict[str, Any]]) -> Iterable[Change]:
    zero = min((entry["time_us"] for entry in entries), default=0)
    for entry in entries:
        moment = 1000 * (entry["time_us"] - zero)
        if entry["action"] == "alloc":
            yield Change(moment, entry["addr"], entry["size"], _site_of_frames(entry.get("frames") or []))
        elif entry["action"] == "free_completed":
            yield Change(moment, entry["addr"], -entry["size"], "")


def _site_of_frames(frames: Sequence[dict[str, Any]]) -> str:
    """Name the innermost frame outside of triten, and the function of triten that it called."""
    called = ""
    for each in frames:
        if not each["filename"].startswith((_PACKAGE, "<")):
            name = Frame(each["filename"], each["line"], each["name"]).name
            return f"{called}, {name}" if called else name
        called = each["name"]
    return called or OUTSIDE
