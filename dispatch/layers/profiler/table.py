"""Averages of events as a table, in PyTorch's columns and formats (torch/autograd/profiler_util.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from .events import SORT_KEYS, DeviceType, EventList

COLUMN = 12
GAP = "  "
FLOPS = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3), ("", 1))
UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def format_time(microseconds: float, unit: str | None = None) -> str:
    """Format a time in its unit, or in the largest unit with a value of at least one."""
    if unit is None:
        unit = "s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us"
    return f"{microseconds / UNITS[unit]:.3f}{unit}"


def format_share(part: float, whole: float) -> str:
    """Format a share as a percentage."""
    return "NaN" if whole == 0 else f"{part * 100.0 / whole:.2f}%"


def format_memory(nbytes: int) -> str:
    """Format bytes in the largest unit with a value of at least one."""
    for unit, size in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def table(
    events: EventList,
    *,
    sort_by: str | None,
    row_limit: int,
    widths: tuple[int, int, int],
    header: str | None,
    top_level_events_only: bool,
    time_unit: str | None,
) -> str:
    """See `EventList.table`."""
    if time_unit is not None and time_unit not in UNITS:
        raise ValueError(f"table(): time_unit: expected one of {sorted(UNITS)} or None, got {time_unit!r}")
    if sort_by is not None:
        attribute = sort_by.replace("cuda", "device")
        if attribute not in SORT_KEYS:
            names = sorted(name.replace("device", "cuda") for name in SORT_KEYS)
            raise AttributeError(f"table(): sort_by: expected one of {names}, got {sort_by!r}")
        events = EventList(
            sorted(events, key=attrgetter(attribute), reverse=True), profile_memory=events.profile_memory
        )
    if not events:
        return ""
    cpu_total = sum(event.self_cpu_time_total for event in events)
    device_total = sum(e.self_device_time_total for e in events if e.device_type is DeviceType.CUDA)
    columns = _columns(events, cpu_total, device_total, time_unit, widths)
    rows = [e for e in events if not (top_level_events_only and e.cpu_parent is not None)]
    if row_limit >= 0:
        rows = rows[:row_limit]
    cells = [[cell(event) for _, _, _, cell in columns] for event in rows]
    line = GAP.join("-" * width for _, width, _, _ in columns) + GAP
    lines = []
    if header is not None:
        lines += ["=" * (len(line) - len(GAP)), header]
    if top_level_events_only:
        lines += ["=" * (len(line) - len(GAP)), "This report only display top-level ops statistics"]
    lines += [line, _row(columns, [title for title, _, _, _ in columns]), line]
    lines += [_row(columns, row) for row in cells]
    lines += [line, f"Self CPU time total: {format_time(cpu_total, time_unit)}"]
    if device_total:
        lines.append(f"Self CUDA time total: {format_time(device_total, time_unit)}")
    return "\n".join(lines) + "\n"


Column = tuple[str, int, str, Callable[[Any], str]]


def _columns(
    events: Sequence[Any],
    cpu_total: float,
    device_total: float,
    unit: str | None,
    widths: tuple[int, int, int],
) -> list[Column]:
    """Return (title, width, alignment, cell of an event) of each column for which the events have values."""
    name_width, shapes_width, source_width = widths

    def share(attribute: str, whole: float) -> Callable[[Any], str]:
        return lambda event: format_share(getattr(event, attribute), whole)

    def time(attribute: str) -> Callable[[Any], str]:
        return lambda event: format_time(getattr(event, attribute), unit)

    def memory(attribute: str) -> Callable[[Any], str]:
        return lambda event: format_memory(getattr(event, attribute))

    columns: list[Column] = [
        (
            "Name",
            min(max(len(e.key) for e in events) + 4, name_width),
            ">",
            lambda e: _cut(e.key, name_width),
        ),
        ("Self CPU %", COLUMN, ">", share("self_cpu_time_total", cpu_total)),
        ("Self CPU", COLUMN, ">", time("self_cpu_time_total")),
        ("CPU total %", COLUMN, ">", share("cpu_time_total", cpu_total)),
        ("CPU total", COLUMN, ">", time("cpu_time_total")),
        ("CPU time avg", COLUMN, ">", time("cpu_time")),
    ]
    if device_total:
        columns += [
            ("Self CUDA", COLUMN, ">", time("self_device_time_total")),
            ("Self CUDA %", COLUMN, ">", share("self_device_time_total", device_total)),
            ("CUDA total", COLUMN, ">", time("device_time_total")),
            ("CUDA time avg", COLUMN, ">", time("device_time")),
        ]
    if getattr(events, "profile_memory", False):
        columns += [
            ("CPU Mem", COLUMN, ">", memory("cpu_memory_usage")),
            ("Self CPU Mem", COLUMN, ">", memory("self_cpu_memory_usage")),
        ]
        if any(event.self_device_memory_usage for event in events):
            columns += [
                ("CUDA Mem", COLUMN, ">", memory("device_memory_usage")),
                ("Self CUDA Mem", COLUMN, ">", memory("self_device_memory_usage")),
            ]
    columns.append(("# of Calls", COLUMN, ">", lambda event: str(event.count)))
    if any(event.flops for event in events):
        least = min(event.flops for event in events if event.flops)
        prefix, size = next((p, n) for p, n in FLOPS if least >= n)
        columns.append(
            (f"Total {prefix}FLOPs", COLUMN, ">", lambda e: f"{e.flops / size:.3f}" if e.flops else "--")
        )
    if any(event.input_shapes for event in events):
        width = min(max(len(str(e.input_shapes)) for e in events) + 4, shapes_width)
        columns.append(("Input Shapes", width, ">", lambda event: str(event.input_shapes)[:width]))
    if any(event.stack for event in events):
        longest = max(len(entry) for event in events for entry in event.stack)
        source = min(longest + 4, source_width)
        columns.append(
            ("Source Location", source, "<", lambda event: event.stack[0][-source:] if event.stack else "")
        )
    return columns


def _cut(name: str, width: int) -> str:
    return name if len(name) < width - 3 else name[: width - 3] + "..."


def _row(columns: Sequence[Column], cells: Sequence[str]) -> str:
    return "".join(
        f"{cell:{align}{width}}{GAP}" for (_, width, align, _), cell in zip(columns, cells, strict=True)
    )
