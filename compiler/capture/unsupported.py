"""What cannot be captured, and where the program asked for it."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType

PACKAGE = str(Path(__file__).resolve().parents[2])


Span = tuple[int | None, int | None, int | None, int | None]


@dataclass(frozen=True)
class Step:
    """Where one of the functions that ran stood.

    Attributes:
        code: the function's.
        span: lines and columns: the first line, the last one, the first column, the one behind.
    """

    code: CodeType
    span: Span

    @staticmethod
    def of(code: CodeType, instruction: int, line: int | None) -> Step:
        """The place of an instruction."""
        spans = list(code.co_positions())
        span = spans[instruction // 2] if 0 <= instruction // 2 < len(spans) else (None,) * 4
        return Step(code, (line, line, None, None) if span[0] is None else span)


class Unsupported(RuntimeError):
    """Part of a program that a graph cannot hold (`torch._dynamo.exc.Unsupported`).

    Attributes:
        reason: what it is, a sentence without a full stop.
        place: ``file:line: text`` of the user's code, or None where that is not known.
        trail: where the functions stood that were running, from the outermost on.
        element: which element of the function's result it is about, None if it is not about one.
    """

    def __init__(
        self,
        reason: str,
        place: str | None = None,
        trail: tuple[Step, ...] = (),
        element: int | None = None,
    ) -> None:
        super().__init__(reason if place is None else f"{reason} ({place})")
        self.reason = reason
        self.place = place
        self.trail = trail
        self.element = element

    def located(self, trace: TracebackType | None) -> Unsupported:
        """The same error, which knows where a traceback says that it arose."""
        place = self.place or place_of(trace)
        return type(self)(self.reason, place, self.trail or trail_of(trace), self.element)


def place_of(trace: TracebackType | None) -> str | None:
    """The innermost line of a traceback that is not this package's own."""
    for frame in reversed(traceback.extract_tb(trace)):
        if not is_own(frame.filename):
            return f"{frame.filename}:{frame.lineno}: {(frame.line or '').strip()}"
    return None


def trail_of(trace: TracebackType | None) -> tuple[Step, ...]:
    """Where the functions of a traceback stood, from the outermost on."""
    found = []
    while trace is not None:
        found.append(Step.of(trace.tb_frame.f_code, trace.tb_lasti, trace.tb_lineno))
        trace = trace.tb_next
    return tuple(found)


def trail_from(frame: FrameType | None) -> tuple[Step, ...]:
    """Where a frame and those that called it stand, from the outermost on."""
    found = []
    while frame is not None:
        found.append(Step.of(frame.f_code, frame.f_lasti, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found))


@cache
def is_own(filename: str) -> bool:
    """Whether a file is one of this package's, its tests and examples left out."""
    if filename.startswith("<"):
        return filename.startswith("<triten")
    try:
        inside = Path(filename).resolve().relative_to(PACKAGE)
    except (ValueError, OSError):
        return False
    return (
        bool(inside.parts)
        and inside.parts[0] not in ("tests", "examples", "docs")
        and not inside.parts[0].startswith(".")
    )
