"""Dispatch to the warp-specialized forward pass: the calls that it serves, and their operands."""

from __future__ import annotations

from ...dispatch.structured import choices
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_gluon import is_supported, shared_descriptor
from ...runtime.device import device as Device
from ..budget import Configuration
from .operands import Sizes, padded
from .tiles import specialized_tile
from .warp_specialized_kernels import attention_warp_specialized

DESIGN = 90
"""The design of devices whose products it is written for, ``wgmma``; see `DeviceProperties.design`."""
KERNEL = attention_warp_specialized
FEWEST_QUERIES = 65
"""Minimum number of queries: with fewer, one of the two groups of warps would be idle."""


def can_run(device: Device, sizes: Sizes) -> bool:
    """Return True if device and Triton support these Gluon kernels, and both head widths pad to the same block."""
    own = driver()
    if not own.has_gluon or own.properties(device.resolved_index).design != DESIGN:
        return False
    return padded(sizes.width) == padded(sizes.width_v) and is_supported()


def tile_of(device: Device, sizes: Sizes) -> Configuration | None:
    """Its tile for a call; None where device, Triton, heads or queries are not those that it is for."""
    if sizes.length_q < FEWEST_QUERIES or not can_run(device, sizes):
        return None
    return specialized_tile(sizes.head)


def operand_types(dtype: str, chosen: Configuration) -> dict[str, str]:
    """Return the types of the kernel's descriptors; a group of warps has half of the tile's queries."""
    block_m, block_n, width, _ = chosen.tile
    rows, keys = (shared_descriptor(dtype, 1, 1, block, width) for block in (block_m // 2, block_n))
    return {"q": rows, "k": keys, "v": keys, "out": rows}


def report(sizes: Sizes) -> None:
    """Tell why the kernel was taken."""
    choices.chosen("warp-specialised", "the device has wgmma, and there are {} queries", sizes.length_q)
