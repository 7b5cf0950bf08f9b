"""Private pools of the caching allocator: the requests that they serve, and their use counts.

This module also has the allocator's one lock, which detects a finalizer that runs while its own thread holds it.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from ..driver import Driver
from .block import NO_POOL, PoolId
from .cache import DeviceCache, PrivatePool
from .exact_sizes import NOTHING


class PrivatePools(ABC):
    """Part of the allocator that manages private pools."""

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
        """Driver that allocates the segments."""

    @abstractmethod
    def cache(self, index: int) -> DeviceCache:
        """Return the state of a device. Raise RuntimeError if it does not exist."""

    @abstractmethod
    def _choose_path(self) -> None:
        """Choose whether requests may use the table of exact sizes."""

    def exclusive(self) -> Exclusive:
        """Return the allocator's lock; entering it tells whether this thread already holds it."""
        return Exclusive(self)

    def _routed(self, cache: DeviceCache, stream: int) -> PrivatePool | None:
        for device, pool, accepts_stream in self._open:
            if device == cache.index and accepts_stream(stream):
                return cache.private[pool]
        return None

    def begin_allocate_to_pool(
        self, device: int, pool: PoolId, accepts_stream: Callable[[int], bool]
    ) -> None:
        """Serve requests of a device from a private pool, on the streams for which `accepts_stream` returns True.

        The first call creates the pool, and each call adds a user. Until `end_allocate_to_pool`, no thread records or
        queries events. Raises RuntimeError if the pool is open already.
        """
        with self.exclusive():
            cache = self.cache(device)
            if self._is_open(device, pool):
                raise RuntimeError(f"begin_allocate_to_pool: pool {pool} of device {device} is open already")
            self._retain(cache, pool)
            self._open = [*self._open, (device, pool, accepts_stream)]
            self._choose_path()

    def end_allocate_to_pool(self, device: int, pool: PoolId) -> None:
        """Serve requests from the common pool again. Raise RuntimeError if the pool is not open."""
        with self.exclusive():
            if not self._is_open(device, pool):
                raise RuntimeError(f"end_allocate_to_pool: pool {pool} of device {device} is not open")
            self._open = [entry for entry in self._open if entry[:2] != (device, pool)]
            # The next request records the deferred events and restores the table of exact sizes.

    def retain_pool(self, device: int, pool: PoolId) -> None:
        """Create a private pool, or add a user to it."""
        with self.exclusive():
            self._retain(self.cache(device), pool)

    def release_pool(self, device: int, pool: PoolId) -> None:
        """Remove a user. After the last one, `empty_cache` returns the pool's free segments to the driver.

        Raises RuntimeError for a pool that does not exist or is open. In a finalizer, call `release_pool_later`.
        """
        with self.exclusive():
            cache = self._devices.get(device)
            if cache is None or pool not in cache.private or not cache.private[pool].uses:
                raise RuntimeError(f"release_pool: device {device} has no pool {pool} in use")
            if self._is_open(device, pool) and cache.private[pool].uses == 1:
                raise RuntimeError(f"release_pool: pool {pool} of device {device} is open")
            cache.private[pool].uses -= 1

    def release_pool_later(self, device: int, pool: PoolId) -> None:
        """Call `release_pool` with the next request. Lock-free; raises nothing."""
        self._to_release.append((device, pool))
        self._fast = NOTHING

    def pool_uses(self, device: int, pool: PoolId) -> int:
        """Return the number of users of a private pool; 0 if the pool does not exist."""
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
    """Context manager that holds an allocator's lock.

    A finalizer that garbage collection runs in the same thread sees that it is nested. The allocator's state may then
    be half updated, so the finalizer leaves it alone.
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
