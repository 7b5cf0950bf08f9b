"""Dispatch to the forward pass with scores in tensor memory: the calls that it serves, and their operands."""

from __future__ import annotations

from ...dispatch.structured import choices
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_gluon import is_supported
from ...runtime.device import device as Device
from ..budget import Configuration
from ..launch import cdiv
from .operands import Sizes, padded
from .tensor_memory_kernels import attention_tensor_memory
from .tiles import tensor_memory_tile
from .warp_specialized import Grid
from .warp_specialized import operand_types as types_of_operands

DESIGN = 100
"""The design of devices that have tensor memory; see `DeviceProperties.design`."""
KERNEL = attention_tensor_memory
FEWEST_QUERIES = 129
"""Minimum number of queries: with fewer, one of the two tiles would have none."""


def tile_of(device: Device, sizes: Sizes, dtype: str, is_causal: bool) -> Configuration | None:
    """Return the tile for a call, or None for an unsupported Triton or head width, or for few queries."""
    if not driver().has_gluon or not is_supported() or sizes.length_q < FEWEST_QUERIES:
        return None
    return tensor_memory_tile(sizes.head) if padded(sizes.width) == padded(sizes.width_v) else None


def operand_types(dtype: str, chosen: Configuration) -> dict[str, str]:
    """Return the types of the kernel's descriptors; a tile of scores has half of the block's queries."""
    return types_of_operands(dtype, chosen, chosen.tile[0] // 2)


def grid_of(device: Device, sizes: Sizes, chosen: Configuration, is_causal: bool) -> Grid:
    """Return the grid of a tile: a thread block for each block of queries."""
    items = cdiv(sizes.length_q, chosen.tile[0]) * sizes.batch * sizes.heads
    return Grid(items, {"STAGES": chosen.stages}, {})


def report(sizes: Sizes) -> None:
    """Tell why the kernel was taken."""
    choices.chosen(
        "scores in tensor memory", "the device has tcgen05, and there are {} queries", sizes.length_q
    )
