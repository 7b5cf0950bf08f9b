"""Simulated streams and events: in-order work of one device, which runs only when something waits for it.

Streams run as late as possible and independently, so that a missing wait shows as a wrong result or an illegal
access. A test can *hold* a stream: it does not run until it is released, and a thread that waits for it waits for the
releasing thread. Work that waits for another process (`Reception`) holds its own stream only.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence

from .capture import Capture, CapturedRecord, begin_waiting

Work = Callable[[], None]

QUEUE_LIMIT = 1024
"""Number of pending operations at which a launch blocks, as on a GPU."""
PATIENCE = 30.0
"""Seconds until a wait for a held stream counts as a deadlock."""


class EventRecord:
    """Recording of an event: a position in a stream's queue."""

    __slots__ = ("done", "seconds", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.done = False
        self.seconds = 0.0

    def happen(self) -> None:
        """Mark the position as reached."""
        self.done = True
        self.seconds = time.perf_counter()

    def wait(self) -> None:
        """Run the stream up to this position."""
        if not self.done:
            self.stream.run(self)


class Wait:
    """Wait operation: a stream does not pass it before the recording has happened."""

    __slots__ = ("record",)

    def __init__(self, record: EventRecord) -> None:
        self.record = record

    def __call__(self) -> None:
        """Do nothing: the scheduler has already waited."""


class Reception(ABC):
    """Work that waits for something outside of the devices, such as a message of another process."""

    __slots__ = ()

    @abstractmethod
    def is_due(self) -> bool:
        """Return True if the awaited message is there; request it if it is not."""

    @abstractmethod
    def __call__(self) -> None:
        """Do the work; it waits in `Scheduler.wait_outside`."""


class Event:
    """Event: the device whose streams record it, and its latest recording."""

    __slots__ = ("device", "record", "timing")

    def __init__(self, timing: bool, device: int) -> None:
        self.timing = timing
        self.device = device
        self.record: EventRecord | CapturedRecord | None = None


class Scheduler:
    """Scheduler of all streams: it runs all work under one lock, one operation at a time.

    `patience` limits waits for held streams, in seconds. It catches a deadlock that the scheduler cannot see: a
    thread that waits while the releasing thread joins it.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.lock = threading.RLock()
        self.patience = patience
        self._released = threading.Condition(self.lock)
        self._waiting: dict[threading.Thread, threading.Thread] = {}
        self._current: Stream | None = None
        """Stream whose work is running, or None."""

    def run(self, stream: Stream, until: EventRecord | None = None) -> None:
        """Run all work of a stream, or all up to a recording, with its dependencies on other streams."""
        with self.lock:
            while (stream.queue or stream.waits_outside) and not (until is not None and until.done):
                next_one = _in_the_way(stream)
                if next_one.releaser is not None:
                    self._await_release(next_one)
                else:
                    self._current = next_one
                    next_one.queue.popleft()()

    def run_all(self, streams: Sequence[Stream]) -> None:
        """Run all work of several streams, always the most urgent ready operation."""
        with self.lock:
            while pending := [stream for stream in streams if not stream.is_idle]:
                next_one = most_urgent(pending)
                if next_one is None:
                    next_one = _in_the_way(pending[0])
                if next_one.releaser is not None:
                    self._await_release(next_one)
                else:
                    self._current = next_one
                    next_one.queue.popleft()()

    def poll(self, stream: Stream) -> bool:
        """Let a stream, or what it waits for, run one step unless it is held. Return True if it ran one."""
        with self.lock:
            next_one = _in_the_way(stream)
            if not next_one.queue or next_one.releaser is not None or not next_one.is_due():
                return False
            self._current = next_one
            next_one.queue.popleft()()
            return True

    def step(self, stream: Stream) -> bool:
        """Run the oldest operation, even of a held stream. Return True if one was ready."""
        with self.lock:
            if not stream.is_ready:
                return False
            self._current = stream
            stream.queue.popleft()()
            return True

    def hold(self, stream: Stream, releaser: threading.Thread) -> None:
        """Block a stream until `releaser` releases it."""
        with self.lock:
            if stream.releaser is not None:
                raise RuntimeError(f"hold(): {stream} is held already, by {stream.releaser.name}")
            stream.releaser = releaser

    def release(self, stream: Stream) -> None:
        """End a hold. The stream's work runs when something waits for it."""
        with self.lock:
            if stream.releaser is None:
                raise RuntimeError(f"release(): {stream} is not held")
            stream.releaser = None
            self._released.notify_all()

    def wait_outside(self, is_over: Callable[[], bool]) -> None:
        """Wait, during work, for something outside of the devices, while other streams may run.

        Args:
            is_over: Returns True once the wait has ended; the thread that changes its result calls `notify`.
        """
        with self.lock:
            stream = self._current
            assert stream is not None, "wait_outside() is called by work"
            stream.releaser, stream.waits_outside = threading.current_thread(), True
            try:
                while not is_over():
                    self._released.wait(1.0)
            finally:
                stream.releaser, stream.waits_outside = None, False
                self._current = stream
                self._released.notify_all()

    def notify(self) -> None:
        """Wake the waiting threads, so that they check their conditions again."""
        with self.lock:
            self._released.notify_all()

    def _await_release(self, stream: Stream) -> None:
        """Wait until a stream is no longer held. Raise RuntimeError once no thread could release it."""
        me = threading.current_thread()
        deadline = time.monotonic() + self.patience
        while (releaser := stream.releaser) is not None:
            self._check_releaser(stream, releaser, me)
            if time.monotonic() > deadline and not stream.waits_outside:
                raise _deadlock(stream, f"{releaser.name} has not released it for {self.patience} seconds")
            self._waiting[me] = releaser
            try:
                # Wait in slices, since the end of a thread sends no notification.
                self._released.wait(0.02)
            finally:
                del self._waiting[me]

    def _check_releaser(self, stream: Stream, releaser: threading.Thread, me: threading.Thread) -> None:
        if releaser is me:
            raise _deadlock(stream, "this very thread is to release it")
        if not releaser.is_alive():
            raise _deadlock(stream, f"{releaser.name}, which was to release it, has ended")
        waited_for = self._waiting.get(releaser)
        while waited_for is not None:
            if waited_for is me:
                raise _deadlock(stream, f"{releaser.name}, which is to release it, waits for this thread")
            waited_for = self._waiting.get(waited_for)


def _deadlock(stream: Stream, why: str) -> RuntimeError:
    return RuntimeError(
        f"deadlock: {stream} is held with {len(stream.queue)} operations pending, and {why}; release() it before "
        "something waits for it"
    )


def _in_the_way(stream: Stream) -> Stream:
    """Return the stream that must run next for `stream` to proceed: itself, or one that it waits for.

    A wait is for an earlier recording, so the chain ends.
    """
    while stream.queue and not stream.is_ready and stream.releaser is None:
        head = stream.queue[0]
        assert isinstance(head, Wait)
        stream = head.record.stream
    return stream


def most_urgent(streams: Sequence[Stream]) -> Stream | None:
    """Return the ready, unheld stream with the lowest priority number; the first among equals."""
    ready = [stream for stream in streams if stream.is_ready and stream.releaser is None]
    return min(ready, key=lambda stream: stream.priority) if ready else None


class Stream:
    """In-order work of one device. `enqueue` is lock-free; work runs under the scheduler's lock.

    While `capture` is set, it records new work; the queue holds earlier work.
    """

    __slots__ = (
        "capture",
        "device",
        "handle",
        "priority",
        "queue",
        "releaser",
        "scheduler",
        "waits_outside",
    )

    def __init__(self, device: int, scheduler: Scheduler, handle: int = 0, priority: int = 0) -> None:
        self.device = device
        self.scheduler = scheduler
        self.handle = handle
        self.priority = priority
        self.queue: deque[Work] = deque()
        self.capture: Capture | None = None
        self.releaser: threading.Thread | None = None
        """Thread that is to release the stream while it is held."""
        self.waits_outside = False
        """True while the stream's own work holds it and waits for something outside, without a time limit."""

    @property
    def is_legacy(self) -> bool:
        """True for the default stream of its device."""
        return self.handle == 0

    def enqueue(self, work: Work, kind: str = "work", name: str = "") -> None:
        """Append work, to the capture if there is one. Raise RuntimeError if the capture was invalidated."""
        capture = self.capture
        if capture is None:
            self.queue.append(work)
        else:
            capture.add(self, work, kind, name)

    def enqueue_now(self, work: Work) -> None:
        """Append work, captured or not."""
        self.queue.append(work)

    def record(self) -> EventRecord | CapturedRecord:
        """Record the end of the work enqueued so far."""
        if self.capture is not None:
            return self.capture.record(self)
        record = EventRecord(self)
        self.queue.append(record.happen)
        return record

    def wait_for(self, record: EventRecord | CapturedRecord) -> None:
        """Make later work wait for a recording."""
        if self.capture is not None:
            self.capture.wait(self, record)
        elif isinstance(record, CapturedRecord):
            begin_waiting(self, record)
        else:
            self.queue.append(Wait(record))

    @property
    def is_full(self) -> bool:
        """True if a launch must wait until pending operations have run."""
        return len(self.queue) >= QUEUE_LIMIT and self.capture is None

    @property
    def is_idle(self) -> bool:
        """True if no work is pending, and none waits for something outside."""
        return not self.queue and not self.waits_outside

    @property
    def is_ready(self) -> bool:
        """True if the oldest operation waits for no other stream."""
        if not self.queue:
            return False
        head = self.queue[0]
        return not isinstance(head, Wait) or head.record.done

    def is_due(self) -> bool:
        """Return True if the oldest operation waits for nothing outside of the devices."""
        head = self.queue[0]
        return not isinstance(head, Reception) or head.is_due()

    def run(self, until: EventRecord | None = None) -> None:
        """Run all work, or all up to a recording. An operation leaves the queue even if it fails."""
        self.scheduler.run(self, until)

    def __repr__(self) -> str:
        return f"stream {self.handle:#x} of device {self.device}"
