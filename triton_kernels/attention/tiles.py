"""Tiles of attention by dtype, head, target and what is beside the scores; every one is declared and compiled.

A tile is (queries, keys, block of a head of query and key, block of a head of the values).
"""

from __future__ import annotations

from ...runtime.cuda.driver import driver
from ...runtime.device import device as Device
from ..budget import Configuration
from ..launch import interpreted, next_power_of_2
from ..products.product import LEAST

INTERPRETED_TILE = 128
"""The side of a tile in the interpreter, where a program costs far more than its elements."""


def _interpreted(head: int, rows: int, columns: int) -> Configuration:
    block_m, block_n = (
        min(max(next_power_of_2(n), LEAST), INTERPRETED_TILE) for n in (rows, columns)
    )
    return Configuration((block_m, block_n, head, head), 4, 1)


def forward_tile(
    device: Device, itemsize: int, head: int, rows: int, columns: int, drops: bool, has_mask: bool
) -> Configuration:
    """The tile of the forward pass, for heads padded to `head`."""
    if interpreted():
        return _interpreted(head, rows, columns)
    raise NotImplementedError


def backward_tile(
    device: Device, itemsize: int, head: int, rows: int, columns: int, of_keys: bool, beside: bool
) -> Configuration:
    """The tile of a backward pass, by keys or by queries; `beside` is a mask, or dropout."""
    if interpreted():
        return _interpreted(head, rows, columns)
    raise NotImplementedError
