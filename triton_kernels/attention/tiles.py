"""Attention tiles by dtype, head, target and extra work; each is declared and compiled ahead of time.

A tile is (queries, keys, block of a head of query and key, block of a head of the values). A mask, dropout's
random numbers, or element-wise addresses for unaligned rows (`beside`) take registers, so they need smaller
tiles.
"""

from __future__ import annotations

from ...runtime.cuda.driver import driver
from ...runtime.device import device as Device
from ..budget import CARDS, Configuration
from ..launch import interpreted, next_power_of_2
from ..products.product import MIN_TILE_SIZE

INTERPRETED_TILE = 128
"""The side of a tile in the interpreter, where a program costs far more than its elements."""

# Forward, 16-bit. Head 64 with 64 keys has two blocks on sm_90 and sm_100, so that one multiplies while the other
# computes exponentials. With 128 keys, or a head of 128, the accumulators of one block take the registers.
NARROW = Configuration((128, 64, 64, 64), 8, 3, {80: 1, 90: 2, 100: 2})
NARROW_LONG = Configuration((128, 128, 64, 64), 8, 3, 1)
HEAD = Configuration((128, 64, 128, 128), 8, 3, {90: 1, 100: 1})
HEAD_LONG = Configuration((128, 128, 128, 128), 8, 2, {90: 1, 100: 1})
HEAD_AMPERE = Configuration((128, 64, 128, 128), 8, 2, {80: 1})
WIDE = Configuration((64, 64, 256, 256), 8, 2, 1)
BESIDE_NARROW = Configuration((64, 64, 64, 64), 4, 3, 1)
UNALIGNED_NARROW = Configuration((64, 32, 64, 64), 4, 3, 2)
BESIDE_HEAD = Configuration((64, 32, 128, 128), 4, 2, 1)
UNALIGNED_HEAD_CARD = Configuration((64, 32, 128, 128), 8, 2, {86: 1})
BESIDE_WIDE = Configuration((64, 32, 256, 256), 8, 2, 1)
# Few queries: the fewest rows that the tensor core multiplies, 64 on sm_90 and sm_100 and 16 on sm_80.
FEW_HEAD = Configuration((64, 64, 128, 128), 4, 2, {90: 2, 100: 2})
FEW_AMPERE = Configuration((16, 128, 128, 128), 4, 2, {80: 2})
# Tensor descriptors. For 128x64x128 and 64x64x64 the compiler for sm_100 spills a few values to stay at 128 and 96
# registers.
BULK_NARROW = Configuration((128, 64, 64, 64), 8, 3, {90: 2, 100: 2})
BULK_NARROW_LONG = Configuration((128, 128, 64, 64), 8, 3, {90: 1, 100: 1})
BULK_HEAD = Configuration((128, 64, 128, 128), 8, 3, {90: 1})
BULK_HEAD_LONG = Configuration((128, 128, 128, 128), 8, 2, {90: 1, 100: 1})
BULK_WIDE = Configuration((128, 64, 256, 256), 8, 2, {90: 1, 100: 1})
BULK_FEW_NARROW = Configuration((64, 64, 64, 64), 4, 3, {90: 2})
BULK_FEW = Configuration((64, 64, 128, 128), 4, 2, {90: 2, 100: 2})
# Warp-specialised, sm_90: two groups of four warps compute, and four warps copy. The last two numbers are whether a
# block is persistent, and by how many powers of two a maximum may rise before sums are rescaled (0: always rescale).
SPECIALIZED_NARROW = Configuration((128, 128, 64, 64, 0, 0), 4, 2, {90: 1}, resident=12)
SPECIALIZED_HEAD = Configuration((128, 128, 128, 128, 0, 0), 4, 2, {90: 1}, resident=12)
SPECIALIZED_WIDE = Configuration((128, 64, 256, 256, 0, 0), 4, 2, {90: 1}, resident=12)
# Other forms, to be timed: more stages, rescaling on demand, persistent blocks, and a third group that computes. Three
# groups have 160 registers for each thread, which 128 keys exceed by a few.
SPECIALIZED_NARROW_FORMS = (
    Configuration((128, 128, 64, 64, 0, 0), 4, 4, {90: 1}, resident=12),
    Configuration((128, 128, 64, 64, 0, 8), 4, 4, {90: 1}, resident=12),
    Configuration((128, 128, 64, 64, 1, 0), 4, 4, {90: 1}, resident=12),
    Configuration((192, 64, 64, 64, 0, 0), 4, 6, {90: 1}, resident=16),
    Configuration((192, 64, 64, 64, 1, 0), 4, 6, {90: 1}, resident=16),
)
SPECIALIZED_HEAD_FORMS = (Configuration((128, 128, 128, 128, 1, 0), 4, 2, {90: 1}, resident=12),)
# float32 is multiplied by FFMA, whose operands share the registers with the sums.
SINGLE_NARROW = Configuration((32, 32, 64, 64), 8, 2, 1)
SINGLE = Configuration((16, 32, 128, 128), 8, 1, 1)
SINGLE_WIDE = Configuration((16, 16, 256, 256), 16, 1, 1)

FORWARD_HALF = (
    NARROW, NARROW_LONG, HEAD, HEAD_LONG, HEAD_AMPERE, WIDE, BESIDE_NARROW, UNALIGNED_NARROW, BESIDE_HEAD,
    UNALIGNED_HEAD_CARD, BESIDE_WIDE, FEW_HEAD, FEW_AMPERE,
)  # fmt: skip
FORWARD_BULK = (
    BULK_NARROW, BULK_NARROW_LONG, BULK_HEAD, BULK_HEAD_LONG, BULK_WIDE, BULK_FEW_NARROW, BULK_FEW,
)  # fmt: skip
FORWARD_SPECIALIZED = (
    SPECIALIZED_NARROW, *SPECIALIZED_NARROW_FORMS, SPECIALIZED_HEAD, *SPECIALIZED_HEAD_FORMS, SPECIALIZED_WIDE,
)  # fmt: skip
# sm_100: scores of two tiles of 128 queries and their sums are in tensor memory.
TENSOR_MEMORY_NARROW = Configuration((256, 128, 64, 64), 4, 8, {100: 1}, resident=16)
TENSOR_MEMORY_HEAD = Configuration((256, 128, 128, 128), 4, 5, {100: 1}, resident=16)
FORWARD_TENSOR_MEMORY = (TENSOR_MEMORY_NARROW, TENSOR_MEMORY_HEAD)
FORWARD_SINGLE = (SINGLE_NARROW, SINGLE, SINGLE_WIDE)

# Backward: the sums of two gradients are in registers by keys, those of one by queries. On sm_80 two blocks of four
# warps have the registers of one of eight, and one multiplies while the other is in its exponentials.
KEYS_NARROW = Configuration((64, 128, 64, 64), 8, 2, {90: 1, 100: 1})
KEYS_NARROW_AMPERE = Configuration((64, 64, 64, 64), 4, 2, {80: 1})
KEYS_HEAD = Configuration((64, 64, 128, 128), 8, 2, {90: 1, 100: 1})
KEYS_HEAD_AMPERE = Configuration((32, 64, 128, 128), 4, 2, {80: 2, 86: 1})
KEYS_BESIDE = Configuration((32, 64, 128, 128), 8, 2, 1)
KEYS_BESIDE_CARD = Configuration((16, 64, 64, 64), 8, 2, {86: 1})
KEYS_WIDE = Configuration((32, 64, 256, 256), 8, 2, 1)
KEYS_WIDE_BESIDE = Configuration((16, 64, 256, 256), 8, 2, 1)
# Warp-specialised, sm_90.
KEYS_SPECIALIZED_NARROW = Configuration((64, 128, 64, 64), 4, 3, {90: 1}, resident=12)
KEYS_SPECIALIZED_HEAD = Configuration((64, 128, 128, 128), 4, 3, {90: 1}, resident=12)
QUERIES_SPECIALIZED_NARROW = Configuration((128, 64, 64, 64), 4, 3, {90: 1}, resident=12)
QUERIES_SPECIALIZED_HEAD = Configuration((128, 64, 128, 128), 4, 3, {90: 1}, resident=12)
KEYS_SINGLE_NARROW = Configuration((32, 32, 64, 64), 8, 2, 1)
KEYS_SINGLE_BESIDE = Configuration((16, 32, 64, 64), 8, 2, 1)
KEYS_SINGLE = Configuration((16, 32, 128, 128), 8, 2, 1)
KEYS_SINGLE_WIDE = Configuration((16, 16, 256, 256), 8, 2, 1)
QUERIES_NARROW = Configuration((128, 64, 64, 64), 8, 2, {90: 1, 100: 1})
QUERIES_NARROW_AMPERE = Configuration((64, 64, 64, 64), 4, 2, {80: 2})
QUERIES_HEAD = Configuration((64, 64, 128, 128), 8, 2, {90: 1, 100: 1})
QUERIES_HEAD_AMPERE = Configuration((64, 32, 128, 128), 4, 3, {80: 2, 86: 1})
QUERIES_BESIDE = Configuration((64, 32, 128, 128), 8, 2, 1, all_registers=CARDS)
QUERIES_WIDE = Configuration((64, 32, 256, 256), 8, 2, 1)
QUERIES_WIDE_BESIDE = Configuration((64, 16, 256, 256), 8, 2, {80: 1, 90: 1})
QUERIES_SINGLE_NARROW = Configuration((16, 16, 64, 64), 8, 2, 1)
QUERIES_SINGLE = Configuration((16, 16, 128, 128), 16, 2, 1)
QUERIES_SINGLE_WIDE = Configuration((16, 16, 256, 256), 8, 2, 1, all_registers=True)
KEYS_SPECIALIZED = (KEYS_SPECIALIZED_NARROW, KEYS_SPECIALIZED_HEAD)
QUERIES_SPECIALIZED = (QUERIES_SPECIALIZED_NARROW, QUERIES_SPECIALIZED_HEAD)

KEYS_HALF = (
    KEYS_NARROW,
    KEYS_NARROW_AMPERE,
    KEYS_HEAD,
    KEYS_HEAD_AMPERE,
    KEYS_BESIDE,
    KEYS_BESIDE_CARD,
    KEYS_WIDE,
    KEYS_WIDE_BESIDE,
)
KEYS_SINGLES = (KEYS_SINGLE_NARROW, KEYS_SINGLE_BESIDE, KEYS_SINGLE, KEYS_SINGLE_WIDE)
QUERIES_HALF = (
    QUERIES_NARROW,
    QUERIES_NARROW_AMPERE,
    QUERIES_HEAD,
    QUERIES_HEAD_AMPERE,
    QUERIES_BESIDE,
    QUERIES_WIDE,
    QUERIES_WIDE_BESIDE,
)
QUERIES_SINGLES = (QUERIES_SINGLE_NARROW, QUERIES_SINGLE, QUERIES_SINGLE_WIDE)

# Variable lengths: the bounds of a sequence and a window's edges take registers, as masks and dropout do.
VARLEN_HEAD = Configuration((64, 32, 128, 128), 4, 2, {90: 1, 100: 1})
VARLEN_HEAD_AMPERE = Configuration((64, 32, 128, 128), 8, 2, {80: 1})
VARLEN_WIDE = Configuration((64, 32, 256, 256), 8, 2, {80: 1, 90: 1})
VARLEN_WIDE_BLACKWELL = Configuration((64, 64, 256, 256), 8, 2, {100: 1})
VARLEN_FORWARD = (BESIDE_NARROW, VARLEN_HEAD, VARLEN_HEAD_AMPERE, VARLEN_WIDE, VARLEN_WIDE_BLACKWELL)
VARLEN_KEYS = (KEYS_BESIDE, KEYS_WIDE_BESIDE)
VARLEN_QUERIES_WIDE = Configuration((64, 32, 256, 256), 8, 2, {100: 1})
VARLEN_QUERIES_NARROW = Configuration((128, 64, 64, 64), 8, 2, {80: 1, 90: 1})
VARLEN_QUERIES_NARROW_BLACKWELL = Configuration((64, 64, 64, 64), 8, 2, {100: 1})
VARLEN_QUERIES = (
    VARLEN_QUERIES_NARROW,
    VARLEN_QUERIES_NARROW_BLACKWELL,
    QUERIES_BESIDE,
    QUERIES_WIDE_BESIDE,
    VARLEN_QUERIES_WIDE,
)


def _interpreted(head: int, rows: int, columns: int) -> Configuration:
    block_m, block_n = (
        min(max(next_power_of_2(n), MIN_TILE_SIZE), INTERPRETED_TILE) for n in (rows, columns)
    )
    return Configuration((block_m, block_n, head, head), 4, 1)


def _design(device: Device) -> int:
    return driver().properties(device.resolved_index).design


ROOM = 104 * 1024
"""Bytes of shared memory that the larger tiles of a head of 256 take. Devices with less for a block (99 KiB on
sm_86, sm_89 and sm_120) use the tiles that leave room for masks and dropout.
"""


def _has_room(device: Device) -> bool:
    return driver().properties(device.resolved_index).max_shared_memory >= ROOM


def forward_tile(
    device: Device,
    itemsize: int,
    head: int,
    rows: int,
    columns: int,
    is_causal: bool,
    beside: bool,
    is_whole: bool,
) -> Configuration:
    """Return the forward tile for heads padded to `head`; for a causal mask, the tile that wastes less of it."""
    if interpreted():
        return _interpreted(head, rows, columns)
    if itemsize == 4:
        narrow = SINGLE if beside else SINGLE_NARROW
        return narrow if head <= 64 else SINGLE if head <= 128 else SINGLE_WIDE
    if beside and head <= 64:
        return BESIDE_NARROW if is_whole else UNALIGNED_NARROW
    if beside and head <= 128:
        return BESIDE_HEAD if is_whole or _has_room(device) else UNALIGNED_HEAD_CARD
    if beside:
        return BESIDE_WIDE
    if head > 128:
        return WIDE if _has_room(device) else BESIDE_WIDE
    is_ampere = _design(device) < 90
    if rows <= (16 if is_ampere else 64):
        return FEW_AMPERE if is_ampere else BESIDE_NARROW if head <= 64 else FEW_HEAD
    if head <= 64:
        return NARROW if is_causal else NARROW_LONG
    if is_ampere:
        return HEAD_AMPERE
    return HEAD if is_causal else HEAD_LONG


def bulk_tile(device: Device, head: int, rows: int, columns: int, is_causal: bool) -> Configuration:
    """Return the forward tile with tensor descriptors, for heads padded to `head`."""
    if interpreted():
        return _interpreted(head, rows, columns)
    if head > 128:
        return BULK_WIDE
    is_hopper = _design(device) == 90
    if rows <= 64 and (is_hopper or head > 64):
        return BULK_FEW_NARROW if head <= 64 else BULK_FEW
    if head <= 64:
        return BULK_NARROW if is_causal else BULK_NARROW_LONG
    return BULK_HEAD if is_causal and is_hopper else BULK_HEAD_LONG


def specialized_tile(head: int) -> Configuration | None:
    """Return the tile of the warp-specialized forward pass for heads padded to `head`, or None for narrow heads."""
    if head < 64:
        return None
    return SPECIALIZED_NARROW if head == 64 else SPECIALIZED_HEAD if head == 128 else SPECIALIZED_WIDE


def tensor_memory_tile(head: int) -> Configuration | None:
    """Return the tile of the forward pass with scores in tensor memory, or None for unsupported heads."""
    return {64: TENSOR_MEMORY_NARROW, 128: TENSOR_MEMORY_HEAD}.get(head)


def specialized_backward_tiles(head: int) -> tuple[Configuration, Configuration] | None:
    """Return the tiles of the warp-specialized backward pass, by keys and by queries, or None for unsupported
    heads.
    """
    if head == 64:
        return KEYS_SPECIALIZED_NARROW, QUERIES_SPECIALIZED_NARROW
    return (KEYS_SPECIALIZED_HEAD, QUERIES_SPECIALIZED_HEAD) if head == 128 else None


def keys_tile(
    device: Device, itemsize: int, head: int, rows: int, columns: int, beside: bool
) -> Configuration:
    """Return the tile of the backward pass by keys."""
    if interpreted():
        return _interpreted(head, rows, columns)
    if itemsize == 4:
        narrow = KEYS_SINGLE_BESIDE if beside else KEYS_SINGLE_NARROW
        return narrow if head <= 64 else KEYS_SINGLE if head <= 128 else KEYS_SINGLE_WIDE
    if head > 128:
        return KEYS_WIDE_BESIDE if beside or not _has_room(device) else KEYS_WIDE
    if beside:
        return KEYS_BESIDE_CARD if head <= 64 and not _has_room(device) else KEYS_BESIDE
    design = _design(device)
    if head > 64:
        return KEYS_HEAD if design >= 90 else KEYS_HEAD_AMPERE
    return KEYS_NARROW if design >= 90 else KEYS_NARROW_AMPERE


def queries_tile(
    device: Device, itemsize: int, head: int, rows: int, columns: int, beside: bool
) -> Configuration:
    """Return the tile of the backward pass by queries."""
    if interpreted():
        return _interpreted(head, rows, columns)
    if itemsize == 4:
        return QUERIES_SINGLE_NARROW if head <= 64 else QUERIES_SINGLE if head <= 128 else QUERIES_SINGLE_WIDE
    if head > 128:
        # The compiler for sm_100 spills a few values of the smaller tile to stay at 128 registers.
        smaller = beside or not _has_room(device)
        return QUERIES_WIDE_BESIDE if smaller and _design(device) < 100 else QUERIES_WIDE
    if beside:
        return QUERIES_BESIDE
    if _design(device) < 90:
        return QUERIES_NARROW_AMPERE if head <= 64 else QUERIES_HEAD_AMPERE
    return QUERIES_NARROW if head <= 64 else QUERIES_HEAD


def varlen_tile(
    device: Device, candidates: tuple[Configuration, ...], head: int, rows: int, columns: int
) -> Configuration:
    """Return the first candidate that the device supports and whose head holds the padded `head`."""
    if interpreted():
        return _interpreted(head, rows, columns)
    # Targets without tiles of their own take those of the design that they share.
    design = _design(device)
    return next(tile for tile in candidates if tile.tile[2] >= head and tile.is_for(design))
