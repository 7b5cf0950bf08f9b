"""KeyboardInterrupt at the n-th call of one of the package's functions, where the interpreter looks for signals.

Python itself may be interrupted within the ``__exit__`` of a context manager and within a ``finally``; what runs
beneath one of these, or when an object dies, is passed over.
"""

import ast
import functools
import sys
from contextlib import contextmanager
from pathlib import Path

import triten

ROOTS = (*triten.__path__, str(Path(triten.__path__[0]).resolve()))
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
        """Count a call and interrupt the chosen one; a trace function for `sys.settrace`."""
        if event != "call" or not _is_of_package(frame) or _is_within(frame):
            return None
        self.count += 1
        if self.count - 1 == self.at:
            code = frame.f_code
            self.where = f"{code.co_filename.rpartition('/')[2]}: {code.co_qualname}"
            raise KeyboardInterrupt("as the campaign wants it")
        return None


def _is_of_package(frame):
    name = frame.f_code.co_filename
    return name.startswith(ROOTS) and "/tests/" not in name


def _is_within(frame):
    """Return True if a frame runs cleanup code, or is the constructor of a pointer that just got its memory."""
    depth = 0
    if frame.f_code.co_qualname == "DataPtr.__init__":
        return True
    while frame is not None and depth < DEEPEST:
        if _is_of_package(frame) and (
            frame.f_code.co_name in PASSED_OVER or frame.f_lineno in _final_lines(frame.f_code.co_filename)
        ):
            return True
        frame = frame.f_back
        depth += 1
    return False


@functools.cache
def _final_lines(name):
    """Return the lines of a file that are inside a ``finally`` block."""
    try:
        tree = ast.parse(Path(name).read_text())
    except OSError:
        return frozenset()
    return frozenset(
        line
        for each in ast.walk(tree)
        if isinstance(each, ast.Try)
        for statement in each.finalbody
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    )


@contextmanager
def failing(at=-1):
    """Interrupt the call number `at` within the block; yield the counter."""
    calls = Calls(at)
    before = sys.gettrace()
    sys.settrace(calls.trace)
    try:
        yield calls
    finally:
        sys.settrace(before)
