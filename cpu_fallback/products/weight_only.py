"""Products with weights of 8 and 4 bits, which are widened to float32 a block of rows at a time, in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.iterator.parallel import parallel_for
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from ..workspace import borrow, give_back

BLOCK = 1 << 18
"""Elements of a weight that are widened at a time: a megabyte of float32."""
SHARED_FROM = 1 << 20
"""Elements of a weight from which another thread takes blocks."""
FEW_ROWS = 16
"""Rows of activations up to which a group's sums take the scale, not its weights."""
PACKED_ROWS = 64
"""Rows of a block of a packed weight."""


def over_blocks(blocks: int, elements: int, work: Callable[[int, int], None]) -> None:
    """``work(first, last)`` over blocks, on several threads where the weight has many elements."""
    parallel_for(0, blocks, 1 if elements >= SHARED_FROM else blocks, work)


def weight_int8pack_mm(call: StructuredCall) -> PlannedKernel:
    """Each block of the weight's rows as float32, and its product times the scales."""
    weight = call.args["mat2"]
    n, k = weight.sizes
    rows = min(max(BLOCK // max(k, 1), 1), n)
    values = None
    if weight.dtype.name != "int8":
        # Looked up: a cast of ml_dtypes takes each element through a function.
        values = np.arange(256, dtype=np.uint8).view(weight.dtype.np).astype(np.float32)

    @quietly
    def into(out: Any, x: Any, w: Any, scales: Any) -> None:
        x, scales = x.astype(np.float32, copy=False), scales.astype(np.float32, copy=False)

        def work(first: int, last: int) -> None:
            room = borrow(4 * rows * k)
            wide = room[: 4 * rows * k].view(np.float32).reshape(rows, k)
            for start in range(first * rows, min(last * rows, n), rows):
                part = slice(start, min(start + rows, n))
                block = wide[: part.stop - start]
                if values is None:
                    np.copyto(block, w[part])
                else:
                    np.take(values, w[part].view(np.uint8), out=block, mode="clip")
                made = np.dot(x, block.T)
                made *= scales[part]
                np.copyto(out[:, part], made, casting="unsafe")
            give_back(room)

        over_blocks(-(-n // rows) if n else 0, n * k * max(len(x), 1), work)

    return PlannedKernel(into)


class GroupedProduct:
    """``out = x @ ((weight - 8) * scale + zero)`` with a scale and a zero for each group of columns.

    Args:
        group: how many columns share them.
    """

    def __init__(self, group: int) -> None:
        self.group = group

    def __call__(self, x: Any, weight: Any, scale: Any, zero: Any) -> Any:
        """(m, n) of `x` (m, k), integers less 8 (k, n) in float32, which are overwritten, and (k / group, n) each."""
        groups = len(scale)
        if len(x) > FEW_ROWS:
            weight = weight.reshape(groups, self.group, -1)
            weight *= scale[:, None]
            weight += zero[:, None]
            return np.dot(x, weight.reshape(groups * self.group, -1))
        parts = x.reshape(len(x), groups, self.group).transpose(1, 0, 2)
        sums = np.matmul(parts, weight.reshape(groups, self.group, -1))
        sums *= scale[:, None]
        sums += parts.sum(2)[:, :, None] * zero[:, None]
        return sums.sum(0)


def weight_int4pack_mm_for_cpu(call: StructuredCall) -> PlannedKernel:
    """Blocks of 64 rows, whose bytes each hold two."""
    n, half = call.args["mat2"].sizes
    k = 2 * half
    product = GroupedProduct(call.args["qGroupSize"])
    blocks = -(-n // PACKED_ROWS)

    @quietly
    def into(out: Any, x: Any, w: Any, scale_and_zero: Any) -> None:
        x = x.astype(np.float32, copy=False)
        packed = w.reshape(-1)

        def work(first: int, last: int) -> None:
            for start in range(first * PACKED_ROWS, min(last * PACKED_ROWS, n), PACKED_ROWS):
                part = slice(start, min(start + PACKED_ROWS, n))
                size = part.stop - start
                pairs = packed[start * half : part.stop * half].reshape(k, size // 2)
                integers = np.empty((k, 2, size // 2), np.int8)
                np.bitwise_and(pairs, 15, out=integers[:, 0].view(np.uint8))
                np.right_shift(pairs, 4, out=integers[:, 1].view(np.uint8))
                integers -= 8
                wide = integers.astype(np.float32).reshape(k, size)
                numbers = scale_and_zero[:, part].astype(np.float32)
                if size < PACKED_ROWS:  # neighbours share a byte: even rows, then odd ones
                    numbers = np.concatenate([numbers[:, ::2], numbers[:, 1::2]], 1)
                made = product(x, wide, numbers[..., 0], numbers[..., 1])
                if size < PACKED_ROWS:
                    halves = made.reshape(len(x), 2, size // 2).transpose(0, 2, 1)
                    made = halves.reshape(len(x), size)
                np.copyto(out[:, part], made, casting="unsafe")

        over_blocks(blocks, n * k * max(len(x), 1), work)

    return PlannedKernel(into)


def weight_int4pack_mm(call: StructuredCall) -> PlannedKernel:
    """Tiles of eight rows, whose words each hold eight columns of a row."""
    tiles, outer, _, words = call.args["mat2"].sizes
    k = outer * words * 32
    product = GroupedProduct(call.args["qGroupSize"])
    at_once = max(BLOCK // max(8 * k, 1), 1)
    shifts = np.arange(0, 32, 4, dtype=np.uint32).reshape(2, 4)

    @quietly
    def into(out: Any, x: Any, w: Any, scale_and_zero: Any) -> None:
        x = x.astype(np.float32, copy=False)

        def work(first: int, last: int) -> None:
            for start in range(first * at_once, min(last * at_once, tiles), at_once):
                part = w[start : start + at_once].view(np.uint32)
                count = len(part)
                # (tile, outer, row, lane, word, pair, eight columns) to columns before rows.
                lanes = part.reshape(count, outer, 8, 4, words)[..., None, None] >> shifts & np.uint32(15)
                lanes = lanes.transpose(1, 4, 6, 3, 5, 0, 2)
                wide = np.subtract(lanes, 8, dtype=np.float32, casting="unsafe").reshape(k, 8 * count)
                columns = slice(8 * start, 8 * (start + count))
                numbers = scale_and_zero[:, columns].astype(np.float32)
                made = product(x, wide, numbers[..., 0], numbers[..., 1])
                np.copyto(out[:, columns], made, casting="unsafe")

        over_blocks(-(-tiles // at_once), 8 * tiles * k * max(len(x), 1), work)

    return PlannedKernel(into)


register_stub("_weight_int8pack_mm_stub", "cpu", weight_int8pack_mm)
register_stub("_weight_int4pack_mm_stub", "cpu", weight_int4pack_mm)
register_stub("_weight_int4pack_mm_for_cpu_stub", "cpu", weight_int4pack_mm_for_cpu)
