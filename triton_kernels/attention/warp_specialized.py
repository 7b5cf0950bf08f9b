"""Dispatch to the warp-specialized forward pass: the calls that it serves, and their operands."""

from __future__ import annotations

from typing import NamedTuple

from ...dispatch.structured import choices
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_gluon import is_supported, shared_descriptor
from ...runtime.device import device as Device
from ..budget import Configuration
from ..launch import cdiv
from ..tuning.choice import configuration
from .operands import Sizes, padded
from .tiles import specialized_tile
from .warp_specialized_kernels import attention_warp_specialized

DESIGN = 90
"""The design of devices whose products it is written for, ``wgmma``; see `DeviceProperties.design`."""
KERNEL = attention_warp_specialized
ROWS = 64
"""Queries of a group of warps."""
ITEMSIZE = 2
"""Bytes of an element."""
FEWEST_QUERIES = 65
"""Minimum number of queries: with fewer, one of the two groups of warps would be idle."""


def can_run(device: Device, sizes: Sizes) -> bool:
    """Return True if device and Triton support these Gluon kernels, and both head widths pad to the same block."""
    own = driver()
    if not own.has_gluon or own.properties(device.resolved_index).design != DESIGN:
        return False
    return padded(sizes.width) == padded(sizes.width_v) and is_supported()


class Grid(NamedTuple):
    """Thread blocks of a launch, and what they need to know of it: further constants and numbers of the kernel."""

    programs: int
    constants: dict[str, object]
    numbers: dict[str, int]


def tile_of(device: Device, sizes: Sizes, dtype: str, is_causal: bool) -> Configuration | None:
    """Return the tile for a call, or None for an unsupported device, Triton, head width, or for few queries."""
    if sizes.length_q < FEWEST_QUERIES or not can_run(device, sizes):
        return None
    chosen = specialized_tile(sizes.head)
    if chosen is None:
        return None
    shape = (sizes.batch * sizes.heads, sizes.length_q, sizes.length_k, sizes.head, int(is_causal))
    tuned = configuration(KERNEL, device, dtype, shape, chosen)
    return tuned if tuned.tile[2:4] == chosen.tile[2:4] else chosen


def operand_types(dtype: str, chosen: Configuration, rows: int = ROWS) -> dict[str, str]:
    """Return the types of the kernel's descriptors; a group of warps has `rows` queries."""
    block_n, width = chosen.tile[1:3]
    queries, keys = (shared_descriptor(dtype, 1, 1, block, width) for block in (rows, block_n))
    return {"q": queries, "k": keys, "v": keys, "out": queries}


def grid_of(device: Device, sizes: Sizes, chosen: Configuration, is_causal: bool) -> Grid:
    """Return the grid of a tile: a thread block for each block of queries, or one for each multiprocessor."""
    *_, persistent, slack = chosen.tile
    items = cdiv(sizes.length_q, chosen.tile[0]) * sizes.batch * sizes.heads
    constants: dict[str, object] = {"STAGES": chosen.stages, "PERSISTENT": persistent, "SLACK": slack}
    if not persistent:
        return Grid(items, constants | {"items": None, "section": None}, {})
    processors = driver().properties(device.resolved_index).multi_processor_count
    numbers = {"items": items, "section": section_of(device, sizes) if is_causal else 1}
    return Grid(min(items, processors), constants, numbers)


def section_of(device: Device, sizes: Sizes) -> int:
    """Return the number of heads whose keys and values fit half of the L2 cache, a multiple of `sizes.group`.

    A persistent kernel with a causal mask computes so many heads at a time, their longest rows first.
    """
    room = driver().properties(device.resolved_index).L2_cache_size // 2
    of_a_head = 2 * ITEMSIZE * sizes.length_k * sizes.head
    shared = max(room // of_a_head, 1)
    return min(shared * sizes.group, sizes.batch * sizes.heads)


def report(sizes: Sizes) -> None:
    """Tell why the kernel was taken."""
    choices.chosen("warp-specialised", "the device has wgmma, and there are {} queries", sizes.length_q)
