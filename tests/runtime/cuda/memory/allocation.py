"""Shared allocators of the allocator policy tests: addresses without memory, and readers of statistics."""

from typing import Any

from triten.perf.suite.workloads.allocator import address_driver
from triten.runtime.cuda.memory import inspection
from triten.runtime.cuda.memory.caching_allocator import CachingAllocator
from triten.runtime.cuda.memory.options import AllocatorOptions
from triten.runtime.cuda.memory.statistics import flattened


def make(**options: Any) -> CachingAllocator:
    """Return an allocator with the given options."""
    return CachingAllocator(address_driver(), AllocatorOptions(**options))


def stats(allocator: CachingAllocator) -> dict[str, int]:
    """Return the statistics of the first device, by their dotted names."""
    return flattened(inspection.nested_stats(allocator, 0))


def blocks(allocator: CachingAllocator, segment: int = 0) -> list[tuple[int, bool]]:
    """Return (size, in use) of each block of a segment."""
    found = inspection.snapshot_segments(allocator)[segment]["blocks"]
    return [(block["size"], block["state"] == "active_allocated") for block in found]
