"""A thread that looks for communications which do not end in time, and for NCCL's late errors (PyTorch's watchdog)."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from ....runtime.cuda.driver import driver, is_simulated
from .device_communicator import Issued
from .health import GroupHealth

__all__ = ["WATCHDOG", "Watchdog"]

TICK = 0.1
"""Seconds between two looks."""


class Watched:
    """A communication with a time limit.

    The time begins when it is issued. A communication that has not begun by its end, since its stream has other things
    to do, has as long again.
    """

    def __init__(
        self, name: str, waits_for: str, issued: Issued, limit: timedelta, health: GroupHealth
    ) -> None:
        self.name, self.waits_for, self.issued, self.health = name, waits_for, issued, health
        self.limit = limit.total_seconds()
        self.deadline = time.monotonic() + self.limit

    def is_over(self, now: float) -> bool:
        """Whether there is nothing to look for any more; lets the group fail where the time is over."""
        if self.health.error is not None:
            return True
        is_late = now > self.deadline
        # A query has a simulated stream go on, which is to do so only when something waits for it.
        if not is_late and is_simulated():
            return False
        if self.issued.end.query():
            return True
        if is_late and not self.issued.start.query():
            self.deadline = now + self.limit
        elif is_late:
            self.health.fail(f"{self.name}: {self.health.group} waited {self.limit:g} s for {self.waits_for}")
            return True
        return False


class Watchdog:
    """The thread, which begins with the first communication."""

    def __init__(self) -> None:
        self._watched: list[Watched] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def watch(self, name: str, waits_for: str, issued: Issued, limit: timedelta, health: GroupHealth) -> None:
        """Look after a communication.

        Args:
            name: the function's, for errors.
            waits_for: what it waits for, for errors.
            issued: the communication.
            limit: how long it may take.
            health: its group's.
        """
        with self._changed:
            self._watched.append(Watched(name, waits_for, issued, limit, health))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="NCCL watchdog", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        # Its queries of events are no part of anybody's capture.
        driver().exchange_capture_mode("relaxed")
        while True:
            with self._changed:
                while not self._watched:
                    self._changed.wait()
                watched = self._watched
                self._watched = []
            left = [each for each in watched if not self._is_over(each)]
            for health in {each.health for each in left}:
                health.look()
            with self._changed:
                self._watched = left + self._watched
            time.sleep(TICK)

    @staticmethod
    def _is_over(each: Watched) -> bool:
        try:
            return each.is_over(time.monotonic())
        except RuntimeError as error:  # of the device, whose kernels are lost
            each.health.fail(f"{each.name}: {each.health.group}: {error}")
            return True


WATCHDOG = Watchdog()
"""The process's."""
