"""Stream capture in a driver: work on a stream is recorded into a graph instead of running.

A capture begins on one stream. Another stream joins it by waiting for an event that was recorded in it. The first
stream has to wait for all others before the capture ends. "Potentially unsafe" calls could break an active capture:
allocating or freeing memory, loading a kernel, querying an event. The rules of
``cudaThreadExchangeStreamCaptureMode`` prohibit them; this module implements the rules for both drivers. Source: CUDA
Runtime API, "Stream Management", and CUDA Programming Guide, "CUDA Graphs".
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


def capture_error(error_text: str, detail: str) -> RuntimeError:
    """Return the driver's error with one of the texts above, with the detail of the failed call."""
    return RuntimeError(f"CUDA error: {error_text}: {detail}")


def checked_mode(mode: str) -> CaptureMode:
    """Return the mode. Raise RuntimeError for an unknown one."""
    for known in MODES:
        if mode == known:
            return known
    raise RuntimeError(
        f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {mode}"
    )


class Underway(NamedTuple):
    """Active capture: its mode and the thread that began it."""

    mode: CaptureMode
    thread: int

    def prohibits(self, mode: CaptureMode, thread: int) -> bool:
        """Return True if this capture prohibits unsafe calls in a thread with the given mode."""
        if mode == "relaxed":
            return False
        if self.thread == thread:
            return self.mode != "relaxed"
        return mode == "global" and self.mode == "global"


class _ThreadMode(threading.local):
    mode: CaptureMode = "global"


class StreamCapture(ABC):
    """Graph interface of a driver. Graphs and executables are plain ints, like streams and events."""

    def __init__(self) -> None:
        super().__init__()
        self.captures_underway: dict[int, Underway] = {}
        """Active captures by the stream on which each began. Almost always empty, so callers check it first."""
        self._thread_mode = _ThreadMode()

    @abstractmethod
    def begin_capture(self, stream: int, mode: CaptureMode = "global") -> None:
        """Begin a capture on a stream of the current device.

        Raises RuntimeError for the default stream, and for a capturing stream.
        """

    @abstractmethod
    def end_capture(self, stream: int) -> int:
        """End the capture that began on this stream and return the graph.

        Raises RuntimeError in these cases; only the last three leave the capture active:

        - The capture was invalidated.
        - Another stream's work was not joined.
        - The capture began on another stream.
        - The capture is not relaxed and began in another thread.
        - No capture is active.
        """

    @abstractmethod
    def capture_status(self, stream: int) -> CaptureStatus:
        """Return whether a stream is capturing ("active", "invalidated" or "none")."""

    @abstractmethod
    def capture_id(self, stream: int) -> int:
        """Return the id of the stream's capture, unique in the process; 0 without a capture."""

    def is_capturing(self, stream: int) -> bool:
        """Return True if work on a stream is captured instead of run."""
        return bool(self.captures_underway) and self.capture_status(stream) != "none"

    def exchange_capture_mode(self, mode: CaptureMode) -> CaptureMode:
        """Set this thread's mode (``cudaThreadExchangeStreamCaptureMode``) and return the previous one.

        With "relaxed", unsafe calls are allowed at the caller's own risk.
        """
        before, self._thread_mode.mode = self._thread_mode.mode, mode
        return before

    def unsafe_calls_prohibited(self) -> bool:
        """Return True if a capture prohibits this thread from allocating memory, loading kernels or querying events."""
        if not self.captures_underway:
            return False
        mode, thread = self._thread_mode.mode, threading.get_ident()
        return any(capture.prohibits(mode, thread) for capture in list(self.captures_underway.values()))

    def check_may_load(self, kernel: str) -> None:
        """Raise RuntimeError if a capture prohibits loading a kernel; the capture stays valid."""
        if self.unsafe_calls_prohibited():
            raise capture_error(
                UNSUPPORTED,
                f"kernel '{kernel}' is not loaded yet, and loading is not allowed during a capture: run the same work "
                "once before the capture begins (a warm-up)",
            )

    @abstractmethod
    def instantiate_graph(self, graph: int) -> int:
        """Return a new executable of the graph."""

    @abstractmethod
    def launch_graph(self, executable: int, stream: int) -> None:
        """Enqueue all work of the graph on a stream of its device.

        `launches` grows by its kernels, `graph_launches` by one. The device waits for earlier launches of the same
        executable.
        """

    @abstractmethod
    def destroy_graph(self, graph: int) -> None:
        """Destroy a graph; its executables live on."""

    @abstractmethod
    def destroy_executable(self, executable: int) -> None:
        """Destroy an executable; active launches complete."""

    @abstractmethod
    def print_graph(self, graph: int, path: str) -> None:
        """Write the graph's nodes and dependencies to a file in Graphviz's DOT language."""


class relaxed_capture:
    """Context manager in which this thread may make unsafe calls during a capture.

    Use it for calls that are no part of the captured work, such as allocating a segment for its memory pool.

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
