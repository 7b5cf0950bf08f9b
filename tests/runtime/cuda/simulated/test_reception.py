"""Work that waits for an external event holds its stream, and other streams go on."""

from __future__ import annotations

import threading

import pytest

from triten.runtime.cuda.simulated.stream import Reception, Scheduler, Stream
from triten.tests.shared.threads import PATIENCE


class Message(Reception):
    """Work that waits for a message."""

    def __init__(self, scheduler: Scheduler, log: list[str]) -> None:
        self.scheduler, self.log = scheduler, log
        self.is_there = False
        self.waits = threading.Event()

    def is_due(self) -> bool:
        return self.is_there

    def __call__(self) -> None:
        self.waits.set()
        self.scheduler.wait_outside(self.is_due)
        self.log.append("message")

    def arrive(self) -> None:
        self.is_there = True
        self.scheduler.notify()


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler(patience=0.0)


def in_thread(function: object, *args: object) -> threading.Thread:
    thread = threading.Thread(target=function, args=args, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_other_streams_run_while_one_waits(scheduler: Scheduler, log: list[str]) -> None:
    first, second = Stream(0, scheduler, 1), Stream(0, scheduler, 2)
    message = Message(scheduler, log)
    first.enqueue(message)
    first.enqueue(lambda: log.append("after the message"))
    second.enqueue(lambda: log.append("another stream"))
    waiting = in_thread(first.run)
    assert message.waits.wait(PATIENCE)
    second.run()
    assert log == ["another stream"]
    message.arrive()
    waiting.join(PATIENCE)
    assert log == ["another stream", "message", "after the message"]
    assert first.is_idle and first.releaser is None


def test_another_thread_waits_for_it_however_long_it_takes(scheduler: Scheduler, log: list[str]) -> None:
    stream = Stream(0, scheduler, 1)
    message = Message(scheduler, log)
    stream.enqueue(message)
    first = in_thread(stream.run)
    assert message.waits.wait(PATIENCE)
    assert not stream.is_idle, "the work has left the queue, and has not ended"
    second = in_thread(lambda: (stream.run(), log.append("the other thread")))
    message.arrive()
    for thread in (first, second):
        thread.join(PATIENCE)
    assert log == ["message", "the other thread"]


def test_a_question_does_not_wait(scheduler: Scheduler, log: list[str]) -> None:
    stream = Stream(0, scheduler, 1)
    message = Message(scheduler, log)
    stream.enqueue(message)
    scheduler.poll(stream)
    assert log == [] and not stream.is_idle
    message.arrive()
    scheduler.poll(stream)
    assert log == ["message"] and stream.is_idle


def test_work_that_waits_for_its_own_stream_is_a_deadlock(scheduler: Scheduler, log: list[str]) -> None:
    stream = Stream(0, scheduler, 1)
    told: list[str] = []

    def is_over() -> bool:
        with pytest.raises(RuntimeError, match=r"deadlock: .* this very thread is to release it"):
            stream.run()
        told.append("refused")
        return True

    stream.enqueue(lambda: scheduler.wait_outside(is_over))
    stream.enqueue(lambda: log.append("after"))
    stream.run()
    assert told == ["refused"] and log == ["after"]
