"""Warp-level instructions: shuffles, and matmuls whose operands are distributed over the threads.

Source: NVIDIA, PTX ISA 8.8, "Parallel Synchronization and Communication Instructions" and "Warp Level Matrix
Instructions" (the figures that show which thread has which element).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arithmetic import CANONICAL, bf2, f2, f4, f8, i1, i4, u1, u2, u4, u8

Array = np.ndarray[Any, Any]

LANE_IDS = np.arange(32)
GROUP, PLACE = LANE_IDS // 4, LANE_IDS % 4
"""Row of a thread in a tile of eight rows, and its place among the four threads of the row."""


def shuffle_source(mode: str, lane: Array, clamp: Array) -> tuple[Array, Array]:
    """Return the source lane of each thread (warps, 32), and whether `clamp` allows it."""
    lane, clamp = lane.astype(np.int64), clamp.astype(np.int64)
    segment, bound = (clamp >> 8) & 31, clamp & 31
    highest = (LANE_IDS & segment) | (bound & ~segment & 31)
    lowest = LANE_IDS & segment
    lane = lane & 31
    if mode == "up":
        source = LANE_IDS - lane
        inside = source >= highest
    else:
        source = {"down": LANE_IDS + lane, "bfly": LANE_IDS ^ lane}.get(mode, lowest | (lane & ~segment & 31))
        inside = source <= highest
    return np.where(inside, source, np.broadcast_to(LANE_IDS, source.shape)), inside


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add.reduce,
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}

_ELEMENTS: dict[str, tuple[Any, int]] = {
    "bf16": (bf2, 2),
    "f16": (f2, 2),
    "tf32": (f4, 1),
    "f32": (f4, 1),
    "f64": (f8, 1),
    "s8": (i1, 4),
    "u8": (u1, 4),
    "s32": (i4, 1),
    "e4m3": (None, 4),
    "e5m2": (None, 4),
}


def _elements(register: Any, type_name: str) -> Any:
    """Return the elements of a register (warps, 32, elements), wide enough to be multiplied exactly."""
    dtype, count = _ELEMENTS[type_name]
    if type_name == "f64":
        return register.view(f8)[:, :, None]
    if type_name == "tf32":  # the lower bits are ignored
        return (register & u4(0xFFFFE000)).view(f4).astype(f8)[:, :, None]
    if count == 1:
        return register.view(dtype).astype(f8 if dtype is f4 else np.int64)[:, :, None]
    if dtype is None:
        import ml_dtypes

        dtype = ml_dtypes.float8_e4m3fn if type_name == "e4m3" else ml_dtypes.float8_e5m2
    bits = 32 // count
    parts = [(register >> u4(bits * i)) & u4((1 << bits) - 1) for i in range(count)]
    narrow = {8: u1, 16: u2}[bits]
    stacked = np.stack([part.astype(narrow).view(dtype) for part in parts], 2)
    return stacked.astype(np.int64 if np.dtype(dtype).kind in "iu" else f8)


def multiply(
    shape: str, types: Sequence[str], a: Sequence[Array], b: Sequence[Array], c: Sequence[Array]
) -> list[Array]:
    """Execute ``mma.sync``: ``a @ b + c`` over tiles distributed over the registers (warps, 32) of a warp.

    The matmul is exact and accumulated in double precision, and the sum is rounded once to the result type. Tensor
    cores add in an order, and drop bits, that NVIDIA does not document. Results agree up to the rounding of the
    accumulator type, but are not bitwise identical. Integers wrap.
    """
    rows, columns, depth = (
        int(part) for part in shape.replace("m", "").replace("n", " ").replace("k", " ").split()
    )
    d_type, a_type, b_type, c_type = types
    warps = a[0].shape[0]
    exact = np.int64 if a_type in ("s8", "u8") else f8
    left = np.zeros((warps, rows, depth), exact)
    right = np.zeros((warps, depth, columns), exact)
    per = _ELEMENTS[a_type][1]
    for i, register in enumerate(a):
        values = _elements(register, a_type)
        row, far = (GROUP + 8 * (i % 2), i // 2) if rows == 16 else (GROUP, i)
        for j in range(per):
            left[:, row, PLACE * per + far * 4 * per + j] = values[:, :, j]
    for i, register in enumerate(b):
        values = _elements(register, b_type)
        for j in range(per):
            right[:, PLACE * per + i * 4 * per + j, GROUP] = values[:, :, j]
    total = left @ right
    pairs = c_type in ("f16",)
    accumulator_indices = _accumulators(len(c), rows, pairs)
    for register, where in zip(c, accumulator_indices, strict=True):
        values = _elements(register, c_type)
        for j, (row, column) in enumerate(where):
            total[:, row, column] += values[:, :, j]
    results = []
    for where in _accumulators(len(c) if d_type == c_type else 4, rows, d_type == "f16"):
        accumulated = [total[:, row, column] for row, column in where]
        if d_type == "f16":
            low, high = (_rounded(part, f2).view(u2).astype(u4) for part in accumulated)
            results.append(low | (high << u4(16)))
        elif d_type == "s32":
            results.append(accumulated[0].astype(np.int64).astype(i4).view(u4))
        elif d_type == "f64":
            results.append(accumulated[0].view(u8))
        else:
            results.append(_rounded(accumulated[0], f4).view(u4))
    return results


def _rounded(value: Any, kind: Any) -> Any:
    result = value.astype(kind)
    nan = result != result
    return np.where(nan, CANONICAL[kind], result) if nan.any() else result


def _accumulators(count: int, rows: int, pairs: bool) -> list[list[tuple[Array, Array]]]:
    """Return the (row, column) of each element of each accumulator register, by lane."""
    if pairs:
        return [[(GROUP + 8 * i, 2 * PLACE + j) for j in range(2)] for i in range(count)]
    step = 8 if rows == 16 else 0
    return [[(GROUP + step * (i // 2), 2 * PLACE + i % 2)] for i in range(count)]


def spread_rows(tiles: Array, transposed: bool) -> Array:
    """Distribute 8x8 tiles of 16-bit numbers (warps, 8, 8): each thread gets two of a row, packed (``ldmatrix``)."""
    first, second = 2 * PLACE, 2 * PLACE + 1
    if transposed:
        low, high = tiles[:, first, GROUP], tiles[:, second, GROUP]
    else:
        low, high = tiles[:, GROUP, first], tiles[:, GROUP, second]
    return low.astype(u4) | (high.astype(u4) << u4(16))


def gathered_rows(register: Array, transposed: bool) -> Array:
    """Collect the 8x8 tiles of 16-bit numbers of which each thread has two, packed (``stmatrix``)."""
    tiles = np.zeros((register.shape[0], 8, 8), u2)
    low, high = (register & u4(0xFFFF)).astype(u2), (register >> u4(16)).astype(u2)
    if transposed:
        tiles[:, 2 * PLACE, GROUP], tiles[:, 2 * PLACE + 1, GROUP] = low, high
    else:
        tiles[:, GROUP, 2 * PLACE], tiles[:, GROUP, 2 * PLACE + 1] = low, high
    return tiles
