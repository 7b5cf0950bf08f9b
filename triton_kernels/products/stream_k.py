"""Plans of Stream-K matmuls: which calls take them, the steps of each program, and the launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...dispatch.structured.choices import chosen
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_gluon import is_supported, shared_descriptor
from ...runtime.device import device as Device
from ..budget import Configuration
from ..launch import INT32_MAX, Launch, cdiv, integer_type, interpreted
from ..reduction.stream_counters import counters_of
from ..tuning.choice import configuration
from .problem import DIVISOR, CannotFuse, Problem, multiprocessors
from .product import stride_arguments
from .stream_k_kernels import EIGHT_BITS, FEW_ROWS, MANY_ROWS, OTHER_KERNEL, TF32, matmul_stream_k
from .tile_cost import EPILOGUE_COST, LOAD_COST, resident
from .warp_specialized_stream_k import FEW_ROWS as SPECIALIZED_FEW_ROWS
from .warp_specialized_stream_k import matmul_stream_k_specialized

if TYPE_CHECKING:
    from .bulk import Description

MAX_ROWS = 64
"""Rows of the result up to which Stream-K is the rule: one row of tiles, bound by the right operand's bytes."""
TILES = {1: EIGHT_BITS, 2: FEW_ROWS, 4: TF32}
"""Tiles by the bytes of an operand's element."""
MIN_STEPS = 8
"""Minimum K steps of a program: with fewer its ring of stages is never full, and the parts' sums cost more."""
MIN_WEIGHT_STEPS = 4
"""Minimum K steps of a program of a weight-only matmul, whose steps are of more elements."""
MAX_WAVES = 4
"""Waves of tiles from which on the last wave of a weight-only matmul is a small part of the whole."""
PART_COST = 160.0
"""Cost of an element of a part that a program stores or adds, in multiply-adds of a slot: a guess, until measured."""


@dataclass(frozen=True)
class Division:
    """Division of a matmul's K steps among programs: `share` for each; the last one may have fewer.

    Attributes:
        configuration: The tile.
        tiles: Number of tiles of the result, of all batches.
        steps: K steps of a tile.
        share: K steps of a program.
    """

    configuration: Configuration
    tiles: int
    steps: int
    share: int

    @property
    def programs(self) -> int:
        """Number of programs.

        Example:
            >>> from triten.triton_kernels.budget import Configuration
            >>> from triten.triton_kernels.products.stream_k import Division
            >>> Division(Configuration((64, 128, 64)), tiles=32, steps=64, share=16).programs
            128
        """
        return cdiv(self.tiles * self.steps, self.share)

    @property
    def is_split(self) -> bool:
        """True if several programs share a tile."""
        return self.share % self.steps != 0

    @property
    def cost(self) -> float:
        """Cost in multiply-adds of a slot, as that of `tile_cost`: a program's steps, and the parts of a tile."""
        rows, columns, inner = self.configuration.tile
        parts = cdiv(self.steps, self.share) + 2 if self.is_split else 0
        steps = self.share * inner * (rows * columns + LOAD_COST * (rows + columns))
        return steps + (EPILOGUE_COST + PART_COST * parts) * rows * columns


def divide_tiles(tile: Configuration, m: int, n: int, k: int, batch: int, slots: int) -> Division:
    """Divide the K steps of a matmul of these sizes among at most `slots` programs."""
    rows, columns, inner = tile.tile
    tiles = cdiv(m, rows) * cdiv(n, columns) * batch
    steps = cdiv(k, inner)
    return Division(tile, tiles, steps, max(cdiv(tiles * steps, slots), 1))


def divide(problem: Problem, tile: Configuration, slots: int) -> Division:
    """Divide the K steps of a matmul among at most `slots` programs."""
    return divide_tiles(tile, *problem.shape, slots)


def divide_weight(tile: Configuration, m: int, n: int, k: int, device: Device) -> Division | None:
    """Return the division of a weight-only matmul, or None if programs of a tile each keep the device as busy.

    Args:
        tile: The tile; its `blocks` are the programs of a multiprocessor.
        m: Number of rows of the result, in the interpreter any number, else at most those of a tile.
        n: Number of columns of the result.
        k: Number of elements of a sum.
        device: The device.
    """
    if interpreted():
        division = divide_tiles(tile, m, n, k, 1, 1)
        slots = 2 * division.tiles + 1
        return divide_tiles(tile, m, n, k, 1, slots) if division.steps >= MIN_STEPS else None
    slots = multiprocessors(device) * resident(tile)
    division = divide_tiles(tile, m, n, k, 1, slots)
    if division.share < MIN_WEIGHT_STEPS or division.tiles >= MAX_WAVES * slots:
        return None
    return division


def is_specialized(problem: Problem) -> bool:
    """Return True if the device runs the warp-specialized kernel, and it serves the operands' dtype."""
    design = driver().properties(problem.device.resolved_index).design
    return (
        design == 90
        and driver().has_gluon
        and is_supported()
        and problem.left.dtype.itemsize == 2
        and problem.epilogue.factors is None
    )


def division_of(
    problem: Problem, for_interpreter: Configuration, other: float, is_rule: bool | None = None
) -> Division | None:
    """Return the division of a matmul that Stream-K serves, or None where another kernel serves it.

    Args:
        problem: A matmul whose operands have tensor descriptors.
        for_interpreter: Tile in the interpreter, where a program costs far more than its elements.
        other: Cost of the other kernel with its best tile.
        is_rule: True if Stream-K serves the matmul unless the tuner has measured otherwise. Default: True for up to
            `MAX_ROWS` rows.
    """
    if problem.precision == "tf32" and (problem.left.strides[2] != 1 or problem.right.strides[1] != 1):
        return None  # sm_90's tensor cores take 32-bit elements along K only.
    if interpreted():
        division = divide(problem, for_interpreter, 1)
        if problem.m > MAX_ROWS or division.steps < MIN_STEPS:
            return None
        return divide(problem, for_interpreter, 2 * division.tiles + 1)
    slots = multiprocessors(problem.device)
    kernel, tiles = matmul_stream_k, TILES[problem.left.dtype.itemsize]
    if is_specialized(problem):
        kernel, tiles = matmul_stream_k_specialized, SPECIALIZED_FEW_ROWS
    design = driver().properties(problem.device.resolved_index).design
    divisions = [divide(problem, tile, slots) for tile in tiles if tile.is_for(design)]
    if divisions[0].share < MIN_STEPS or divisions[0].tiles * divisions[0].steps > INT32_MAX - slots:
        return None
    if is_rule is None:
        is_rule = problem.m <= MAX_ROWS
    if problem.m > MAX_ROWS and min(division.cost for division in divisions) >= other:
        return None
    name = problem.left.dtype.triton_name
    assert name is not None
    rule = tiles[0] if is_rule else OTHER_KERNEL
    tile = configuration(kernel, problem.device, name, problem.shape, rule)
    return None if tile == OTHER_KERNEL else divide(problem, tile, slots)


def fused_configuration(tile: Configuration) -> Configuration:
    """Return the configuration of a kernel with a fused epilogue, whose tile adds up in the same order.

    Raise CannotFuse if there is none.
    """
    for each in (*FEW_ROWS, *MANY_ROWS, *EIGHT_BITS, *TF32):
        if each.tile == tile.tile:
            return each
    raise CannotFuse("the epilogue has no registers beside its tile")


def block_type(described: Description, element: str, rows: int, columns: int, specialized: bool) -> str:
    """Return the signature's type of an operand's descriptor, for blocks of this size."""
    if not specialized:
        return described.type_name(element, rows, columns)
    return shared_descriptor(element, 1, *((columns, rows) if described.transposed else (rows, columns)))


def plan(problem: Problem, division: Division, left: Description, right: Description) -> Callable[..., None]:
    """Return ``launch(a, b, [addend,] out, *scales)`` of a matmul that `division_of` divides.

    With a fused epilogue the addresses of its operands and results come before the scales.
    """
    chosen(
        "Stream-K",
        "{} programs multiply {} steps of K each, of {} tiles with {} steps",
        *(division.programs, division.share, division.tiles, division.steps),
    )
    tile = division.configuration
    block_m, block_n, block_k = tile.tile
    element, right_element = (each.dtype.triton_name for each in problem.loaded)
    assert element is not None and right_element is not None
    addend, fused = problem.epilogue.addend, problem.epilogue.fused
    specialized = fused is None and not interpreted() and is_specialized(problem)
    kernel = matmul_stream_k_specialized if specialized else matmul_stream_k
    if fused is not None:
        kernel = fused.kernel("stream_k")
        tile = tile if interpreted() else fused_configuration(tile)
    strides = dict(zip(("oz", "om", "on"), problem.out.strides, strict=True))
    strides |= dict(zip(("sz", "sm", "sn"), (0, 0, 0) if addend is None else addend.strides, strict=True))
    reach = (problem.m + block_m) * max(strides["om"], strides["sm"])
    reach += (problem.n + block_n) * max(strides["on"], strides["sn"])
    signature, constants, values, divisible = stride_arguments(strides, integer_type(2 * reach))
    sizes = {
        "m": problem.m,
        "n": problem.n,
        "k": problem.k,
        "batches": problem.batch,
        "share": division.share,
    }
    passed, fixed = problem.epilogue.signature()
    scales, kinds = problem.epilogue.scale_arguments(problem.saturates)
    every = {
        "a": block_type(left, element, 64 if specialized else block_m, block_k, specialized),
        "b": block_type(right, right_element, block_k, block_n, specialized),
        "out": f"*{problem.out.dtype.triton_name}",
        "parts": "*fp32",
        "counters": "*i32",
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
    imprecise = None if problem.imprecise is None else min(problem.imprecise, block_k)
    if specialized:
        kinds = {"STAGES": tile.stages}
    else:
        kinds = {"PRECISION": problem.precision, "IMPRECISE": imprecise, **kinds}
    if fused is not None and fused.has_prologue:
        constants["WHOLE"] = problem.k % block_k == 0
    launch = Launch(
        problem.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **constants,
            **fixed,
            **kinds,
            "A_BATCHED": left.batched,
            "B_BATCHED": right.batched,
            "A_TRANSPOSED": left.transposed,
            "B_TRANSPOSED": right.transposed,
            "ACTIVATION": problem.epilogue.activation,
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_K": block_k,
        },
        divisible=[*divisible, *(name for name in "mn" if sizes[name] % DIVISOR == 0)],
        elements=("counters", *(scales if fused is None else fused.elements)),
        tensors=[left.tensor, right.tensor],
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    numbers_by_name = {**sizes, **values}
    numbers = tuple(numbers_by_name[name] for name in kernel.arg_names if name in numbers_by_name)
    pointers = 3 + problem.epilogue.pointers
    launch_with_parts = with_parts(launch, division, problem.device, cdiv(block_m, 64))

    def run(*arguments: int | float) -> None:
        launch_with_parts(arguments[:pointers], (*numbers, *arguments[pointers:]))

    return run


def with_parts(
    launch: Launch, division: Division, device: Device, groups: int = 1
) -> Callable[[tuple[int | float, ...], tuple[int | float, ...]], None]:
    """Return ``launch(pointers, numbers)`` of a kernel that takes parts and counters between these.

    Args:
        launch: The kernel's launch.
        division: The division of its steps.
        device: The device.
        groups: Counters of a tile.
    """
    grid = (division.programs, 1, 1)
    allocate, counters = get_allocator("cuda").allocate, counters_of(driver(), device)
    rows, columns = division.configuration.tile[:2]
    nbytes, num_counters = 8 * division.programs * rows * columns, division.tiles * groups

    def run(pointers: tuple[int | float, ...], numbers: tuple[int | float, ...]) -> None:
        parts, counted = allocate(nbytes, device), counters.current(num_counters)
        launch(grid, *pointers, parts.address, counted.address, *numbers)

    return run
