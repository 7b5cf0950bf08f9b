"""A store in this process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

from ..errors import DistStoreError, QueueEmptyError
from .store import DEFAULT_TIMEOUT, Store, as_bytes, seconds_of

__all__ = ["HashStore"]

_Found = TypeVar("_Found")


class HashStore(Store):
    """Values in this process, for its threads (`torch.distributed.HashStore`).

    Example:
        >>> import triten as tt
        >>> store = tt.distributed.HashStore()
        >>> store.set("key", "value"); store.get("key")
        b'value'
        >>> store.add("count", 2), store.add("count", 3)
        (2, 5)
    """

    def __init__(self, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        super().__init__(timeout)
        self._values: dict[str, bytes] = {}
        self._queues: dict[str, deque[bytes]] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: str | bytes) -> None:
        self._keep(key, as_bytes(value))

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            previous = self._values.get(key, b"0")
            try:
                total = int(previous) + amount
            except ValueError:
                raise DistStoreError(
                    f"add: expected a number as the value of {key!r}, but got {previous!r}"
                ) from None
            self._keep(key, str(total).encode())
            return total

    def append(self, key: str, value: str | bytes) -> None:
        with self._changed:
            self._keep(key, self._values.get(key, b"") + as_bytes(value))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        expected, desired = as_bytes(expected_value), as_bytes(desired_value)
        with self._changed:
            stored = self._values.get(key)
            if stored is None and expected:
                return expected
            if stored is None or stored == expected:
                self._keep(key, desired)
            return self._values[key]

    def delete_key(self, key: str) -> bool:
        with self._changed:
            return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        return len(self._values)

    def check(self, keys: Sequence[str]) -> bool:
        with self._changed:
            return all(key in self._values or self._queues.get(key) for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._when(
            lambda: True if self.check(keys) else None,
            seconds_of(timeout, self._timeout),
            lambda: f"for {[key for key in keys if not self.check([key])]}",
        )

    def queue_push(self, key: str, value: str | bytes) -> None:
        with self._changed:
            self._queues.setdefault(key, deque()).append(as_bytes(value))
            self._changed.notify_all()

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        def first() -> bytes | None:
            queue = self._queues.get(key)
            return queue.popleft() if queue else None

        if not block:
            with self._changed:
                value = first()
            if value is None:
                raise QueueEmptyError(f"queue_pop: the queue {key!r} is empty")
            return value
        return self._when(first, seconds_of(None, self._timeout), lambda: f"for a value in the queue {key!r}")

    def queue_front(self, key: str) -> bytes | None:
        """Return the first value of a queue without removing it; None if the queue is empty."""
        queue = self._queues.get(key)
        return queue[0] if queue else None

    def queue_len(self, key: str) -> int:
        return len(self._queues.get(key, ()))

    def clone(self) -> HashStore:
        return self.view(self._timeout)

    def view(self, timeout: timedelta) -> HashStore:
        """Return another store over the same values, with its own timeout."""
        made = HashStore(timeout)
        made._values, made._queues, made._changed = self._values, self._queues, self._changed
        return made

    def clear(self, keep: str) -> None:
        """Delete all values and queues except those whose keys begin with `keep`."""
        with self._changed:
            for key in [key for key in self._values if not key.startswith(keep)]:
                del self._values[key]
            for key in [key for key in self._queues if not key.startswith(keep)]:
                del self._queues[key]

    def _keep(self, key: str, value: bytes) -> None:
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def _when(self, find: Callable[[], _Found | None], seconds: float, describe: Callable[[], str]) -> _Found:
        value: _Found | None = None

        def is_there() -> bool:
            nonlocal value
            value = find()
            return value is not None

        with self._changed:
            if not self._changed.wait_for(is_there, seconds):
                raise DistStoreError(f"wait timeout after {seconds:g} s, waiting {describe()}")
        assert value is not None
        return value
