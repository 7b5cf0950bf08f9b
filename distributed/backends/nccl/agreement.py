"""The comparison of calls of a group over NCCL, beside the calls: neither the host nor the device waits for it.

A call leaves its description in a log. The watchdog's thread hands the log's new entries, by a queue of the group's
store, to the next rank, and compares those of the rank before with its own. Messages and the parts of `all_to_all` are
compared by the receiver. The first difference fails the group in all its ranks. It costs a call about 2 us, and each
rank a few questions of the store every 100 ms while there are calls, however many they are.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections import deque
from typing import TYPE_CHECKING

from ...errors import DistError, QueueEmptyError
from ...failures import ASK_AFTER
from ...stores.prefix_store import PrefixStore
from ..agreement import Call, described, mismatch
from .watchdog import WATCHDOG

if TYPE_CHECKING:
    from .health import GroupHealth

__all__ = ["CallLog"]

MISMATCH = "mismatch"


class CallLog:
    """The calls of a rank that are not compared yet.

    Args:
        health: the group's, which fails where calls differ.
    """

    def __init__(self, health: GroupHealth) -> None:
        self._health, self._spec = health, health.spec
        self._store = PrefixStore("agreement", health.spec.store.clone())
        self._sent: dict[str, deque[str]] = {}
        self._expected: dict[str, deque[str]] = {}
        self._heard: dict[str, deque[str]] = {}
        self._rings: dict[str, tuple[deque[str], deque[str]]] = {}
        self._is_followed = self._is_closed = False
        self._last_call = self._question = -math.inf

    def collective(self, call: Call, series: str) -> None:
        """Record a call that all ranks make, in the series of one NCCL communicator."""
        text = described(call)
        sent, expected = self._rings.get(series) or self._ring(series)
        sent.append(text)
        expected.append(text)
        self._follow()

    def sends(self, text: str, peer: int, series: str) -> None:
        """Record a message sent to a rank."""
        key = f"messages/{series}/{self._spec.rank}/{peer}"
        self._sent.setdefault(key, deque()).append(text)
        self._follow()

    def receives(self, text: str, peer: int, series: str) -> None:
        """Record a message expected from a rank."""
        key = f"messages/{series}/{peer}/{self._spec.rank}"
        self._expected.setdefault(key, deque()).append(text)
        self._follow()

    def _ring(self, series: str) -> tuple[deque[str], deque[str]]:
        """Return the queue of calls to send to the next rank, and the queue to compare with the previous rank."""
        rank, size = self._spec.rank, len(self._spec.ranks)
        sent = self._sent.setdefault(f"calls/{series}/{rank}/{(rank + 1) % size}", deque())
        expected = self._expected.setdefault(f"calls/{series}/{(rank - 1) % size}/{rank}", deque())
        return self._rings.setdefault(series, (sent, expected))

    def look(self) -> bool:
        """Publish and compare new calls, and return True to continue."""
        if self._is_closed or self._health.error is not None:
            return False
        now = time.monotonic()
        has_new = self._has_new()
        if has_new or now > self._question:
            self._question = now + ASK_AFTER
            try:
                self._compare()
            except (DistError, OSError):
                return False  # the store is gone, which is the watchdog's to tell
        if has_new or now < self._last_call + self._spec.timeout.total_seconds():
            return True
        self._is_followed = False
        return self._has_new() and not self._is_followed  # a call came in between

    def close(self) -> None:
        """Publish calls that other ranks may still compare, and close the log."""
        with contextlib.suppress(DistError, OSError):  # the other ranks are gone
            self._tell()
        self._is_closed = True

    def _follow(self) -> None:
        self._last_call = time.monotonic()
        if not self._is_followed:
            self._is_followed = True
            WATCHDOG.follow(self)

    def _has_new(self) -> bool:
        return any(list(self._sent.values())) or any(list(self._expected.values()))

    def _tell(self) -> None:
        for key, calls in list(self._sent.items()):
            if calls:
                self._store.queue_push(key, json.dumps([calls.popleft() for _ in range(len(calls))]))

    def _compare(self) -> None:
        self._tell()
        for key, expected in list(self._expected.items()):
            heard = self._heard.setdefault(key, deque())
            while expected:
                if not heard:
                    try:
                        heard.extend(json.loads(self._store.queue_pop(key, block=False)))
                    except QueueEmptyError:
                        break
                theirs, own = heard.popleft(), expected.popleft()
                if theirs != own:
                    self._tell_difference(key, theirs, own)
                    break
        if self._store.check([MISMATCH]):
            self._health.fail(self._store.get(MISMATCH).decode())

    def _tell_difference(self, key: str, theirs: str, own: str) -> None:
        kind, _, source, rank = key.split("/")
        name = own.partition("(")[0]
        if kind == "messages":
            name, theirs, own = "recv", f"send({theirs})", f"recv({own})"
        error = mismatch(name, self._spec, {int(source): theirs, int(rank): own})
        self._store.compare_set(MISMATCH, "", str(error))  # all ranks tell of the first one
