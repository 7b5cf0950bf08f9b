"""Queries of a caching allocator: statistics, snapshots, history, limits."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from .block import PoolId
from .caching_allocator import CachingAllocator
from .history import ACTIONS, CONTEXTS, MemoryHistory
from .snapshot import SegmentInfo, segment_infos
from .statistics import DeviceStats, NestedStats

HISTORY_KINDS = (None, "state", "all")
STACKS = ("python", "all")


def device_stats(allocator: CachingAllocator, device: int) -> DeviceStats:
    """Return the device's counters, up to date. The object stays live."""
    cache = allocator.cache(device)
    with allocator.exclusive() as nested:
        if not nested:
            cache.stats.count()
        return cache.stats


def nested_stats(allocator: CachingAllocator, device: int) -> NestedStats:
    """Return the statistics of `torch.cuda.memory_stats_as_nested_dict`."""
    stats = device_stats(allocator, device)
    with allocator.exclusive():
        return stats.as_nested_dict(allocator.cache(device).options.max_split_size)


def reset_peaks(allocator: CachingAllocator, device: int) -> None:
    """Reset all peaks to the current values."""
    stats = device_stats(allocator, device)
    with allocator.exclusive():
        stats.reset_peaks()


def reset_accumulated(allocator: CachingAllocator, device: int) -> None:
    """Reset all accumulated sums."""
    stats = device_stats(allocator, device)
    with allocator.exclusive():
        stats.reset_accumulated()


def set_fraction(allocator: CachingAllocator, device: int, fraction: float) -> None:
    """Limit the allocator to a fraction of the device's total memory."""
    cache = allocator.cache(device)
    total = allocator.driver.memory_info(device)[1]
    with allocator.exclusive():
        cache.fraction, cache.limit = fraction, int(total * fraction)


def snapshot_segments(allocator: CachingAllocator, pool: PoolId | None = None) -> list[SegmentInfo]:
    """Return all segments with their blocks by device and address, or those of one private pool.

    Raises RuntimeError inside a finalizer that interrupted the allocator in its own thread.
    """
    with allocator.exclusive() as nested:
        if nested:
            raise RuntimeError("memory_snapshot: the allocator is at work in this very thread")
        waiting = allocator.waiting_blocks()
        infos = [info for cache in allocator.caches() for info in segment_infos(cache, waiting)]
    return [info for info in infos if pool is None or info["segment_pool_id"] == pool]


def snapshot(allocator: CachingAllocator) -> dict[str, Any]:
    """Return segments, the traces of all devices and the options, in the format of pytorch.org/memory_viz."""
    segments = snapshot_segments(allocator)
    with allocator.exclusive():
        caches = {cache.index: cache for cache in allocator.caches()}
        count = max(caches, default=-1) + 1
        histories = [caches[i].history if i in caches else None for i in range(count)]
        for history in histories:
            if history is not None:
                history.note("snapshot", 0, 0, 0, (0, 0), None)
        options = allocator.options
        return {
            "segments": segments,
            "device_traces": [[] if history is None else history.trace() for history in histories],
            "allocator_settings": {
                "max_split_size": -1 if options.max_split_size is None else options.max_split_size,
                "garbage_collection_threshold": options.garbage_collection_threshold or 0.0,
                "roundup_power2_divisions": {"": options.roundup_power2_divisions},
                "expandable_segments": False,
            },
            "external_annotations": [],
        }


def record_history(
    allocator: CachingAllocator,
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    clear_history: bool = False,
    skip_actions: Iterable[str] | None = None,
) -> None:
    """Record the frames of live blocks (``"state"``), and all events too (``"all"``); None stops recording.

    Raises RuntimeError for any other value, as PyTorch does.
    """
    skip = frozenset(skip_actions or ())
    for name, value, known in (
        ("enabled", enabled, HISTORY_KINDS),
        ("context", context, CONTEXTS),
        ("stacks", stacks, STACKS),
        *(("skip_actions", action, ACTIONS) for action in sorted(skip)),
    ):
        if value not in known:
            raise RuntimeError(f"_record_memory_history: {name}: expected one of {known}, got {value!r}")
    if max_entries < 0:
        raise RuntimeError(
            f"_record_memory_history: max_entries must be non-negative integer, got {max_entries}"
        )
    indices = range(allocator.driver.device_count())
    caches = [allocator.cache(index) for index in indices]
    with allocator.exclusive():
        for cache in caches:
            before = cache.history
            if enabled is None:
                cache.history = None
                continue
            cache.history = MemoryHistory(cache.index, enabled == "all", context, max_entries, skip)
            if before is not None and not clear_history:
                cache.history.entries.extend(before.entries)
        allocator.set_recording(enabled is not None)
