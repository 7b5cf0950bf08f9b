"""Number of parts that the keys of a call with few queries are split into.

Attention of few queries reads every key and value once and computes little. Its time is that of the multiprocessor with
the most keys. Costs are in tiles of keys of one thread block. They count work, and were not fitted to
measured times.
"""

from __future__ import annotations

from ..launch import cdiv

FEW_QUERIES = 16
"""Maximum number of queries of a head, or of an average sequence, for which this applies."""
MIN_KEYS = 128
"""Minimum number of keys of a part: fewer cost less than the merge's traffic."""
PARTS_OF_THE_SHORTEST = 8
"""Fewer keys than for so many parts are not split: the launch of the merge would take longer than they do."""
BLOCK_COST = 1
"""Tiles that the queries, the start and the result of a block take the time of."""
MERGE_COST = 3
"""Tiles that the launch of the merge takes the time of."""
LONE_BLOCK = 1.25
"""Factor for the only block of a multiprocessor, which has too few bytes in flight for the full bandwidth."""
BLOCKS_OF_A_MULTIPROCESSOR = 2
"""Maximum number of parts of a single tile of queries, for each multiprocessor."""


def number_of_parts(programs: int, keys: int, block_n: int, processors: int) -> int:
    """Return the number of parts with the least cost; of equal ones the smallest.

    Args:
        programs: Thread blocks without a split.
        keys: Number of keys that each of them reads.
        block_n: Keys of a tile.
        processors: Multiprocessors of the device.

    Example:
        >>> from triten.triton_kernels.attention.splits import number_of_parts
        >>> [number_of_parts(programs, 4096, 64, 132) for programs in (8, 72, 512)]
        [32, 5, 1]
    """
    if keys < PARTS_OF_THE_SHORTEST * MIN_KEYS:
        return 1
    tiles = cdiv(keys, block_n)
    most = min(keys // max(MIN_KEYS, block_n), BLOCKS_OF_A_MULTIPROCESSOR * processors)
    costs = [(cost(programs, tiles, processors, parts), parts) for parts in range(1, max(most, 1) + 1)]
    return min(costs)[1]


def cost(programs: int, tiles: int, processors: int, parts: int) -> float:
    """Return the cost of the multiprocessor with the most blocks, and of the merge."""
    blocks = cdiv(programs * parts, processors)
    each = cdiv(tiles, parts) + BLOCK_COST
    return blocks * each * (LONE_BLOCK if blocks == 1 else 1) + (MERGE_COST if parts > 1 else 0)
