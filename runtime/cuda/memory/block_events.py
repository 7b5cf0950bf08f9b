"""Block events as integers: an `append` logs each event, and the statistics count them later in bulk.

Counting seven quantities for two pools, each with its peak, would cost more than allocating a block. An event is
therefore one signed number: positive for an allocation, negative for a free. From the lowest bit it holds 27 bits of
bytes beyond the request, 31 bits of size in units, and five flags.
"""

from __future__ import annotations

UNIT_BITS = 9
"""Bits of a unit: sizes of blocks are multiples of 512 bytes, as in c10/cuda/CUDACachingAllocator."""
WASTE_BITS = 27
SIZE_BITS = 31
MAX_WASTE = (1 << WASTE_BITS) - 1
LARGE, ALLOCATED, ACTIVE, SPLIT = (1 << WASTE_BITS + SIZE_BITS + flag for flag in range(4))
"""`LARGE`: the block is in the large pool. The others say which metrics the event changes: allocated, active, or
(with the opposite sign) inactive split memory. An event without these flags corrects the requested bytes.
"""
LOG_LIMIT = 4096
"""Number of events that a device's log holds before they are counted."""


class BlockEvents:
    """Event log of one device; the last `guard` bytes of each allocated block are not counted."""

    __slots__ = ("guard", "log")

    def __init__(self, guard: int) -> None:
        self.guard = guard
        self.log: list[int] = []

    @staticmethod
    def weight(counted: int, small: bool, split: bool) -> int:
        """Return the event of allocating a block, before the request's bytes are subtracted."""
        flags = ALLOCATED | ACTIVE | (0 if small else LARGE) | (SPLIT if split else 0)
        return flags + (counted >> UNIT_BITS << WASTE_BITS) + counted

    def inactive(self, counted: int, small: bool) -> None:
        """Log that splitting or merging made a part of a segment free."""
        self.log.append(-_split_event(counted, small))

    def not_inactive(self, counted: int, small: bool) -> None:
        """Log that a part of a segment is no longer free."""
        self.log.append(_split_event(counted, small))


def _split_event(counted: int, small: bool) -> int:
    return SPLIT | (0 if small else LARGE) | counted >> UNIT_BITS << WASTE_BITS
