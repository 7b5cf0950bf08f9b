"""Position of warnings in the caller's own code."""

from __future__ import annotations

import sys

_PACKAGE = __name__.partition(".")[0]


def levels_to_user() -> int:
    """Return the ``stacklevel`` of a warning: the number of calls up to code outside of this package."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, levels = frame.f_back, levels + 1
    return levels
