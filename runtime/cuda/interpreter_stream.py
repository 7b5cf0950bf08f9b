"""Simulated streams and events: queues of work that runs when something waits for it, never before.

Streams run as late as they may and independently of each other, so that a missing wait shows as a wrong
result or an illegal access instead of passing by luck.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from .interpreter_capture import Capture, CapturedRecord

Work = Callable[[], None]

QUEUE_LIMIT = 1024
"""A launch waits while this many operations are pending, as on a GPU."""


class EventRecord:
    """One recording of an event: a place in a stream's queue."""

    __slots__ = ("done", "seconds", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.done = False
        self.seconds = 0.0

    def happen(self) -> None:
        """The stream has come to this place."""
        self.done = True
        self.seconds = time.perf_counter()

    def wait(self) -> None:
        """Run the stream up to this place."""
        if not self.done:
            self.stream.run(self)


class Event:
    """An event and its latest recording."""

    __slots__ = ("record", "timing")

    def __init__(self, timing: bool) -> None:
        self.timing = timing
        self.record: EventRecord | CapturedRecord | None = None


class Stream:
    """Work of one device in order. `enqueue` takes no lock; work runs under the one lock of the driver.

    While `capture` is set, work is recorded there instead; the queue has what came before.
    """

    __slots__ = ("_lock", "_queue", "capture", "device", "is_legacy")

    def __init__(self, device: int, lock: threading.RLock, is_legacy: bool = False) -> None:
        self.device = device
        self.is_legacy = is_legacy
        self.capture: Capture | None = None
        self._lock = lock
        self._queue: deque[Work] = deque()

    def enqueue(self, work: Work, kind: str, name: str = "") -> None:
        """Add work to the end, or to the capture. Raises RuntimeError for a capture that was invalidated."""
        capture = self.capture
        if capture is None:
            self._queue.append(work)
        else:
            capture.add(self, work, kind, name)

    def enqueue_now(self, work: Work) -> None:
        """Add work to the end, captured or not."""
        self._queue.append(work)

    def record(self) -> EventRecord | CapturedRecord:
        """Mark the end of what has been enqueued so far."""
        if self.capture is not None:
            return self.capture.record(self)
        record = EventRecord(self)
        self._queue.append(record.happen)
        return record

    @property
    def is_full(self) -> bool:
        """Whether no more launches may be added before some have run."""
        return len(self._queue) >= QUEUE_LIMIT and self.capture is None

    @property
    def is_idle(self) -> bool:
        """Whether no work is pending."""
        return not self._queue

    def step(self) -> None:
        """Run the oldest piece of work. It leaves the queue even if it fails."""
        with self._lock:
            if self._queue:
                self._queue.popleft()()

    def run(self, until: EventRecord | None = None) -> None:
        """Run all work, or all up to a recording."""
        with self._lock:
            while self._queue and not (until is not None and until.done):
                self._queue.popleft()()
