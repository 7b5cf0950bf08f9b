"""Private pools of the caching allocator: which requests they serve, and how many users keep each alive.

Also the allocator's one lock, and what a finaliser finds that runs while its own thread holds it.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from ..driver import Driver
from .block import NO_POOL, FreeList, PoolId
from .cache import DeviceCache, PrivatePool

Exact = dict[tuple[int, int, int], FreeList]
NOTHING: Exact = {}
"""Stands for the table of exact sizes while every request has to come by the lock."""


class PrivatePools(ABC):
    """The part of an allocator that knows its private pools."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._busy = False
        self._devices: dict[int, DeviceCache] = {}
        self._fast = NOTHING
        self._open: list[tuple[int, PoolId, Callable[[int], bool]]] = []
        self._to_release: deque[tuple[int, PoolId]] = deque()

    @property
    @abstractmethod
    def driver(self) -> Driver:
        """Where the memory comes from."""

    @abstractmethod
    def cache(self, index: int) -> DeviceCache:
        """What is known of a device. Raises RuntimeError for one that does not exist."""

    @abstractmethod
    def _choose_path(self) -> None:
        """Decide whether requests may go by the table of exact sizes."""

    def exclusive(self) -> Exclusive:
        """The allocator's lock; entering tells whether this very thread is at work under it already."""
        return Exclusive(self)

    def _routed(self, cache: DeviceCache, stream: int) -> PrivatePool | None:
        for device, pool, takes in self._open:
            if device == cache.index and takes(stream):
                return cache.private[pool]
        return None

    def begin_allocate_to_pool(self, device: int, pool: PoolId, takes: Callable[[int], bool]) -> None:
        """From now on requests of a device, on the streams for which `takes` is true, are served by a private pool.

        The pool is made with its first user; each call is one more. Until `end_allocate_to_pool` no event is
        recorded or queried, in no thread. Raises RuntimeError if the pool is open already.
        """
        with self.exclusive():
            cache = self.cache(device)
            if self._is_open(device, pool):
                raise RuntimeError(f"begin_allocate_to_pool: pool {pool} of device {device} is open already")
            self._retain(cache, pool)
            self._open = [*self._open, (device, pool, takes)]
            self._choose_path()

    def end_allocate_to_pool(self, device: int, pool: PoolId) -> None:
        """Serve requests from the common pool again. Raises RuntimeError if the pool is not open."""
        with self.exclusive():
            if not self._is_open(device, pool):
                raise RuntimeError(f"end_allocate_to_pool: pool {pool} of device {device} is not open")
            self._open = [entry for entry in self._open if entry[:2] != (device, pool)]
            # The table of exact sizes comes back with the next request, which records the events put off.

    def retain_pool(self, device: int, pool: PoolId) -> None:
        """Make a private pool, or one more user of it."""
        with self.exclusive():
            self._retain(self.cache(device), pool)

    def release_pool(self, device: int, pool: PoolId) -> None:
        """One user less. After the last one, what is free in the pool goes back to the driver with `empty_cache`.

        Raises RuntimeError for a pool that does not exist or is open. In a finaliser, call `release_pool_later`.
        """
        with self.exclusive():
            cache = self._devices.get(device)
            if cache is None or pool not in cache.private or not cache.private[pool].uses:
                raise RuntimeError(f"release_pool: device {device} has no pool {pool} in use")
            if self._is_open(device, pool) and cache.private[pool].uses == 1:
                raise RuntimeError(f"release_pool: pool {pool} of device {device} is open")
            cache.private[pool].uses -= 1

    def release_pool_later(self, device: int, pool: PoolId) -> None:
        """As `release_pool`, with the next request: takes no lock, and raises nothing."""
        self._to_release.append((device, pool))
        self._fast = NOTHING

    def pool_uses(self, device: int, pool: PoolId) -> int:
        """How many users a private pool has; 0 for one that does not exist."""
        with self.exclusive() as nested:
            if not nested:
                self._release_put_off()
            cache = self._devices.get(device)
            return 0 if cache is None or pool not in cache.private else cache.private[pool].uses

    def _retain(self, cache: DeviceCache, pool: PoolId) -> None:
        if pool == NO_POOL or len(pool) != 2 or not all(type(part) is int for part in pool):
            raise RuntimeError(f"expected the id of a private pool, two ints that are not both 0, got {pool}")
        cache.private.setdefault(pool, PrivatePool(pool)).uses += 1

    def _is_open(self, device: int, pool: PoolId) -> bool:
        return any(entry[:2] == (device, pool) for entry in self._open)

    def _release_put_off(self) -> None:
        while self._to_release:
            device, pool = self._to_release.popleft()
            cache = self._devices.get(device)
            if cache is not None and pool in cache.private:
                cache.private[pool].uses -= 1


class Exclusive:
    """Holds an allocator's lock. A finaliser that garbage collection runs meanwhile, in the same thread, sees that it
    is nested: it finds things half done and leaves them alone.
    """

    __slots__ = ("_allocator", "_nested")

    def __init__(self, allocator: PrivatePools) -> None:
        self._allocator = allocator

    def __enter__(self) -> bool:
        allocator = self._allocator
        allocator._lock.acquire()
        self._nested = allocator._busy
        allocator._busy = True
        return self._nested

    def __exit__(self, *_: object) -> None:
        self._allocator._busy = self._nested
        self._allocator._lock.release()
