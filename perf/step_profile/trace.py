"""Reader of trace files in Chrome's format, by `tt.profiler` or PyTorch's profiler, into nested spans.

Spans of one thread nest by their times. Times are integers in nanoseconds since the first span.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...runtime.regular_file import open_regular
from ..refusal import RefusalError

METADATA = "tritenStep"
"""Key of the trace file that holds the number of steps, the time without the profiler, and the prediction."""

DEVICE_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
LAUNCH_CATEGORIES = frozenset({"cuda_runtime", "cuda_driver"})
HOST_CATEGORIES = frozenset({"cpu_op", "user_annotation", "python_function"}) | LAUNCH_CATEGORIES
ROUNDING = 2
"""Nanoseconds by which a nested span may end later than the enclosing one, since both are rounded."""
_FRAME = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)$")


class TraceError(RefusalError):
    """Error of a file that is no trace; the message names the file."""


class Frame(NamedTuple):
    """Frame of a call stack."""

    file: str
    line: int
    function: str

    @property
    def name(self) -> str:
        """The function with the file's name and the line."""
        return f"{self.function} ({Path(self.file).name}:{self.line})"


@dataclass(slots=True, eq=False)
class Span:
    """Interval of one thread or stream: an operator, a range, a module's call, a launch, or device work.

    `launched` are the pieces of device work that a launch enqueued; `launch` is the inverse.
    """

    name: str
    category: str
    start: int
    duration: int
    args: dict[str, Any]
    depth: int = 0
    parent: Span | None = None
    children: list[Span] = field(default_factory=list)
    launch: Span | None = None
    launched: list[Span] = field(default_factory=list)

    @property
    def end(self) -> int:
        """End of the interval."""
        return self.start + self.duration

    @property
    def self_time(self) -> int:
        """Time without nested spans."""
        return max(0, self.duration - sum(child.duration for child in self.children))

    @property
    def is_backward(self) -> bool:
        """True for a node of autograd, or the engine's work for it."""
        if self.category != "cpu_op" or "::" not in self.name:
            return self.category == "cpu_op" and "Backward" in self.name
        return self.name.startswith(("autograd::engine::", "torch::autograd::"))

    def frames(self) -> list[Frame]:
        """Return the call stack, outermost first; that of the nearest enclosing span that has one."""
        each: Span | None = self
        while each is not None:
            text = each.args.get("Call stack")
            if text:
                return _frames(str(text))
            each = each.parent
        return []


@functools.lru_cache(4096)
def _frames(stack: str) -> list[Frame]:
    """Parse a stack. The frames outside of the program's module, such as those of `runpy`, are left out."""
    matches = [_FRAME.match(part) for part in stack.split(";")]
    frames = []
    for match in matches:
        if match is not None:
            frames.append(Frame(match["file"], int(match["line"]), match["function"]))
            if match["function"] == "<module>":
                break
    return frames[::-1]


@dataclass(slots=True)
class Track:
    """Spans of a thread of the host, or of a stream of a device, by their start."""

    name: str
    is_device: bool
    spans: list[Span]
    roots: list[Span]

    def innermost(self, moment: int) -> Span | None:
        """Return the innermost span at a moment, or None."""
        innermost, level = None, self.roots
        while level:
            index = bisect_right(level, moment, key=lambda span: span.start) - 1
            if index < 0 or level[index].end < moment:
                break
            innermost = level[index]
            level = innermost.children
        return innermost


class MemoryChange(NamedTuple):
    """Bytes that were allocated (positive) or freed (negative); `span` is the call during which it happened."""

    moment: int
    device: str
    address: int
    nbytes: int
    span: Span | None


@dataclass(slots=True)
class Trace:
    """Contents of a trace file."""

    name: str
    tracks: list[Track]
    memory: list[MemoryChange]
    step: dict[str, Any]

    @property
    def duration(self) -> int:
        """Time from the first span's start to the last span's end."""
        return max((span.end for track in self.tracks for span in track.roots), default=0)

    @property
    def steps(self) -> int:
        """Number of recorded steps."""
        return max(1, int(self.step.get("steps", 1)))

    def spans(self, is_device: bool = False) -> Iterator[Span]:
        """Yield the spans of the host, or of the devices."""
        for track in self.tracks:
            if track.is_device == is_device:
                yield from track.spans


def read_trace(path: Path) -> Trace:
    """Read a trace file; ``.gz`` is decompressed.

    Raises:
        TraceError: if the file cannot be read or has no spans.
    """
    try:
        with open_regular(path) as file:
            content = file.read()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        record = json.loads(content)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: damaged, or no trace: not JSON: {error}") from None
    events = record.get("traceEvents") if isinstance(record, dict) else record
    if not isinstance(events, list):
        raise TraceError(f"{path}: no trace: expected an object with a list traceEvents")
    try:
        return _trace(path, [each for each in events if isinstance(each, dict)], record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TraceError(f"{path}: damaged: {type(error).__name__}: {error}") from None


def _trace(path: Path, events: list[dict[str, Any]], content: Any) -> Trace:
    complete = [
        each
        for each in events
        if each.get("ph") == "X" and each.get("cat") in HOST_CATEGORIES | DEVICE_CATEGORIES
    ]
    if not complete:
        raise TraceError(f"{path}: no operator, range or kernel is recorded in it")
    zero = min(_nanoseconds(each["ts"]) for each in complete)
    members: dict[tuple[Any, Any], list[Span]] = {}
    for each in complete:
        span = Span(
            str(each["name"]),
            each["cat"],
            _nanoseconds(each["ts"]) - zero,
            max(0, _nanoseconds(each.get("dur", 0))),
            each.get("args") or {},
        )
        members.setdefault((each.get("pid"), each.get("tid")), []).append(span)
    names = _track_names(events)
    tracks: dict[tuple[Any, Any], Track] = {}
    for key, spans in members.items():
        is_device = all(span.category in DEVICE_CATEGORIES for span in spans)
        spans.sort(key=lambda span: (span.start, -span.end))
        tracks[key] = Track(names.get(key, f"thread {key[1]}"), is_device, spans, _nest(spans))
    _link(events, tracks, zero)
    memory = list(_memory(events, tracks, zero))
    step = content.get(METADATA) if isinstance(content, dict) else None
    ordered = sorted(tracks.values(), key=lambda track: (track.is_device, -len(track.spans)))
    name = path.name.removesuffix(".gz").removesuffix(".json")
    return Trace(name, ordered, memory, step if isinstance(step, dict) else {})


def _nanoseconds(microseconds: Any) -> int:
    return round(float(microseconds) * 1000)


def _track_names(events: list[dict[str, Any]]) -> dict[tuple[Any, Any], str]:
    """Return the names of threads and streams; a stream has its device's label before it."""
    threads, labels = {}, {}
    for each in events:
        if each.get("ph") == "M" and each.get("name") == "thread_name":
            threads[each.get("pid"), each.get("tid")] = str(each["args"]["name"])
        elif each.get("ph") == "M" and each.get("name") == "process_labels":
            labels[each.get("pid")] = str(each["args"]["labels"])
    return {
        key: f"{labels[key[0]]}, {name}" if labels.get(key[0], "CPU") != "CPU" else name
        for key, name in threads.items()
    }


def _nest(spans: list[Span]) -> list[Span]:
    """Set the parents, and return the spans without one. A span that only overlaps another is beside it."""
    roots, opened = [], list[Span]()
    for span in spans:
        while opened and (opened[-1].end <= span.start or opened[-1].end + ROUNDING < span.end):
            opened.pop()
        if opened:
            span.parent = opened[-1]
            span.depth = span.parent.depth + 1
            span.parent.children.append(span)
        else:
            roots.append(span)
        opened.append(span)
    return roots


def _link(events: list[dict[str, Any]], tracks: dict[tuple[Any, Any], Track], zero: int) -> None:
    """Connect device work with the launches that enqueued it, by the flow events of the file."""
    launches = {}
    for each in events:
        if each.get("ph") == "s" and each.get("cat") == "ac2g":
            track = tracks.get((each.get("pid"), each.get("tid")))
            span = track.innermost(_nanoseconds(each["ts"]) - zero) if track is not None else None
            if span is not None:
                launches[each.get("id")] = span
    for track in tracks.values():
        for span in track.spans if track.is_device else ():
            span.launch = launches.get(span.args.get("correlation"))
            if span.launch is not None:
                span.launch.launched.append(span)


def _memory(
    events: list[dict[str, Any]], tracks: dict[tuple[Any, Any], Track], zero: int
) -> Iterator[MemoryChange]:
    for each in events:
        if each.get("ph") == "i" and each.get("name") == "[memory]":
            args = each["args"]
            moment = _nanoseconds(each["ts"]) - zero
            track = tracks.get((each.get("pid"), each.get("tid")))
            device = "cpu" if args["Device Type"] == 0 else f"cuda:{args['Device Id']}"
            span = track.innermost(moment) if track is not None else None
            yield MemoryChange(moment, device, int(args["Addr"]), int(args["Bytes"]), span)
