"""KeyboardInterrupt at the n-th call of one of the package's functions, where the interpreter looks for signals.

Python itself may be interrupted within the ``__exit__`` of a context manager, and between its end and the next line;
what runs beneath one of these, or when an object dies, is passed over.
"""

import sys
from contextlib import contextmanager
from pathlib import Path

import triten

ROOT = str(Path(next(iter(triten.__path__))).resolve())
PASSED_OVER = frozenset({"__exit__", "__del__", "__enter__", "close"})
DEEPEST = 40


class Calls:
    """Counts calls of the package's functions, of which one is interrupted.

    Args:
        at: its number, from 0; -1 for none.
    """

    def __init__(self, at=-1):
        self.at = at
        self.count = 0
        self.where = ""

    def trace(self, frame, event, _):
        """As `sys.settrace` takes it."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or "/tests/" in code.co_filename:
            return None
        if _is_within(frame):
            return None
        self.count += 1
        if self.count - 1 == self.at:
            self.where = f"{code.co_filename.rpartition('/')[2]}: {code.co_qualname}"
            raise KeyboardInterrupt("as the campaign wants it")
        return None


def _is_within(frame):
    """Whether a frame ends something that began."""
    depth = 0
    while frame is not None and depth < DEEPEST:
        if frame.f_code.co_name in PASSED_OVER:
            return True
        frame = frame.f_back
        depth += 1
    return False


@contextmanager
def failing(at=-1):
    """A block in which the call of that number is interrupted; gives what counts them."""
    calls = Calls(at)
    before = sys.gettrace()
    sys.settrace(calls.trace)
    try:
        yield calls
    finally:
        sys.settrace(before)
