"""What cannot be captured, and where the program asked for it."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

PACKAGE = str(Path(__file__).resolve().parents[2])


class Unsupported(RuntimeError):
    """Part of a program that a graph cannot hold (`torch._dynamo.exc.Unsupported`).

    Attributes:
        reason: what it is, a sentence without a full stop.
        place: ``file:line: text`` of the user's code, or None where that is not known.
    """

    def __init__(self, reason: str, place: str | None = None) -> None:
        super().__init__(reason if place is None else f"{reason} ({place})")
        self.reason = reason
        self.place = place


def place_of(trace: TracebackType | None) -> str | None:
    """The innermost line of a traceback that is not this package's own."""
    for frame in reversed(traceback.extract_tb(trace)):
        if not is_own(frame.filename):
            return f"{frame.filename}:{frame.lineno}: {(frame.line or '').strip()}"
    return None


def is_own(filename: str) -> bool:
    """Whether a file is one of this package's, its tests and examples left out."""
    if filename.startswith("<triten"):
        return True
    try:
        inside = Path(filename).resolve().relative_to(PACKAGE)
    except (ValueError, OSError):
        return False
    return (
        bool(inside.parts)
        and inside.parts[0] not in ("tests", "examples", "docs")
        and not inside.parts[0].startswith(".")
    )
