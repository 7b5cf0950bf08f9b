"""Memory snapshots: a device's segments and blocks in PyTorch's format (`torch.cuda.memory_snapshot`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .block import Block, Segment
from .block_events import MAX_WASTE
from .cache import DeviceCache
from .history import frame_dicts

SegmentInfo = dict[str, Any]


@contextmanager
def claimed(cache: DeviceCache) -> Iterator[dict[int, Block]]:
    """Take all free blocks of a device, by address, so that no other thread gets one meanwhile."""
    taken = [pool.claim() for pool in cache.pools()]
    try:
        yield {address: block for free in taken for address, block in free.items()}
    finally:
        for free in taken:
            for block in free.values():
                block.home.append(block)


def live_blocks(cache: DeviceCache, waiting: list[Block]) -> list[Block]:
    """Return the allocated blocks, without the `waiting` ones."""
    gone = {block.address for block in waiting}
    with claimed(cache) as free:
        return [
            block
            for segment in cache.segments()
            for block in segment.blocks()
            if block.address not in free and block.address not in gone
        ]


def requested_bytes(block: Block) -> int:
    """Return the number of bytes that were requested for a live block."""
    return block.counted - (block.charge & MAX_WASTE) - block.excess


def segment_infos(cache: DeviceCache, waiting: list[Block]) -> list[SegmentInfo]:
    """Return the segments of a device with their blocks, in address order."""
    gone = {block.address for block in waiting}
    with claimed(cache) as free:
        return [_segment_info(cache, segment, free, gone) for segment in cache.segments()]


def _segment_info(
    cache: DeviceCache, segment: Segment, free: dict[int, Block], gone: set[int]
) -> SegmentInfo:
    guard = segment.pool.guard
    blocks = []
    for block in segment.blocks():
        if block.address in free:
            # The guard of the last block is the segment's guard, which statistics do not count.
            state, requested, size = "inactive", 0, block.size - (guard if block.next is None else 0)
        else:
            size = block.counted
            state = "active_awaiting_free" if block.address in gone else "active_allocated"
            requested = requested_bytes(block)
        blocks.append(
            {
                "address": block.address,
                "size": size,
                "requested_size": requested,
                "state": state,
                "frames": frame_dicts(block.frames),
            }
        )
    allocated = [info for info in blocks if info["state"] == "active_allocated"]
    active = [info for info in blocks if info["state"] != "inactive"]
    return {
        "device": cache.index,
        "address": segment.address,
        "total_size": segment.size - guard,
        "allocated_size": sum(info["size"] for info in allocated),
        "active_size": sum(info["size"] for info in active),
        "requested_size": sum(info["requested_size"] for info in active),
        "stream": segment.pool.stream,
        "segment_type": "small" if segment.pool.small else "large",
        "segment_pool_id": segment.pool.owner,
        "is_expandable": False,
        "frames": frame_dicts(segment.frames),
        "blocks": blocks,
    }
