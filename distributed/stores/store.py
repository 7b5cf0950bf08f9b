"""Interface of all stores."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from datetime import timedelta

__all__ = ["DEFAULT_TIMEOUT", "Presence", "Store", "as_bytes", "seconds_of"]

DEFAULT_TIMEOUT = timedelta(seconds=300)
"""Default time limit for a value."""


def as_bytes(value: str | bytes) -> bytes:
    """Encode a value as bytes. Raise TypeError for anything but text and bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"store: expected a value of str or bytes, but got {type(value).__name__}")


def seconds_of(timeout: timedelta | float | None, default: timedelta) -> float:
    """Return a time limit in seconds."""
    limit = default if timeout is None else timeout
    return limit.total_seconds() if isinstance(limit, timedelta) else float(limit)


class Presence:
    """That a process is there. This one of a store that cannot see processes end does nothing."""

    def leave(self) -> None:
        """End the watch, in good order."""


class Store(abc.ABC):
    """Values by key, shared by processes (`torch.distributed.Store`).

    Args:
        timeout: Time limit of `get`, `wait` and `queue_pop`.
    """

    def __init__(self, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        self._timeout = timeout

    @property
    def timeout(self) -> timedelta:
        """How long this store waits for a value."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long this store waits for a value."""
        self._timeout = timeout

    @abc.abstractmethod
    def set(self, key: str, value: str | bytes) -> None:
        """Store a value under a key, replacing an existing value."""

    @abc.abstractmethod
    def get(self, key: str) -> bytes:
        """Wait for the value of a key and return it.

        Raises:
            DistStoreError: there is none within the time limit.
        """

    @abc.abstractmethod
    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key, which is 0 where there is none, and return the sum."""

    @abc.abstractmethod
    def append(self, key: str, value: str | bytes) -> None:
        """Add bytes to the end of a value; a key that is not there begins with them."""

    @abc.abstractmethod
    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Set a value if the present one is the expected one, or if there is none and an empty one is expected.

        Returns:
            The value after the call; the expected one where there is none.
        """

    @abc.abstractmethod
    def delete_key(self, key: str) -> bool:
        """Take a key away, and return whether it was there."""

    @abc.abstractmethod
    def num_keys(self) -> int:
        """Return the number of keys."""

    @abc.abstractmethod
    def check(self, keys: Sequence[str]) -> bool:
        """Return True if all of these keys exist now."""

    @abc.abstractmethod
    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all of these keys are there.

        Raises:
            DistStoreError: they are not within the time limit, this call's or the store's.
        """

    @abc.abstractmethod
    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of a queue."""

    @abc.abstractmethod
    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue.

        Raises:
            QueueEmptyError: there is none, and `block` is False.
            DistStoreError: there is none within the time limit.
        """

    @abc.abstractmethod
    def queue_len(self, key: str) -> int:
        """Return the number of values in a queue."""

    @abc.abstractmethod
    def clone(self) -> Store:
        """Another object over the same values, for another thread."""

    def presence(self, key: str, value: bytes) -> Presence:
        """Have a value kept once this process ends before it has left, if the store can see that."""
        return Presence()

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Wait for the values of several keys and return them."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Keep several values."""
        if len(keys) != len(values):
            raise ValueError(
                f"multi_set: expected a value for each of {len(keys)} keys, but got {len(values)}"
            )
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Return True: the store supports `append`, `multi_get` and `multi_set`."""
        return True
