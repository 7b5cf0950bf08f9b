"""Dispatch to the forward pass with scores in tensor memory: the calls that it serves, and their operands."""

from __future__ import annotations

from ...dispatch.structured import choices
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_gluon import is_supported
from ...runtime.device import device as Device
from ..budget import Configuration
from .operands import Sizes, padded
from .tensor_memory_kernels import attention_tensor_memory
from .tiles import tensor_memory_tile
from .warp_specialized import operand_types

__all__ = ["DESIGN", "KERNEL", "operand_types", "report", "tile_of"]

DESIGN = 100
"""The design of devices that have tensor memory; see `DeviceProperties.design`."""
KERNEL = attention_tensor_memory
FEWEST_QUERIES = 129
"""Minimum number of queries: with fewer, one of the two tiles would have none."""


def tile_of(device: Device, sizes: Sizes) -> Configuration | None:
    """Its tile for a call; None where Triton, heads or queries are not those that it is for."""
    if not driver().has_gluon or not is_supported() or sizes.length_q < FEWEST_QUERIES:
        return None
    return tensor_memory_tile(sizes.head) if padded(sizes.width) == padded(sizes.width_v) else None


def report(sizes: Sizes) -> None:
    """Tell why the kernel was taken."""
    choices.chosen(
        "scores in tensor memory", "the device has tcgen05, and there are {} queries", sizes.length_q
    )
