"""Simulated streams and events: work of one device in order, which runs when something waits for it, never before.

Streams run as late as they may and independently of each other, so that a missing wait shows as a wrong
result or an illegal access instead of passing by luck. A test can *hold* a stream: nothing of it runs until it is
released, and who waits for it waits for the thread that is to release it. Work that waits for another process
(`Reception`) holds the stream in which it runs, and leaves the others to whoever needs them.
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
"""A launch waits while this many operations are pending, as on a GPU."""
PATIENCE = 30.0
"""Seconds that a wait for a held stream lasts before it is taken for a deadlock."""


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


class Wait:
    """Work that is done once a recording has happened: a stream does not pass it before."""

    __slots__ = ("record",)

    def __init__(self, record: EventRecord) -> None:
        self.record = record

    def __call__(self) -> None:
        """Nothing: it was waited for before the stream came here."""


class Reception(ABC):
    """Work that waits for something from outside of the devices, such as a message of another process."""

    __slots__ = ()

    @abstractmethod
    def is_due(self) -> bool:
        """Whether what it waits for is there; asks for it where it is not."""

    @abstractmethod
    def __call__(self) -> None:
        """Do the work; `Scheduler.wait_outside` waits in it."""


class Event:
    """An event, the device whose streams record it, and its latest recording."""

    __slots__ = ("device", "record", "timing")

    def __init__(self, timing: bool, device: int) -> None:
        self.timing = timing
        self.device = device
        self.record: EventRecord | CapturedRecord | None = None


class Scheduler:
    """Decides what runs: all work of all streams runs under its one lock, a piece at a time.

    `patience` bounds waits for held streams, in seconds: a thread that is joined by the one that should release is a
    deadlock which nothing here can see.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.lock = threading.RLock()
        self.patience = patience
        self._released = threading.Condition(self.lock)
        self._waiting: dict[threading.Thread, threading.Thread] = {}
        self._current: Stream | None = None
        """The stream whose work runs, while there is one."""

    def run(self, stream: Stream, until: EventRecord | None = None) -> None:
        """Run all work of a stream, or all up to a recording, and what that waits for on other streams."""
        with self.lock:
            while (stream.queue or stream.waits_outside) and not (until is not None and until.done):
                next_one = _in_the_way(stream)
                if next_one.releaser is not None:
                    self._await_release(next_one)
                else:
                    self._current = next_one
                    next_one.queue.popleft()()

    def run_all(self, streams: Sequence[Stream]) -> None:
        """Run all work of several streams, of what is ready always the most urgent."""
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
        """Let a stream, or what it waits for, make one step unless it is held; whether it made one."""
        with self.lock:
            next_one = _in_the_way(stream)
            if not next_one.queue or next_one.releaser is not None or not next_one.is_due():
                return False
            self._current = next_one
            next_one.queue.popleft()()
            return True

    def step(self, stream: Stream) -> bool:
        """Run the oldest piece of work, even of a held stream; whether there was one that waits for no other."""
        with self.lock:
            if not stream.is_ready:
                return False
            self._current = stream
            stream.queue.popleft()()
            return True

    def hold(self, stream: Stream, releaser: threading.Thread) -> None:
        """Let nothing of a stream run until it is released, which `releaser` is to do."""
        with self.lock:
            if stream.releaser is not None:
                raise RuntimeError(f"hold(): {stream} is held already, by {stream.releaser.name}")
            stream.releaser = releaser

    def release(self, stream: Stream) -> None:
        """End a hold. Its work runs when something waits for it."""
        with self.lock:
            if stream.releaser is None:
                raise RuntimeError(f"release(): {stream} is not held")
            stream.releaser = None
            self._released.notify_all()

    def wait_outside(self, is_over: Callable[[], bool]) -> None:
        """Wait, in the middle of work, for something from outside of the devices, while other streams may run.

        Args:
            is_over: whether it has come, or will not; whoever changes that calls `notify`.
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
        """Have those who wait look again at what they wait for."""
        with self.lock:
            self._released.notify_all()

    def _await_release(self, stream: Stream) -> None:
        """Wait until a stream is no longer held. Raises RuntimeError once nobody is left who could release it."""
        me = threading.current_thread()
        deadline = time.monotonic() + self.patience
        while (releaser := stream.releaser) is not None:
            self._check_releaser(stream, releaser, me)
            if time.monotonic() > deadline and not stream.waits_outside:
                raise _deadlock(stream, f"{releaser.name} has not released it for {self.patience} seconds")
            self._waiting[me] = releaser
            try:
                # In slices, since the end of a thread notifies nobody.
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
    """The stream whose oldest work comes next for `stream` to go on: itself, or one that it waits for.

    A wait is for an earlier recording, so the chain has an end.
    """
    while stream.queue and not stream.is_ready and stream.releaser is None:
        head = stream.queue[0]
        assert isinstance(head, Wait)
        stream = head.record.stream
    return stream


def most_urgent(streams: Sequence[Stream]) -> Stream | None:
    """Of the streams that are ready and not held the one of the lowest number, the first of equals."""
    ready = [stream for stream in streams if stream.is_ready and stream.releaser is None]
    return min(ready, key=lambda stream: stream.priority) if ready else None


class Stream:
    """Work of one device in order. `enqueue` takes no lock; work runs under the scheduler's.

    While `capture` is set, work is recorded there instead; the queue has what came before.
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
        """The thread that is to release the stream while it is held."""
        self.waits_outside = False
        """Whether it is held by its own work, which waits for something from outside, for as long as that takes."""

    @property
    def is_legacy(self) -> bool:
        """Whether it is its device's default stream."""
        return self.handle == 0

    def enqueue(self, work: Work, kind: str = "work", name: str = "") -> None:
        """Add work to the end, or to the capture. Raises RuntimeError for a capture that was invalidated."""
        capture = self.capture
        if capture is None:
            self.queue.append(work)
        else:
            capture.add(self, work, kind, name)

    def enqueue_now(self, work: Work) -> None:
        """Add work to the end, captured or not."""
        self.queue.append(work)

    def record(self) -> EventRecord | CapturedRecord:
        """Mark the end of what has been enqueued so far."""
        if self.capture is not None:
            return self.capture.record(self)
        record = EventRecord(self)
        self.queue.append(record.happen)
        return record

    def wait_for(self, record: EventRecord | CapturedRecord) -> None:
        """Let what is enqueued from here on come after a recording."""
        if self.capture is not None:
            self.capture.wait(self, record)
        elif isinstance(record, CapturedRecord):
            begin_waiting(self, record)
        else:
            self.queue.append(Wait(record))

    @property
    def is_full(self) -> bool:
        """Whether no more launches may be added before some have run."""
        return len(self.queue) >= QUEUE_LIMIT and self.capture is None

    @property
    def is_idle(self) -> bool:
        """Whether no work is pending, and none waits for something from outside."""
        return not self.queue and not self.waits_outside

    @property
    def is_ready(self) -> bool:
        """Whether the oldest piece of work waits for no other stream."""
        if not self.queue:
            return False
        head = self.queue[0]
        return not isinstance(head, Wait) or head.record.done

    def is_due(self) -> bool:
        """Whether the oldest piece of work waits for nothing from outside of the devices."""
        head = self.queue[0]
        return not isinstance(head, Reception) or head.is_due()

    def run(self, until: EventRecord | None = None) -> None:
        """Run all work, or all up to a recording. A piece leaves the queue even if it fails."""
        self.scheduler.run(self, until)

    def __repr__(self) -> str:
        return f"stream {self.handle:#x} of device {self.device}"
