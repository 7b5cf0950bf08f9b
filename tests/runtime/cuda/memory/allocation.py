"""What the tests of the allocator's policy share: allocators over addresses without memory, and readers of them."""

from typing import Any

from triten.perf.suite.workloads.allocator import address_driver
from triten.runtime.cuda.memory import inspection
from triten.runtime.cuda.memory.caching_allocator import CachingAllocator
from triten.runtime.cuda.memory.options import AllocatorOptions
from triten.runtime.cuda.memory.statistics import flattened


def make(**options: Any) -> CachingAllocator:
    """An allocator with these options."""
    return CachingAllocator(address_driver(), AllocatorOptions(**options))


def stats(allocator: CachingAllocator) -> dict[str, int]:
    """The statistics of the first device, by their names with dots."""
    return flattened(inspection.nested_stats(allocator, 0))


def blocks(allocator: CachingAllocator, segment: int = 0) -> list[tuple[int, bool]]:
    """(size, whether in use) of a segment's blocks."""
    found = inspection.snapshot_segments(allocator)[segment]["blocks"]
    return [(block["size"], block["state"] == "active_allocated") for block in found]
