"""Dispatch to the warp-specialized matmul kernel: the calls that it serves, and its launch."""

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
from .tile_cost import cost
from .warp_specialized_kernels import TILES, matmul_warp_specialized

if TYPE_CHECKING:
    from .bulk import Description

DESIGN = 90
"""The design of devices whose products it is written for, ``wgmma``; see `DeviceProperties.design`."""
KERNEL = matmul_warp_specialized
STORED_BYTES = 128
"""Bytes of a line that are stored together, the widest that shared memory is swizzled by."""
MIN_WAVES = 2
"""Minimum tiles for each multiprocessor: with fewer there is no next tile to load or multiply during a store."""


def tiles_in(configuration: Configuration, problem: Problem) -> int:
    """Return the number of tiles that cover the results of all batches."""
    return cdiv(problem.m, configuration.tile[0]) * cdiv(problem.n, configuration.tile[1]) * problem.batch


def refused(why: str, *values: object) -> None:
    """Tell why a product is not warp-specialised."""
    choices.chosen("not warp-specialised", why, *values)


def tile_of(problem: Problem, left: Description, right: Description) -> Configuration | None:
    """Its tile by rule for a product that tensor maps describe wholly; None where it does not serve it."""
    if not driver().has_gluon:
        return refused("the driver has no Gluon")
    if not is_supported():
        return refused("this Triton's Gluon is an older one")
    itemsize = problem.left.dtype.itemsize
    tiles = TILES.get(itemsize)
    if tiles is None or problem.out.dtype.itemsize != itemsize:
        return refused("operands and result do not both have 16 bits or 32")
    if itemsize == 4 and (left.transposed or not right.transposed):
        return refused("elements of 32 bits must adjoin along the inner side")
    num_multiprocessors = multiprocessors(problem.device)
    served = [
        candidate for candidate in tiles if tiles_in(candidate, problem) >= MIN_WAVES * num_multiprocessors
    ]
    if not served:
        return refused("{} tiles are no two waves", tiles_in(tiles[-1], problem))
    return min(served, key=lambda one: cost(one, tiles_in(one, problem), problem.k, num_multiprocessors))


def plan(
    problem: Problem, chosen: Configuration, left: Description, right: Description, out: Description
) -> Callable[..., None]:
    """Return ``launch(a, b, [addend,] out, *scales)`` of a product that `tile_of` has a tile for; an addend is a row.

    With a fused epilogue `out` is its first result, and its addresses come before the scales.
    """
    choices.chosen(
        "warp-specialised", "there are {} tiles, and the device has wgmma", tiles_in(chosen, problem)
    )
    block_m, block_n, block_k = chosen.tile
    element, out_element = problem.left.dtype.triton_name, problem.out.dtype.triton_name
    assert element is not None and out_element is not None
    rows = block_m // 2
    blocks = {
        "a": (block_k, rows) if left.transposed else (rows, block_k),
        "b": (block_n, block_k) if right.transposed else (block_k, block_n),
    }
    addend, fused = problem.epilogue.addend, problem.epilogue.fused
    kernel = matmul_warp_specialized if fused is None else fused.kernel("warp_specialized")
    strides = {"sz": 0, "sn": 0} if addend is None else {"sz": addend.strides[0], "sn": addend.strides[2]}
    reach = (problem.n + block_n) * strides["sn"]
    signature, constants, values, divisible = stride_arguments(
        strides, integer_type(2 * reach, *strides.values())
    )
    passed, fixed = problem.epilogue.signature()
    sizes = {"m": problem.m, "n": problem.n, "k": problem.k, "batches": problem.batch}
    every = {
        **{name: shared_descriptor(element, 1, *block) for name, block in blocks.items()},
        "out": shared_descriptor(out_element, 1, rows, STORED_BYTES // problem.out.dtype.itemsize),
        **dict.fromkeys(sizes, "i32"),
        **signature,
        **passed,
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
        elements=() if fused is None else fused.elements,
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
