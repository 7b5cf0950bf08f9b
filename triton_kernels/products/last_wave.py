"""Matmuls whose tiles do not fill whole waves: the rows or columns of the last wave are a separate matmul.

Its tiles are smaller, or use split-K, so that they fill multiprocessors that would otherwise idle. Its sums
accumulate in the order of a matmul of these rows or columns alone.

Source: Osama et al., "Stream-K" (2023), section 2, of quantisation into waves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..budget import Configuration
from ..launch import cdiv
from .problem import Matrices, Problem

LAUNCH_COST = 1.0e7
"""Cost of another launch in multiply-adds of a slot: 4 us of a multiprocessor of H100 at its published rate (989
TFLOP/s in 132 of them, two thirds of it reached). A guess, until it is measured.
"""
MIN_GAIN = 0.04
"""The share of a product's cost that a cut must save: less is within what the guesses of costs are off by."""

Cost = Callable[[Configuration, int, int, int], float]


@dataclass(frozen=True)
class Cut:
    """Cut of a matmul before row or column `start` (`side` 1 or 2), a multiple of a tile's side.

    `cost` is that of both parts, in multiply-adds of a resident slot.
    """

    side: int
    start: int
    cost: float


def tiles_of(configuration: Configuration, sizes: Sequence[int]) -> int:
    """Return the number of tiles that cover a batch of results."""
    return sizes[0] * cdiv(sizes[1], configuration.tile[0]) * cdiv(sizes[2], configuration.tile[1])


def cheapest(
    candidates: Sequence[Configuration],
    sizes: Sequence[int],
    inner: int,
    num_multiprocessors: int,
    cost: Cost,
) -> float:
    """Return the cost of a matmul with its best tile."""
    return min(
        cost(candidate, tiles_of(candidate, sizes), inner, num_multiprocessors) for candidate in candidates
    )


def best_cut(
    sizes: tuple[int, int, int],
    inner: int,
    num_multiprocessors: int,
    candidates: Sequence[Configuration],
    resident: Callable[[Configuration], int],
    cost: Cost,
) -> Cut | None:
    """Return the cut whose parts cost least, if that saves `MIN_GAIN` of the whole's cost, or None.

    Args:
        sizes: the batch, rows and columns of the result.
        inner: Number of multiply-adds of each element.
        num_multiprocessors: Multiprocessors of the device.
        candidates: Tiles to choose from, for each part separately.
        resident: Number of blocks of a configuration on a multiprocessor.
        cost: that of so many tiles.
    """
    best: Cut | None = None
    least = (1 - MIN_GAIN) * cheapest(candidates, sizes, inner, num_multiprocessors, cost)
    for candidate in candidates:
        tiles, wave = tiles_of(candidate, sizes), num_multiprocessors * resident(candidate)
        for side in (1, 2):
            lines = cdiv(sizes[side], candidate.tile[side - 1])
            num_lines = tiles // wave * wave * lines // tiles
            if not 0 < num_lines < lines:
                continue
            start = num_lines * candidate.tile[side - 1]
            parts = [list(sizes), list(sizes)]
            parts[0][side], parts[1][side] = start, sizes[side] - start
            total = LAUNCH_COST + cost(candidate, tiles_of(candidate, parts[0]), inner, num_multiprocessors)
            total += cheapest(candidates, parts[1], inner, num_multiprocessors, cost)
            if total < least:
                best, least = Cut(side, start, total), total
    return best


def part_of(problem: Problem, cut: Cut, first: bool) -> tuple[Problem, tuple[int, int, int, int]]:
    """Return a part of the matmul, and the byte offsets of its a, b, addend and out."""
    side = cut.side
    start, size = (0, cut.start) if first else (cut.start, problem.out.sizes[side] - cut.start)

    def cropped(matrices: Matrices) -> Matrices:
        sizes = list(matrices.sizes)
        sizes[side] = size
        return replace(matrices, sizes=tuple(sizes))

    def offset(matrices: Matrices) -> int:
        return start * matrices.strides[side] * matrices.dtype.itemsize

    addend = problem.epilogue.addend
    left, right = problem.left, problem.right
    offsets = (
        offset(left) if side == 1 else 0,
        offset(right) if side == 2 else 0,
        0 if addend is None else offset(addend),
        offset(problem.out),
    )
    part = replace(
        problem,
        left=cropped(left) if side == 1 else left,
        right=cropped(right) if side == 2 else right,
        out=cropped(problem.out),
        epilogue=problem.epilogue if addend is None else replace(problem.epilogue, addend=cropped(addend)),
    )
    return part, offsets


def in_two(
    problem: Problem, cut: Cut, plan: Callable[[Problem], Callable[..., None] | None]
) -> Callable[..., None] | None:
    """``launch(a, b, [addend,] out, *scales)`` of both parts, as `plan` plans each; None where it refuses one."""
    parts = [part_of(problem, cut, first) for first in (True, False)]
    first, second = (plan(part) for part, _ in parts)
    if first is None or second is None:
        return None
    ahead, behind = first, second
    addend = problem.epilogue.addend is not None
    a, b, c, d = parts[1][1]

    def run(left: int, right: int, *rest: int) -> None:
        ahead(left, right, *rest)
        if addend:
            behind(left + a, right + b, rest[0] + c, rest[1] + d, *rest[2:])
        else:
            behind(left + a, right + b, rest[0] + d, *rest[1:])

    return run
