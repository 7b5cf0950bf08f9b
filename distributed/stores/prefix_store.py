"""Store that prefixes the keys of another store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from .store import Presence, Store

__all__ = ["PrefixStore"]


class PrefixStore(Store):
    """Another store, with a prefix before each key (`torch.distributed.PrefixStore`).

    Args:
        prefix: the keys' beginning; a slash follows it.
        store: the store that keeps the values.

    Example:
        >>> import triten as tt
        >>> store = tt.distributed.HashStore()
        >>> tt.distributed.PrefixStore("first", store).set("key", "value")
        >>> store.get("first/key")
        b'value'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__(store.timeout)
        self.prefix = prefix
        self.underlying_store = store

    @property
    def timeout(self) -> timedelta:
        return self.underlying_store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        self.underlying_store.set_timeout(timeout)

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def set(self, key: str, value: str | bytes) -> None:
        self.underlying_store.set(self._key(key), value)

    def get(self, key: str) -> bytes:
        return self.underlying_store.get(self._key(key))

    def add(self, key: str, amount: int) -> int:
        return self.underlying_store.add(self._key(key), amount)

    def append(self, key: str, value: str | bytes) -> None:
        self.underlying_store.append(self._key(key), value)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        return self.underlying_store.compare_set(self._key(key), expected_value, desired_value)

    def delete_key(self, key: str) -> bool:
        return self.underlying_store.delete_key(self._key(key))

    def num_keys(self) -> int:
        """Return the number of keys of the whole store, as in PyTorch."""
        return self.underlying_store.num_keys()

    def check(self, keys: Sequence[str]) -> bool:
        return self.underlying_store.check([self._key(key) for key in keys])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self.underlying_store.wait([self._key(key) for key in keys], timeout)

    def queue_push(self, key: str, value: str | bytes) -> None:
        self.underlying_store.queue_push(self._key(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self.underlying_store.queue_pop(self._key(key), block)

    def queue_len(self, key: str) -> int:
        return self.underlying_store.queue_len(self._key(key))

    def clone(self) -> PrefixStore:
        return PrefixStore(self.prefix, self.underlying_store.clone())

    def presence(self, key: str, value: bytes) -> Presence:
        return self.underlying_store.presence(self._key(key), value)
