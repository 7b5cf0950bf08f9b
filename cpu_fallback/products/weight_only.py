"""Products with weights of 8 and 4 bits, which are widened to float32 a block of rows at a time, in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ..plain_numpy import np

BLOCK = 1 << 18
"""Elements of a weight that are widened at a time: a megabyte of float32."""
SHARED_FROM = 1 << 20
"""Elements of a weight from which another thread takes blocks."""
FEW_ROWS = 16
"""Rows of activations up to which a group's sums take the scale, not its weights."""
PACKED_ROWS = 64
"""Rows of a block of a packed weight."""
PACKED_BLOCK = 1 << 19
"""Elements of a packed weight that are widened at a time."""


def over_blocks(blocks: int, elements: int, work: Callable[[int, int], None]) -> None:
    """Call ``work(first, last)`` over blocks, on several threads if the weight is large."""
    parallel_for(0, blocks, 1 if elements >= SHARED_FROM else blocks, work)


def weight_int8pack_mm(call: StructuredCall) -> PlannedKernel:
    """Convert each block of the weight's rows to float32, multiply, and apply the scales."""
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
        """Multiply `x` by several weights at once.

        Args:
            x: (m, k).
            weight: Integers less 8 in float32, (2, blocks, k, n), which are overwritten.
            scale: (2, blocks, k / group, n).
            zero: Of the same shape.

        Returns:
            (2, blocks, m, n)
        """
        halves, blocks, groups, n = scale.shape
        grouped = weight.reshape(halves, blocks, groups, self.group, n)
        if len(x) > FEW_ROWS:
            grouped *= scale[..., None, :]
            grouped += zero[..., None, :]
            # One product with all of them, whose columns lie side by side.
            flat = weight.transpose(2, 1, 0, 3).reshape(groups * self.group, blocks * halves * n)
            return np.dot(x, flat).reshape(len(x), blocks, halves, n).transpose(2, 1, 0, 3)
        parts = x.reshape(len(x), groups, self.group).transpose(1, 0, 2)
        sums = np.matmul(parts, grouped)
        sums *= scale[..., None, :]
        sums += parts.sum(2)[:, :, None] * zero[..., None, :]
        return sums.sum(2)


def weight_int4pack_mm_for_cpu(call: StructuredCall) -> PlannedKernel:
    """Blocks of 64 rows, whose bytes each hold two: row j and j + 32, or neighbours in a last, smaller block."""
    n, half = call.args["mat2"].sizes
    k = 2 * half
    product = GroupedProduct(call.args["qGroupSize"])
    at_once = PACKED_ROWS * max(PACKED_BLOCK // max(PACKED_ROWS * k, 1), 1)
    whole = n // PACKED_ROWS * PACKED_ROWS
    parts = [slice(start, min(start + at_once, whole)) for start in range(0, whole, at_once)]
    parts += [slice(whole, n)] if whole < n else []

    @quietly
    def into(out: Any, x: Any, w: Any, scale_and_zero: Any) -> None:
        x = x.astype(np.float32, copy=False)
        m = len(x)

        def work(first: int, last: int) -> None:
            room = borrow(5 * k * at_once)
            for part in parts[first:last]:
                rows = part.stop - part.start
                blocks = max(rows // PACKED_ROWS, 1)
                each = rows // blocks // 2
                pairs = w[part].reshape(blocks, k, each)
                numbers = scale_and_zero[:, part].astype(np.float32)
                wide = room[: 4 * k * rows].view(np.float32)
                integers = room[4 * k * rows : 5 * k * rows].view(np.int8)
                if m > FEW_ROWS:
                    wide, integers = (
                        a.reshape(k, blocks, 2, each).transpose(2, 1, 0, 3) for a in (wide, integers)
                    )
                else:
                    # Bytes are written in long runs; skinny GEMMs are the same in either order.
                    wide, integers = (a.reshape(2, blocks, k, each) for a in (wide, integers))
                np.bitwise_and(pairs, 15, out=integers[0].view(np.uint8))
                np.right_shift(pairs, 4, out=integers[1].view(np.uint8))
                np.subtract(integers, 8, out=integers)
                np.copyto(wide, integers)
                if rows < PACKED_ROWS:
                    numbers = numbers.reshape(-1, 1, each, 2, 2).transpose(4, 3, 1, 0, 2)
                    made = product(x, wide, *numbers).transpose(2, 1, 3, 0)
                else:
                    numbers = numbers.reshape(-1, blocks, 2, each, 2).transpose(4, 2, 1, 0, 3)
                    made = product(x, wide, *numbers).transpose(2, 1, 0, 3)
                np.copyto(out[:, part], made.reshape(m, rows), casting="unsafe")
            give_back(room)

        over_blocks(len(parts), n * k * max(m, 1), work)

    return PlannedKernel(into)


def weight_int4pack_mm(call: StructuredCall) -> PlannedKernel:
    """Return tiles of eight rows, whose words each hold eight columns of a row."""
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
                made = product(x, wide[None, None], numbers[None, None, ..., 0], numbers[None, None, ..., 1])[
                    0, 0
                ]
                np.copyto(out[:, columns], made, casting="unsafe")

        over_blocks(-(-tiles // at_once), 8 * tiles * k * max(len(x), 1), work)

    return PlannedKernel(into)


register_stub("_weight_int8pack_mm_stub", "cpu", weight_int8pack_mm)
register_stub("_weight_int4pack_mm_stub", "cpu", weight_int4pack_mm)
register_stub("_weight_int4pack_mm_for_cpu_stub", "cpu", weight_int4pack_mm_for_cpu)
