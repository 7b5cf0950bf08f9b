"""Statistics of the caching allocator under PyTorch's names (`torch.cuda.memory_stats`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .block_events import (
    ACTIVE,
    ALLOCATED,
    LARGE,
    MAX_WASTE,
    SIZE_BITS,
    SPLIT,
    UNIT_BITS,
    WASTE_BITS,
    BlockEvents,
)

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Counts = dict[str, int]
NestedStats = dict[str, Any]

EVENT_METRICS = (
    "allocation",
    "allocated_bytes",
    "requested_bytes",
    "active",
    "active_bytes",
    "inactive_split",
    "inactive_split_bytes",
)
POOLS = ("all", "small_pool", "large_pool")
EXCESS = LARGE - 1


class Stat:
    """Counter with its current value, its peak, and the totals added and removed."""

    __slots__ = ("allocated", "current", "freed", "peak")

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def increase(self, amount: int) -> None:
        """Add."""
        self.current += amount
        self.allocated += amount
        self.peak = max(self.peak, self.current)

    def decrease(self, amount: int) -> None:
        """Take away."""
        self.current -= amount
        self.freed += amount

    def as_dict(self) -> Counts:
        """Return the four values under PyTorch's names."""
        return {
            "current": self.current,
            "peak": self.peak,
            "allocated": self.allocated,
            "freed": self.freed,
        }


class DeviceStats:
    """Statistics of one device's allocator. Call `count` first to process the logged events."""

    def __init__(self, guard: int) -> None:
        self.events = BlockEvents(guard)
        shape = (len(POOLS), len(EVENT_METRICS))
        self._current: Numbers = np.zeros(shape, np.int64)
        self._peak: Numbers = np.zeros(shape, np.int64)
        self._gained: Numbers = np.zeros(shape, np.int64)
        self._lost: Numbers = np.zeros(shape, np.int64)
        self.segments = {pool: Stat() for pool in POOLS}
        self.reserved = {pool: Stat() for pool in POOLS}
        self.num_alloc_retries = 0
        self.num_ooms = 0
        self.num_sync_all_streams = 0
        self.num_device_alloc = 0
        self.num_device_free = 0
        self.misses = 0

    def count(self) -> None:
        """Count the logged events. The caller holds the allocator's lock; other threads may go on logging."""
        log = self.events.log
        length = len(log)
        if not length:
            return
        events = np.array(log[:length], np.int64)
        del log[:length]
        changes, rows = self._changes(events)
        large = np.abs(events) & LARGE != 0
        if not large.any():
            self._add((0, 1), changes, rows)
        elif large.all():
            self._add((0, 2), changes, rows)
        else:
            of_large = np.where(large, changes, 0)
            self._add((0,), changes, rows)
            self._add((1,), changes - of_large, rows)
            self._add((2,), of_large, rows)

    def _add(self, pools: tuple[int, ...], changes: Numbers, rows: list[int]) -> None:
        running = np.cumsum(changes, axis=1)
        highest, last = running.max(axis=1)[rows], running[rows, -1]
        gained = np.maximum(changes, 0).sum(axis=1)[rows]
        for pool in pools:
            np.maximum(self._peak[pool], self._current[pool] + highest, out=self._peak[pool])
            self._gained[pool] += gained
            self._lost[pool] += gained - last
            self._current[pool] += last

    def _changes(self, events: Numbers) -> tuple[Numbers, list[int]]:
        """Return the changes of the quantities at each event, and the rows of the metrics."""
        sign = np.sign(events)
        code = np.abs(events)
        size = (code >> WASTE_BITS & (1 << SIZE_BITS) - 1) << UNIT_BITS
        allocated = np.where(code & ALLOCATED, sign, 0)
        inactive = np.where(code & SPLIT, -sign, 0)
        requested = allocated * (size - (code & MAX_WASTE))
        excess = code < ALLOCATED
        if excess.any():
            requested += np.where(excess, -sign * (code & EXCESS), 0)
        changes = [
            allocated,
            allocated * size,
            requested,
            inactive,
            inactive * (size + self.events.guard),
        ]
        rows = [0, 1, 2, 0, 1, 3, 4]
        active = np.where(code & ACTIVE, sign, 0)
        if not np.array_equal(active, allocated):
            changes += [active, active * size]
            rows[3:5] = 5, 6
        return np.stack(changes), rows

    def current(self, metric: str) -> int:
        """Return a metric's current value over both pools."""
        if metric == "reserved_bytes":
            return self.reserved["all"].current
        return int(self._current[0, EVENT_METRICS.index(metric)])

    @property
    def requests(self) -> int:
        """Number of requests since the start or the last `reset_accumulated`."""
        return int(self._gained[0, 0])

    def segment_added(self, nbytes: int, small: bool) -> None:
        """Count a segment that the driver allocated."""
        for pool in ("all", "small_pool" if small else "large_pool"):
            self.segments[pool].increase(1)
            self.reserved[pool].increase(nbytes)
        self.num_device_alloc += 1

    def segment_freed(self, nbytes: int, small: bool) -> None:
        """Count a segment that the driver freed."""
        for pool in ("all", "small_pool" if small else "large_pool"):
            self.segments[pool].decrease(1)
            self.reserved[pool].decrease(nbytes)
        self.num_device_free += 1

    def reset_peaks(self) -> None:
        """Reset all peaks to the current values."""
        self._peak[:] = self._current
        for stat in self._stats():
            stat.peak = stat.current

    def reset_accumulated(self) -> None:
        """Reset all sums and event counters."""
        self._gained[:] = self._lost[:] = 0
        for stat in self._stats():
            stat.allocated = stat.freed = 0
        self.num_alloc_retries = self.num_ooms = self.num_sync_all_streams = 0
        self.num_device_alloc = self.num_device_free = self.misses = 0

    def _stats(self) -> list[Stat]:
        return [*self.segments.values(), *self.reserved.values()]

    def as_nested_dict(self, max_split_size: int | None) -> NestedStats:
        """Return `torch.cuda.memory_stats_as_nested_dict`, plus triten's own hit counts."""
        nested: NestedStats = {
            metric: {
                pool: {
                    "current": int(self._current[p, m]),
                    "peak": int(self._peak[p, m]),
                    "allocated": int(self._gained[p, m]),
                    "freed": int(self._lost[p, m]),
                }
                for p, pool in enumerate(POOLS)
            }
            for m, metric in enumerate(EVENT_METRICS)
        }
        nested["segment"] = {pool: stat.as_dict() for pool, stat in self.segments.items()}
        nested["reserved_bytes"] = {pool: stat.as_dict() for pool, stat in self.reserved.items()}
        hits = self.requests - self.misses
        nested |= {
            "num_alloc_retries": self.num_alloc_retries,
            "num_ooms": self.num_ooms,
            "num_sync_all_streams": self.num_sync_all_streams,
            "num_device_alloc": self.num_device_alloc,
            "num_device_free": self.num_device_free,
            "max_split_size": -1 if max_split_size is None else max_split_size,
            "num_hits": hits,
            "hit_rate": hits / self.requests if self.requests else 0.0,
        }
        return nested


def flattened(nested: NestedStats) -> dict[str, Any]:
    """Flatten a nested dictionary into one with dotted, sorted keys.

    Example:
        >>> from triten.runtime.cuda.memory.statistics import flattened
        >>> flattened({"b": 1, "a": {"d": 2, "c": 3}})
        {'a.c': 3, 'a.d': 2, 'b': 1}
    """
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": v for inner, v in flattened(value).items()}
        else:
            flat[key] = value
    return dict(sorted(flat.items()))
