"""Events of blocks as integers: what happens to blocks is logged by one `append`, and counted later in bulk.

Counting seven quantities for two pools, each with its peak, would cost more than handing out a block. So an event is
one signed number: positive as a block is handed out, negative as it is given back. From the lowest bit: 27 bits of
bytes that the request did not ask for, 31 bits of size in units of 512, and five flags.
"""

from __future__ import annotations

UNIT_BITS = 9
WASTE_BITS = 27
SIZE_BITS = 31
MAX_WASTE = (1 << WASTE_BITS) - 1
LARGE, ALLOCATED, ACTIVE, SPLIT = (1 << WASTE_BITS + SIZE_BITS + flag for flag in range(4))
"""`LARGE`: the block is of the large pool. The others: whether allocated, active and (the other way round) inactive
split memory changes. An event of no such flag corrects the requested bytes by what it holds below them."""
LOG_LIMIT = 4096
"""How many events a device's log holds before they are counted."""


class BlockEvents:
    """The log of one device; `guard` bytes of each block are not counted while it is handed out."""

    __slots__ = ("guard", "log")

    def __init__(self, guard: int) -> None:
        self.guard = guard
        self.log: list[int] = []

    @staticmethod
    def weight(counted: int, small: bool, split: bool) -> int:
        """The event of handing out a block, but for the request's bytes, which are subtracted."""
        flags = ALLOCATED | ACTIVE | (0 if small else LARGE) | (SPLIT if split else 0)
        return flags + (counted >> UNIT_BITS << WASTE_BITS) + counted

    def inactive(self, counted: int, small: bool) -> None:
        """A piece of a segment became free by splitting or merging."""
        self.log.append(-_split_event(counted, small))

    def not_inactive(self, counted: int, small: bool) -> None:
        """A free piece of a segment ceased to be one."""
        self.log.append(_split_event(counted, small))


def _split_event(counted: int, small: bool) -> int:
    return SPLIT | (0 if small else LARGE) | counted >> UNIT_BITS << WASTE_BITS
