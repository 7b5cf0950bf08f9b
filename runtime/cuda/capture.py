"""Stream capture as a driver's part: work on a stream becomes a graph instead of running.

A capture begins on one stream. Another stream joins it by waiting for an event that was recorded in it, and
has to be waited for by the first one before the capture ends. Calls that could break a capture which somebody
has underway ("potentially unsafe": taking or giving back memory, loading a kernel, querying an event) are
prohibited by the rules of ``cudaThreadExchangeStreamCaptureMode``; those stand here, for both drivers. Source:
CUDA Runtime API, "Stream Management", and CUDA Programming Guide, "CUDA Graphs".
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

CaptureMode = Literal["global", "thread_local", "relaxed"]
CaptureStatus = Literal["none", "active", "invalidated"]

MODES: tuple[CaptureMode, ...] = ("global", "thread_local", "relaxed")
"""In the order of CUDA's numbers 0, 1, 2."""
STATUSES: tuple[CaptureStatus, ...] = ("none", "active", "invalidated")

UNSUPPORTED = "operation not permitted when stream is capturing"
INVALIDATED = "operation failed due to a previous error during capture"
MERGE = "operation would result in a merge of separate capture sequences"
UNMATCHED = "capture was not initiated in this stream"
UNJOINED = "capturing stream has unjoined work"
ISOLATION = "dependency created on uncaptured work in another stream"
IMPLICIT = "operation would make the legacy stream depend on a capturing blocking stream"
CAPTURED_EVENT = "operation not permitted on an event last recorded in a capturing stream"
WRONG_THREAD = "attempt to terminate a thread-local capture sequence from another thread"
ILLEGAL_STATE = "the operation cannot be performed in the present state"


def capture_error(what: str, detail: str) -> RuntimeError:
    """The driver's error `what`, one of the texts above, and what was done wrong."""
    return RuntimeError(f"CUDA error: {what}: {detail}")


def checked_mode(mode: str) -> CaptureMode:
    """The mode. Raises RuntimeError for another word."""
    for known in MODES:
        if mode == known:
            return known
    raise RuntimeError(
        f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {mode}"
    )


class Underway(NamedTuple):
    """A capture that has begun and not ended: its mode and the thread that began it."""

    mode: CaptureMode
    thread: int

    def prohibits(self, mode: CaptureMode, thread: int) -> bool:
        """Whether a thread whose own mode this is may make no unsafe call on account of this capture."""
        if mode == "relaxed":
            return False
        if self.thread == thread:
            return self.mode != "relaxed"
        return mode == "global" and self.mode == "global"


class _ThreadMode(threading.local):
    mode: CaptureMode = "global"


class StreamCapture(ABC):
    """What a driver offers for graphs. Graphs and executables are plain ints, as streams and events are."""

    def __init__(self) -> None:
        super().__init__()
        self.captures_underway: dict[int, Underway] = {}
        """By the stream on which each began; empty almost always, so that others ask this first."""
        self._thread_mode = _ThreadMode()

    @abstractmethod
    def begin_capture(self, stream: int, mode: CaptureMode = "global") -> None:
        """Begin a capture on a stream of the current device.

        Raises RuntimeError for the default stream, and for one that is capturing.
        """

    @abstractmethod
    def end_capture(self, stream: int) -> int:
        """End the capture that began on this stream: the graph.

        Raises RuntimeError if it was invalidated, if another stream's work was not joined, if the capture began on
        another stream, or, for one that is not relaxed, in another thread. Only in the last two cases, and where none
        is underway, does the capture not end.
        """

    @abstractmethod
    def capture_status(self, stream: int) -> CaptureStatus:
        """Whether work on a stream is being captured, or would be but for an error."""

    @abstractmethod
    def capture_id(self, stream: int) -> int:
        """A number of the capture that the stream takes part in, unique in the process; 0 if there is none."""

    def is_capturing(self, stream: int) -> bool:
        """Whether work enqueued on a stream is not run."""
        return bool(self.captures_underway) and self.capture_status(stream) != "none"

    def exchange_capture_mode(self, mode: CaptureMode) -> CaptureMode:
        """Say what captures forbid this thread (``cudaThreadExchangeStreamCaptureMode``); returns what was said before.

        With "relaxed" unsafe calls are allowed, at the caller's own responsibility.
        """
        before, self._thread_mode.mode = self._thread_mode.mode, mode
        return before

    def unsafe_calls_prohibited(self) -> bool:
        """Whether some capture keeps this thread from taking memory, loading kernels and querying events."""
        if not self.captures_underway:
            return False
        mode, thread = self._thread_mode.mode, threading.get_ident()
        return any(capture.prohibits(mode, thread) for capture in list(self.captures_underway.values()))

    def check_may_load(self, kernel: str) -> None:
        """Raise RuntimeError where a capture forbids loading a kernel; the capture stays valid."""
        if self.unsafe_calls_prohibited():
            raise capture_error(
                UNSUPPORTED,
                f"kernel '{kernel}' is not loaded yet, and loading is not allowed during a capture: run the same work "
                "once before the capture begins (a warm-up)",
            )

    @abstractmethod
    def instantiate_graph(self, graph: int) -> int:
        """An executable form of the graph."""

    @abstractmethod
    def launch_graph(self, executable: int, stream: int) -> None:
        """Enqueue all of its work on a stream of its device; `launches` grows by its kernels, `graph_launches` by one.

        Waits, on the device, for launches of the same executable before it.
        """

    @abstractmethod
    def destroy_graph(self, graph: int) -> None:
        """Give a graph back; executables made of it live on."""

    @abstractmethod
    def destroy_executable(self, executable: int) -> None:
        """Give an executable back; launches that are underway come to their end."""

    @abstractmethod
    def print_graph(self, graph: int, path: str) -> None:
        """Write the graph's nodes and dependencies to a file in Graphviz' DOT language."""


class relaxed_capture:
    """A block in which this thread may make unsafe calls while captures are underway.

    For those that are no part of a capture's work, such as taking a segment for its memory pool.

    Example:
        >>> from triten.runtime.cuda.capture import relaxed_capture
        >>> from triten.runtime.cuda.driver import driver
        >>> with relaxed_capture(driver()):
        ...     driver().unsafe_calls_prohibited()
        False
    """

    __slots__ = ("_before", "_driver")

    def __init__(self, driver: StreamCapture) -> None:
        self._driver = driver
        self._before: CaptureMode | None = None

    def __enter__(self) -> None:
        if self._driver.captures_underway:
            self._before = self._driver.exchange_capture_mode("relaxed")

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self._driver.exchange_capture_mode(self._before)
