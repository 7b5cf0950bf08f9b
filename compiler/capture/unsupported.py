"""Errors of capture, with the position in the program."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType

PACKAGE = str(Path(__file__).parents[2])


Span = tuple[int | None, int | None, int | None, int | None]


@dataclass(frozen=True)
class Step:
    """Position in one of the functions that ran.

    Attributes:
        code: The function's code.
        span: Lines and columns: the first line, the last line, the first column, and the end column.
    """

    code: CodeType
    span: Span

    @staticmethod
    def of(code: CodeType, instruction: int, line: int | None) -> Step:
        """Return the position of an instruction."""
        spans = list(code.co_positions())
        span = spans[instruction // 2] if 0 <= instruction // 2 < len(spans) else (None,) * 4
        return Step(code, (line, line, None, None) if span[0] is None else span)


class Unsupported(RuntimeError):
    """Unsupported part of a program, which cannot be captured (`torch._dynamo.exc.Unsupported`).

    Attributes:
        reason: The reason, a sentence without a full stop.
        position: ``file:line: text`` of the user's code, or None if unknown.
        trail: The positions of the running functions, the outermost first.
        element: The element of the function's result that it concerns, or None.
    """

    def __init__(
        self,
        reason: str,
        position: str | None = None,
        trail: tuple[Step, ...] = (),
        element: int | None = None,
    ) -> None:
        super().__init__(reason if position is None else f"{reason} ({position})")
        self.reason = reason
        self.position = position
        self.trail = trail
        self.element = element

    def located(self, trace: TracebackType | None) -> Unsupported:
        """Return the same error with the position from a traceback."""
        position = self.position or position_of(trace)
        return type(self)(self.reason, position, self.trail or trail_of(trace), self.element)


def position_of(trace: TracebackType | None) -> str | None:
    """Return the innermost line of a traceback that is not this package's own."""
    for frame in reversed(traceback.extract_tb(trace)):
        if not is_own(frame.filename):
            return f"{frame.filename}:{frame.lineno}: {(frame.line or '').strip()}"
    return None


def trail_of(trace: TracebackType | None) -> tuple[Step, ...]:
    """Return the positions of the functions of a traceback, the outermost first."""
    steps = []
    while trace is not None:
        steps.append(Step.of(trace.tb_frame.f_code, trace.tb_lasti, trace.tb_lineno))
        trace = trace.tb_next
    return tuple(steps)


def trail_from(frame: FrameType | None) -> tuple[Step, ...]:
    """Return the positions of a frame and its callers, the outermost first."""
    steps = []
    while frame is not None:
        steps.append(Step.of(frame.f_code, frame.f_lasti, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(steps))


@cache
def is_own(filename: str) -> bool:
    """Return True if a file belongs to this package, except its tests and examples."""
    if filename.startswith("<"):
        return filename.startswith("<triten")
    try:
        inside = Path(filename).relative_to(PACKAGE)
    except ValueError:
        return False
    return bool(inside.parts) and inside.parts[0] != "tests" and not inside.parts[0].startswith(".")
