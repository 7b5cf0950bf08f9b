"""Dispatch to the matmul kernel with sums in tensor memory: the calls that it serves, and its launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...dispatch.structured import choices
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_gluon import is_supported, shared_descriptor
from ..budget import Configuration
from ..launch import Launch, cdiv, integer_type
from .problem import DIVISOR, Problem, multiprocessors
from .product import stride_arguments
from .tensor_memory_kernels import TILES, matmul_tensor_memory
from .warp_specialized import MIN_WAVES, refused, tiles_in

if TYPE_CHECKING:
    from .bulk import Description

DESIGN = 100
"""The design of devices that have tensor memory; see `DeviceProperties.design`."""
KERNEL = matmul_tensor_memory
ACCUMULATOR_ROWS = 128
"""Rows of a matmul's accumulator in tensor memory."""
LOAD_COST = 80.0
"""Cost of an operand's element relative to one of its multiply-adds: twice that of `tile_cost`, since multiply-adds
take half of their time on sm_90. A guess, until tables are measured.
"""
WIDEST_PART = 64
"""Columns of a tile that a warp of the epilogue holds at a time, as many registers of a thread."""


def places_taken(configuration: Configuration, problem: Problem) -> int:
    """Return how many times a slot in tensor memory is filled: once for `ACCUMULATOR_ROWS` rows of a tile."""
    return tiles_in(configuration, problem) * configuration.tile[0] // ACCUMULATOR_ROWS


def cost(configuration: Configuration, tiles: int, inner: int, num_multiprocessors: int) -> float:
    """Return the cost of tiles in multiply-adds of a slot; most epilogues overlap other tiles' matmuls."""
    rows, columns = configuration.tile[:2]
    return cdiv(tiles, num_multiprocessors) * inner * (rows * columns + LOAD_COST * (rows + columns))


def tile_of(problem: Problem, left: Description, right: Description) -> Configuration | None:
    """Its tile by rule for a product that tensor maps describe wholly; None where it does not serve it."""
    if not driver().has_gluon:
        return refused("the driver has no Gluon")
    if not is_supported():
        return refused("this Triton's Gluon is an older one")
    itemsize = problem.left.dtype.itemsize
    if itemsize == 4 and (left.transposed or not right.transposed):
        return refused("elements of 32 bits must adjoin along the inner side")
    num_multiprocessors = multiprocessors(problem.device)
    served = [
        candidate
        for candidate in TILES[itemsize]
        if places_taken(candidate, problem) >= MIN_WAVES * num_multiprocessors
    ]
    if not served:
        return refused("{} tiles are no two waves", places_taken(TILES[itemsize][-1], problem))
    return min(served, key=lambda one: cost(one, tiles_in(one, problem), problem.k, num_multiprocessors))


def plan(
    problem: Problem, chosen: Configuration, left: Description, right: Description, out: Description
) -> Callable[..., None]:
    """Return ``launch(a, b, [addend,] out, *scales)`` of a product that `tile_of` has a tile for; an addend is a row.

    With a fused epilogue `out` is its first result, and its addresses come before the scales.
    """
    choices.chosen(
        "sums in tensor memory", "there are {} tiles, and the device has tcgen05", tiles_in(chosen, problem)
    )
    block_m, block_n, block_k = chosen.tile
    element, right_element, out_element = (
        each.dtype.triton_name for each in (problem.left, problem.right, problem.out)
    )
    assert element is not None and right_element is not None and out_element is not None
    a_block = (block_k, ACCUMULATOR_ROWS) if left.transposed else (ACCUMULATOR_ROWS, block_k)
    b_block = (block_n, block_k) if right.transposed else (block_k, block_n)
    addend, fused = problem.epilogue.addend, problem.epilogue.fused
    # A second tile takes as many registers as the stored one.
    widest = WIDEST_PART if fused is None or fused.tiles < 2 else WIDEST_PART // 2
    part = min(widest, 128 // problem.out.dtype.itemsize)
    kernel = matmul_tensor_memory if fused is None else fused.kernel("tensor_memory")
    strides = {"sz": 0, "sn": 0} if addend is None else {"sz": addend.strides[0], "sn": addend.strides[2]}
    reach = (problem.n + block_n) * strides["sn"]
    signature, constants, values, divisible = stride_arguments(
        strides, integer_type(2 * reach, *strides.values())
    )
    passed, fixed = problem.epilogue.signature()
    scales, kinds = problem.epilogue.scale_arguments(problem.saturates)
    sizes = {"m": problem.m, "n": problem.n, "k": problem.k, "batches": problem.batch}
    every = {
        "a": shared_descriptor(element, 1, *a_block),
        "b": shared_descriptor(right_element, 1, *b_block),
        "out": shared_descriptor(out_element, 1, ACCUMULATOR_ROWS, part),
        **dict.fromkeys(sizes, "i32"),
        **signature,
        **passed,
        **scales,
        **({} if fused is None else fused.pointers),
    }
    if addend is None:
        constants["addend"] = None
    else:
        every["addend"] = f"*{addend.dtype.triton_name}"
    launch = Launch(
        problem.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **constants,
            **fixed,
            **kinds,
            "ADDEND": addend is not None,
            "A_BATCHED": left.batched,
            "B_BATCHED": right.batched,
            "A_TRANSPOSED": left.transposed,
            "B_TRANSPOSED": right.transposed,
            "ACTIVATION": problem.epilogue.activation,
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_K": block_k,
            "STAGES": chosen.stages,
        },
        divisible=divisible if fused is None else [*divisible, *(s for s in "mn" if sizes[s] % DIVISOR == 0)],
        elements=tuple(scales) if fused is None else fused.elements,
        tensors=[left.tensor, right.tensor, out.tensor],
        num_warps=chosen.warps,
        num_stages=chosen.stages,
    )
    grid = (min(tiles_in(chosen, problem), multiprocessors(problem.device)), 1, 1)
    values_by_name = {**sizes, **values}
    numbers = tuple(values_by_name[name] for name in kernel.arg_names if name in values_by_name)
    pointers = 3 + problem.epilogue.pointers

    def run(*arguments: int | float) -> None:
        launch(grid, *arguments[:pointers], *numbers, *arguments[pointers:])

    return run
