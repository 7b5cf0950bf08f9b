"""Plans of convolutions in parts along K: when they are worth it, the launch, and the launch that adds the parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured import choices
from ...dispatch.structured.stub import StructuredCall
from ...runtime.allocator import get_allocator
from ..budget import Configuration
from ..launch import INT32_MAX, Launch, cdiv, interpreted
from ..products.problem import CannotFuse, Epilogue, Matrices, multiprocessors
from ..products.problem import Problem as Product
from ..products.product import accumulation
from ..products.split_k import plan_addition
from ..tuning.choice import configuration
from .bulk_parts_kernels import PARTS, convolve_bulk_parts
from .maps import Maps, block_of, block_types, tap_constants, tiles_over
from .pointwise import rows_of
from .problem import Problem
from .tile_time import parts_time, tile_time

MIN_INNER = 2304
"""Fewest multiply-adds of an output element in several parts: nine taps of 256 channels."""
WORTH_PARTS = 0.75
"""Share of the time in one part, by the model, below which parts are the default: its errors are up to a third."""


def parts_for(problem: Problem, maps: Maps, whole: Configuration) -> Configuration | None:
    """Return the configuration of a convolution in parts, or None for one part.

    Parts are the default if the model of `tile_time` clearly prefers them. Otherwise tuning may choose them.

    Args:
        problem: Convolution, not transposed or with strides of one.
        maps: Its tensor maps.
        whole: Configuration of one part.
    """
    inner, out = problem.channels * problem.window.taps, problem.out
    if problem.source.itemsize != 2 or inner < MIN_INNER or problem.phases > 1 or rows_of(out) is None:
        return None
    if out.strides[1] != 1 or problem.positions * problem.columns > INT32_MAX:
        return None
    count = multiprocessors(out.device)
    if interpreted():
        return Configuration((*whole.tile, 2), whole.warps, whole.stages, 1)
    if tiles_over(maps.positions, problem.columns, PARTS[0]) > count:
        return None

    def time(candidate: Configuration, parts: int) -> float:
        steps = cdiv(problem.channels, candidate.tile[2]) * problem.window.taps
        tiles = tiles_over(maps.positions, problem.columns, candidate) * parts
        return tile_time(candidate, tiles, cdiv(steps, parts), 2, count)

    def in_parts(candidate: Configuration) -> float:
        parts = candidate.tile[3]
        return time(candidate, parts) + parts_time(problem.positions, problem.columns, parts, count)

    takes = [each for each in PARTS if len(maps.pixels.sizes) == 4 or problem.channels % each.tile[2] == 0]
    if not takes:
        return None
    default = Configuration((*whole.tile, 1), whole.warps, whole.stages, whole.blocks)
    best = min(takes, key=in_parts)
    if in_parts(best) < WORTH_PARTS * time(whole, 1):
        default = best
    name = problem.source.dtype.triton_name
    assert name is not None
    shape = (problem.positions, problem.columns, inner)
    chosen = configuration(convolve_bulk_parts, out.device, name, shape, default)
    return chosen if chosen.tile[3] > 1 and chosen in (*takes, default) else None


def plan_parts(
    call: StructuredCall, problem: Problem, maps: Maps, chosen: Configuration
) -> Callable[..., None]:
    """Return ``run(out, source, weight, bias or None)`` of two launches: the parts' sums, and their sum.

    Raise CannotFuse for an epilogue: the launch that adds the parts has none.
    """
    if problem.fused is not None:
        raise CannotFuse("its parts are added up by another launch")
    *tile, parts = chosen.tile
    positions = maps.positions
    block = block_of(positions, tile[0])
    steps = cdiv(problem.channels, tile[2]) * problem.window.taps
    count = cdiv(steps, cdiv(steps, parts))
    tiles = tiles_over(positions, problem.columns, chosen)
    choices.chosen(
        "parts that are added up",
        "{} tiles are few for {} multiprocessors, and {} elements are summed",
        tiles,
        multiprocessors(call.device),
        problem.channels * problem.window.taps,
    )
    numbers = dict(zip(("images", "lines", "pixels"), positions, strict=True))
    numbers |= {"columns": problem.columns, "channels": problem.channels, "pitch": problem.source.strides[4]}
    launch = Launch(
        call.device,
        convolve_bulk_parts,
        {**block_types(problem, maps, chosen, block), "out": "*fp32", **dict.fromkeys(numbers, "i32")},
        {
            **tap_constants(problem.window, problem.transposed),
            "INNER": maps.inner,
            **dict(zip(("BLOCK_I", "BLOCK_H", "BLOCK_W"), block, strict=True)),
            **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K", "PARTS"), chosen.tile, strict=True)),
        },
        divisible=["columns"] if problem.columns % 16 == 0 else [],
        tensors=(maps.pixels, maps.weights),
        num_warps=chosen.warps,
        num_stages=chosen.stages,
    )
    grid, values = (tiles * count, 1, 1), tuple(numbers.values())
    add = plan_addition(as_product(call, problem), count)
    allocate, device = get_allocator("cuda").allocate, call.device
    nbytes = 4 * count * problem.positions * problem.columns

    def run(out: Any, data: Any, weight: Any, offset: Any) -> None:
        workspace = allocate(nbytes, device)
        launch(grid, data.address, weight.address, workspace.address, *values)
        if offset is None:
            add(workspace.address, out.address)
        else:
            add(workspace.address, offset.address, out.address)

    return run


def as_product(call: StructuredCall, problem: Problem) -> Product:
    """Return the matmul that the launch which adds parts sees: the output's rows, and the bias as an addend."""
    rows, bias = rows_of(problem.out), problem.bias
    assert rows is not None
    out = Matrices.of(rows)
    addend = None if bias is None else Matrices(out.sizes, (0, 0, bias.strides[0]), bias.dtype)
    left = Matrices((1, out.sizes[1], problem.channels), (0, 0, 1), problem.source.dtype)
    right = Matrices((1, problem.channels, out.sizes[2]), (0, 0, 1), problem.source.dtype)
    how = accumulation(call, problem.source)
    return Product(call.device, how, left, right, out, Epilogue(addend=addend), "ieee")
