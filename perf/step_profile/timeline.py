"""Timeline of a trace: the spans of each thread and stream, as flat lists of integers for the page."""

from __future__ import annotations

from typing import Any

from .flame import KINDS, kind_of
from .trace import Span, Trace

SPANS = 6000
"""The most spans of a page's timelines. The shortest ones are left out; an enclosing span is never shorter."""


def timeline(trace: Trace, max_spans: int = SPANS) -> dict[str, Any]:
    """Return tracks, tables of names and details, and spans.

    A span is seven integers: track, depth, start in ns since the span before it, duration in ns, name, detail (-1:
    none), kind. `launches` has pairs of spans: a launch, and the device work that it enqueued. `left_out` is the
    number of spans that were left out.
    """
    every = [(index, span) for index, track in enumerate(trace.tracks) for span in track.spans]
    shown = sorted(every, key=lambda each: (-each[1].duration, each[1].depth))[:max_spans]
    shown.sort(key=lambda each: (each[0], each[1].start, each[1].depth))
    names: dict[str, int] = {}
    details: dict[str, int] = {}
    spans: list[int] = []
    numbers: dict[int, int] = {}
    before = 0
    for number, (track, span) in enumerate(shown):
        detail = detail_of(span)
        numbers[id(span)] = number
        spans += (
            track,
            span.depth,
            span.start - before,
            span.duration,
            names.setdefault(span.name, len(names)),
            details.setdefault(detail, len(details)) if detail else -1,
            KINDS.index(kind_of(span)),
        )
        before = span.start
    launches = [
        number
        for _, span in shown
        if span.launch is not None and id(span.launch) in numbers
        for number in (numbers[id(span.launch)], numbers[id(span)])
    ]
    return {
        "tracks": [{"name": track.name, "is_device": track.is_device} for track in trace.tracks],
        "kinds": list(KINDS),
        "names": list(names),
        "details": list(details),
        "spans": spans,
        "launches": launches,
        "left_out": len(every) - len(shown),
    }


def detail_of(span: Span) -> str:
    """Describe a span: shapes of its arguments, kernels, the line of the program."""
    parts = []
    shapes, types = span.args.get("Input Dims"), span.args.get("Input type") or []
    if shapes:
        shown = [
            f"{kind}{_shape(shape)}"
            for shape, kind in zip(shapes, [*types, *[""] * len(shapes)], strict=False)
            if kind not in ("", "Scalar", "TensorList")
        ]
        parts.append(", ".join(shown))
    kernels = span.args.get("Kernel functions")
    if kernels:
        parts.append(f"kernel {', '.join(map(str, kernels))}")
    if span.args.get("grid"):
        parts.append(f"grid {'x'.join(map(str, span.args['grid']))}")
    frames = span.frames() if span.category == "cpu_op" else []
    if frames:
        parts.append(frames[-1].name)
    return "; ".join(part for part in parts if part)


def _shape(shape: Any) -> str:
    return f"[{'x'.join(map(str, shape))}]" if isinstance(shape, list) else ""
