"""A thread that looks for communications which do not end in time, and for NCCL's late errors (PyTorch's watchdog)."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from ....runtime.cuda.driver import driver, is_simulated
from ...failures import ASK_AFTER
from .device_communicator import Issued
from .health import GroupHealth

if TYPE_CHECKING:
    from .agreement import CallLog

__all__ = ["WATCHDOG", "Watchdog", "Watched"]

TICK = 0.1
"""Seconds between two looks."""


class Watched(NamedTuple):
    """A communication that is looked after.

    Attributes:
        name: Name of the function, for errors.
        waits_for: Description of what it waits for, for errors.
        sequence: Number of earlier communications in the group.
        issued: The issued NCCL calls.
        limit: Time limit, in seconds.
        health: Health of the group.
    """

    name: str
    waits_for: str
    sequence: int
    issued: Issued
    limit: float
    health: GroupHealth


class _Watch:
    """One communication's time.

    It begins when it is issued. A communication that has not begun by the end, since its stream has other things to do,
    has as long again.
    """

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.deadline = time.monotonic() + watched.limit
        self.question = time.monotonic() + ASK_AFTER

    def is_over(self, now: float) -> bool:
        """Return True if there is nothing left to watch. Fail the group after a timeout."""
        _, _, _, issued, limit, health = self.watched
        if health.error is not None:
            return True
        is_late, gone = now > self.deadline, health.gone(now)
        # A query has a simulated stream go on, which is to do so only when something waits for it.
        if not is_late and gone is None and is_simulated():
            return False
        if issued.end.query():
            return True
        if not issued.start.query():
            if is_late:
                self.deadline = now + limit
            return False
        if is_late or now > self.question:
            self._say()
        if is_late or gone is not None:
            self._lose(gone)
            return True
        return False

    def _say(self) -> None:
        """Publish what this rank waits in, for the errors of the other ranks."""
        if self.question != math.inf and len(self.watched.health.spec.ranks) > 1:
            self.watched.health.spec.failures.waits(self._store_key, self.watched.name)
        self.question = math.inf

    def _lose(self, gone: str | None) -> None:
        name, waits_for, _, _, limit, health = self.watched
        spec = health.spec
        why = gone
        if why is None and len(spec.ranks) > 1:
            why = spec.failures.missing(self._store_key, name, spec.ranks)
        waited = f"waited {limit:g} s for" if gone is None else "waited for"
        health.fail(f"{name}: {health.group} {waited} {waits_for}; {why or 'nobody else is in it'}")

    @property
    def _store_key(self) -> str:
        return f"nccl/{self.watched.health.spec.name}/{self.watched.sequence}"


class Watchdog:
    """The thread, which begins with the first communication."""

    def __init__(self) -> None:
        self._watched: list[_Watch] = []
        self._followed: list[CallLog] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def watch(self, watched: Watched) -> None:
        """Look after a communication."""
        with self._changed:
            self._watched.append(_Watch(watched))
            self._wake()

    def follow(self, log: CallLog) -> None:
        """Compare a group's calls until there have been none for its time limit."""
        with self._changed:
            self._followed.append(log)
            self._wake()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="NCCL watchdog", daemon=True)
            self._thread.start()
        self._changed.notify()

    def _run(self) -> None:
        # Its queries of events are no part of anybody's capture.
        driver().exchange_capture_mode("relaxed")
        while True:
            with self._changed:
                while not (self._watched or self._followed):
                    self._changed.wait()
                watched, followed = self._watched, self._followed
                self._watched, self._followed = [], []
            left = [each for each in watched if not self._is_over(each)]
            for health, name in {each.watched.health: each.watched.name for each in reversed(left)}.items():
                health.look(name)
            still = [log for log in followed if log.look()]
            with self._changed:
                self._watched = left + self._watched
                self._followed = still + self._followed
            time.sleep(TICK)

    @staticmethod
    def _is_over(each: _Watch) -> bool:
        try:
            return each.is_over(time.monotonic())
        except RuntimeError as error:  # of the device, whose kernels are lost
            watched = each.watched
            watched.health.fail(f"{watched.name}: {watched.health.group}: {error}")
            return True


WATCHDOG = Watchdog()
"""The process's."""
