"""Stack traces of a node's creation: frames of the traced program, as text."""

from __future__ import annotations

import itertools
import re
import traceback

from .qualified_names import ROOT

_FRAME_LINE = re.compile(r'^File "(.+)", line (\d+), in (.+)$')


def recorded_stack() -> str | None:
    """Return the current stack from the first `forward` on, without the package's frames; None without `forward`."""
    own = __file__.rpartition("/")[0].rpartition("/")[0] + "/"
    frames = traceback.extract_stack()
    first = next((i for i, frame in enumerate(frames) if frame.name == "forward"), None)
    if first is None:
        return None
    user_frames = [
        frame
        for frame in frames[first:]
        if not frame.filename.startswith(f"<{ROOT} ") and not _is_own(frame.filename, own)
    ]
    return "".join(traceback.StackSummary.from_list(user_frames).format()).strip() or None


def _is_own(filename: str, root: str) -> bool:
    inside = filename.removeprefix(root)
    return inside != filename and inside.partition("/")[0] != "tests"


def summary_of(stack_trace: str | None) -> str:
    """Format the innermost frame of a recorded stack as one line.

    Example:
        >>> from triten.fx.stack_traces import summary_of
        >>> summary_of('File "model.py", line 3, in forward\\n    return x + 1')
        'File: model.py:3 in forward, code: return x + 1'
    """
    lines = (stack_trace or "").strip().split("\n")
    for location, code in reversed(list(itertools.pairwise(lines))):
        matched = _FRAME_LINE.match(location.strip())
        if matched is not None:
            file, line, function = matched.groups()
            return f"File: {file}:{line} in {function}, code: {code.strip()}"
    return "No stacktrace found for following nodes"
