"""KeyboardInterrupt at a moment at which CPython looks for signals: a function begins, or one of C has returned."""

import os
import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import triten
from triten.runtime.cpu.background import background

HANGS = (-signal.SIGPROF, -signal.SIGALRM)
"""Exit codes of a child of `in_child` that computes or waits for too long."""
WAITS_PER_SECOND = 8
"""Seconds that a child may wait for each second that it may compute."""
ROOTS = tuple({str(Path(each).resolve()) for each in triten.__path__})


def is_of_package(code: CodeType) -> bool:
    """Return whether code is this package's own, its tests left out."""
    name = code.co_filename
    return name.startswith(ROOTS) and "/tests/" not in name and "/.venv/" not in name


class Moments:
    """Counts the moments of this thread, and raises KeyboardInterrupt at one of them.

    Args:
        at: its number, from 1; 0 for none.
        counts: which code's moments count; all by default.

    Attributes:
        count: how many there were.
        where: the place of the one that was interrupted; empty if none was.
    """

    def __init__(self, at: int = 0, counts: Callable[[CodeType], bool] = lambda code: True) -> None:
        self.at, self.counts = at, counts
        self.count, self.where = 0, ""

    def interrupts(self, function: Callable[[], Any]) -> bool:
        """Call a function. Return whether it was interrupted."""
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            function()
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(before)
        return False

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "c_return") or not self.counts(frame.f_code):
            return
        self.count += 1
        if self.count == self.at:
            sys.setprofile(None)
            name = os.path.basename(frame.f_code.co_filename)
            self.where = f"{name}:{frame.f_lineno} {frame.f_code.co_qualname}, {event}"
            raise KeyboardInterrupt


def in_child(function: Callable[[], Any], seconds: int = 60) -> tuple[str, Any]:
    """Return what a function gives in a fork: "value" and it, "error" and its text, or "death" and the exit code.

    Args:
        function: the child's work; its result is pickled.
        seconds: limit of the child's CPU time, after which it dies of SIGPROF. A busy machine does not shorten it.
            A child that waits `WAITS_PER_SECOND` times as long dies of SIGALRM.
    """
    source, sink = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads
        child = os.fork()
    if child == 0:
        os.close(source)
        for number in HANGS:
            signal.signal(-number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.alarm(seconds * WAITS_PER_SECOND)
        try:
            answer = ("value", function())
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{os.path.basename(last.filename)}:{last.lineno}"
            answer = ("error", f"{type(error).__name__}: {error} ({place})")
        with os.fdopen(sink, "wb") as stream:
            pickle.dump(answer, stream)
        background.wait()
        os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as stream:
        data = stream.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status or not data:
        return "death", status
    found: tuple[str, Any] = pickle.loads(data)
    return found
