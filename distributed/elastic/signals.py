"""Signals that end an agent, taken where it can leave things in order."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

__all__ = ["DEFAULT_SIGNALS", "DeathSignals", "SignalException"]

DEFAULT_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
"""Signals that an agent forwards to its workers by default."""


class SignalException(Exception):
    """A signal came that ends the agent (`torch.distributed.elastic.multiprocessing.SignalException`)."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


class DeathSignals:
    """Signals that are noted, inside of a ``with`` block, and raised by `wait`.

    So no signal breaks off the start of a worker or an exchange with a store. Outside of a program's main thread no
    signal is taken, and under `nohup` no SIGHUP.

    Args:
        names: the signals, with commas between them.

    Raises:
        ValueError: there is no such signal here, or it cannot be taken.
    """

    def __init__(self, names: str = DEFAULT_SIGNALS) -> None:
        self._numbers = [_number(name) for name in names.split(",") if name.strip()]
        self._before: dict[signal.Signals, Any] = {}
        self._seen: list[signal.Signals] = []
        self._reads, self._writes = os.pipe()
        for end in (self._reads, self._writes):
            os.set_blocking(end, False)

    def __enter__(self) -> DeathSignals:
        if threading.current_thread() is threading.main_thread():
            taken = [number for number in self._numbers if not _is_of_nohup(number)]
            self._before = {number: signal.signal(number, self._note) for number in taken}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
        os.close(self._reads)
        os.close(self._writes)

    def wait(self, seconds: float, handles: Sequence[int] = ()) -> None:
        """Wait that long, or until one of some files can be read.

        Raises:
            SignalException: a signal has come, now or before.
        """
        self._raise()
        waiting = select.poll()
        for handle in (*handles, self._reads):
            waiting.register(handle, select.POLLIN)
        waiting.poll(max(0.0, seconds) * 1000)
        self._raise()

    def has_come(self) -> bool:
        """Return True if a signal arrived since the last one that was raised."""
        return bool(self._seen)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._seen.append(signal.Signals(number))
        with contextlib.suppress(BlockingIOError):  # it is readable already
            os.write(self._writes, b"!")

    def _raise(self) -> None:
        if self._seen:
            number = self._seen.pop(0)
            with contextlib.suppress(BlockingIOError):
                os.read(self._reads, 1)
            raise SignalException(f"process {os.getpid()} got {number.name}", number)


def _is_of_nohup(number: signal.Signals) -> bool:
    """Return True if `nohup` made this signal ignored."""
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


def _number(name: str) -> signal.Signals:
    signum = signal.Signals.__members__.get(name.strip())
    if signum is None or signum in (signal.SIGKILL, signal.SIGSTOP):
        raise ValueError(
            f"signals-to-handle: expected names of signals that can be handled, but got {name!r}"
        )
    return signum
