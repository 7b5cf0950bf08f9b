"""Where in the caller's own code a warning belongs."""

from __future__ import annotations

import sys

_PACKAGE = __name__.partition(".")[0]


def levels_to_user() -> int:
    """How many calls up from its caller the code is that is not this package's: a warning's ``stacklevel``."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, levels = frame.f_back, levels + 1
    return levels
