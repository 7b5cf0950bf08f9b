"""Table of free lists by the exact size of a request, in which requests find a block without the lock.

A place is a device, a stream and a block size. Requests look up the size of their bytes, rounded up to whole units
(`block_size`). Under ``roundup_power2_divisions``, `RoundedSizes` maps that size to the size that is served.
"""

from __future__ import annotations

from .block import GRANULARITY, OVERSIZE_SLACK, FreeList, block_size
from .block_events import MAX_WASTE
from .options import AllocatorOptions

SizeKey = tuple[int, int, int]
Exact = dict[SizeKey, FreeList]
NOTHING: Exact = {}
"""Empty table of exact sizes, used while every request has to take the lock."""
MAX_ROUNDING = MAX_WASTE - OVERSIZE_SLACK - GRANULARITY
"""Largest increase of a size without the lock: an event holds no more waste, to which an unsplit block adds."""


class RoundedSizes(Exact):
    """Free lists by place, which requests of all sizes that are rounded up to a list's size find.

    Lists of other sizes, those of a split block's rest, are left out: best fit serves them.

    Args:
        options: The allocator's options.
        guard: Bytes at the end of each block that are never allocated.

    Example:
        >>> from triten.runtime.cuda.memory.block import FreeList
        >>> from triten.runtime.cuda.memory.options import AllocatorOptions
        >>> table = RoundedSizes(AllocatorOptions(roundup_power2_divisions=4), 0)
        >>> table[0, 0, 6144] = FreeList(6144)
        >>> table[0, 0, 5632] is table[0, 0, 6144]
        True
    """

    __slots__ = ("_guard", "_options")

    def __init__(self, options: AllocatorOptions, guard: int) -> None:
        super().__init__()
        self._options = options
        self._guard = guard

    def _rounded(self, size: int) -> int:
        return block_size(self._options.round(size - self._guard)) + self._guard

    def __setitem__(self, key: SizeKey, home: FreeList) -> None:
        if self._rounded(key[2]) == key[2]:
            super().__setitem__(key, home)

    def __missing__(self, key: SizeKey) -> FreeList:
        device, stream, size = key
        rounded = self._rounded(size)
        if rounded == size or rounded - size > MAX_ROUNDING:
            raise KeyError(key)
        return self[device, stream, rounded]
