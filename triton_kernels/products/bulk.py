"""Plans of matmuls with tensor descriptors: supported operands, choice of the tile, launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...dispatch.structured import choices
from ...runtime.cuda.driver import driver
from ...runtime.cuda.tensor_map import DescribedTensor
from ...runtime.scalar_type import BY_NAME
from ..budget import Configuration
from ..launch import ALIGNMENT, INT32_MAX, Launch, cdiv, integer_type, interpreted
from ..tuning.choice import configuration
from . import stream_k, tensor_memory, warp_specialized
from .last_wave import LAUNCH_COST, best_cut, in_two, part_of
from .persistent import (
    EIGHT_BITS,
    EXACT_EIGHT_BITS,
    ROW_WISE_EIGHT_BITS,
    TF32_TILES,
    TILES,
    matmul_persistent,
)
from .problem import DIVISOR, CannotFuse, Epilogue, Matrices, Problem, multiprocessors, worthwhile_parts
from .product import bounded, stride_arguments
from .split_k import in_parts
from .tile_cost import cost, resident

FIRST_DESIGN = 90
"""The first design of devices whose matrix instructions take what a tensor map loads (`DeviceProperties.design`)."""
IN_GLUON = {form.DESIGN: form for form in (warp_specialized, tensor_memory)}
"""By the design of a device, the module of the kernel that is for its matrix instructions alone."""
MAX_PITCH = 1 << 40
"""Bytes from one line to the next that a tensor map can hold."""


@dataclass(frozen=True)
class Description:
    """An operand as a tensor map has it: lines of adjacent elements, which are columns where it is transposed."""

    tensor: DescribedTensor
    transposed: bool
    batched: bool

    def type_name(self, element: str, rows: int, columns: int) -> str:
        """Return the signature's entry for tiles of this size."""
        block = (columns, rows) if self.transposed else (rows, columns)
        return f"tensordesc<{element}[1, {block[0]}, {block[1]}]>"


def describe(matrices: Matrices, rows_only: bool = False) -> Description | None:
    """Return the tensor map of matrices whose line strides are whole vectors, by rows or else by columns, or
    None.
    """
    batch, sizes, strides = matrices.sizes[0], matrices.sizes[1:], matrices.strides[1:]
    whole = ALIGNMENT // matrices.dtype.itemsize
    batched = batch > 1 and matrices.strides[0] != 0
    if batched and (matrices.strides[0] % whole or matrices.strides[0] < 0):
        return None
    for transposed in (False,) if rows_only else (False, True):
        lines, length = sizes[::-1] if transposed else sizes
        pitch, near = strides[::-1] if transposed else strides
        if lines == 1:
            pitch = cdiv(length, whole) * whole
        fits = near == 1 or length == 1
        if fits and 0 < pitch < MAX_PITCH // matrices.dtype.itemsize and pitch % whole == 0:
            apart = matrices.strides[0] if batched else pitch * lines
            tensor = DescribedTensor((batch if batched else 1, lines, length), (apart, pitch, 1))
            return Description(tensor, transposed, batched)
    return None


def multiplied_by_tensor_cores(problem: Problem) -> bool:
    """Return True if tensor cores multiply the operands with float32 sums: 16-bit or 8-bit floats, or TF32."""
    return (problem.left.dtype.itemsize <= 2 and problem.how.dot) or problem.precision == "tf32"


def tables_for(problem: Problem) -> tuple[tuple[Configuration, ...], tuple[Configuration, ...]]:
    """Return the candidate tiles, and those that leave shared memory or registers for more than the sums."""
    itemsize = problem.left.dtype.itemsize
    if itemsize == 1:
        exact = problem.imprecise is not None or problem.out.dtype.itemsize == 4
        factors = problem.epilogue.factors
        roomy = ROW_WISE_EIGHT_BITS if factors is not None and factors.row_wise else EIGHT_BITS
        return (EXACT_EIGHT_BITS if exact else roomy), EXACT_EIGHT_BITS
    return TILES if itemsize == 2 else TF32_TILES


def tiles_in(configuration: Configuration, problem: Problem) -> int:
    """Return the number of tiles that cover a result."""
    return cdiv(problem.m, configuration.tile[0]) * cdiv(problem.n, configuration.tile[1])


def in_halves(configuration: Configuration) -> bool:
    """Return True if a tile's output is stored in halves, with half the shared memory and fewer registers."""
    return configuration.elements // configuration.tile[2] >= 128 * 32 * configuration.warps


def for_interpreter(problem: Problem) -> Configuration:
    """Return a tile that covers small matmuls, since a program costs far more than its elements."""
    m, n, k = problem.m, problem.n, problem.k
    # `tl.dot` needs at least 32 bytes along K.
    inner = max(bounded(k, 128), 32 // problem.left.dtype.itemsize)
    return Configuration((bounded(m, 256), bounded(n, 128), inner), 4, 1, 1)


def cut_tiles(problem: Problem, candidates: Sequence[Configuration]) -> Sequence[Configuration]:
    """Return the tiles from which a cut is chosen."""
    return (for_interpreter(problem),) if interpreted() else candidates


MAX_TILES = 3
"""Operands and results of an epilogue that have an element for each of the product's, for which specialised warps have
registers beside their sums."""


def beside_epilogue(
    problem: Problem, crowded: Sequence[Configuration], num_multiprocessors: int, is_in_tensor_memory: bool
) -> Configuration:
    """Return the cheapest tile beside an epilogue that does not recompute an operand too often.

    Raise CannotFuse if there is none, or if it costs more than the launch that it saves.
    """

    def cost_of(candidate: Configuration) -> float:
        return cost(candidate, tiles_in(candidate, problem) * problem.batch, problem.k, num_multiprocessors)

    best = min(crowded, key=cost_of)
    served = [candidate for candidate in crowded if problem.computes_seldom(candidate.tile)]
    fused = problem.epilogue.fused
    if fused is not None and fused.sources[1] is not None and is_in_tensor_memory:
        # 8-bit integers that become a tile of 128 columns leave too few registers for 128 rows of sums.
        served = [candidate for candidate in served if candidate.tile[0] < 128]
    if not served or cost_of(chosen := min(served, key=cost_of)) > cost_of(best) + LAUNCH_COST:
        raise CannotFuse("an operand would be computed too often")
    return chosen


def refused(why: str) -> None:
    """Tell why tensor descriptors do not serve a product."""
    choices.chosen("no tensor descriptors", why)


def descriptions_of_sources(problem: Problem) -> tuple[Description, Description]:
    """Return the tensor maps of the sources of computed operands. Raise CannotFuse if a kernel cannot load them."""
    left, right = (describe(each) for each in problem.loaded)
    if left is None or right is None:
        raise CannotFuse("tensor maps do not describe what an operand is computed of")
    if not problem.keeps_order(64):
        raise CannotFuse("an operand would be added up in another order")
    if problem.precision == "tf32" and (left.transposed or not right.transposed):
        raise CannotFuse("an operand that lies across the inner side is turned round in registers")
    return left, right


def plan_row(problem: Problem, is_rule: bool) -> Callable[..., None] | None:
    """Return the Stream-K launch of a matmul of one row, for aligned addresses; None if another kernel serves it.

    Args:
        problem: The matmul.
        is_rule: True if Stream-K serves it unless the tuner has measured otherwise.
    """
    properties = driver().properties(problem.device.resolved_index)
    if not multiplied_by_tensor_cores(problem) or problem.k == 0 or properties.design < FIRST_DESIGN:
        return None
    if problem.precision == "tf32":
        return None  # Matrix-vector multiplications do not round their operands.
    left, right = describe(problem.left), describe(problem.right)
    if left is None or right is None or max(problem.shape) > INT32_MAX:
        return None
    division = stream_k.division_of(problem, for_interpreter(problem), 0.0, is_rule)
    return None if division is None else stream_k.plan(problem, division, left, right)


def plan_bulk(problem: Problem, cuts: bool = True) -> Callable[..., None] | None:
    """``launch(a, b, [addend,] out, *scales)`` over addresses that are multiples of 16; None where there is none.

    With `cuts`, a product of few rows may be divided by its K steps (`stream_k`), and one whose last wave would leave
    most multiprocessors idle may be two launches (`last_wave`).

    The addend's and the output's addresses need be multiples only where tensor maps describe them, and are asked to be
    all the same.
    """
    if not multiplied_by_tensor_cores(problem) or problem.k == 0:
        return refused("its dtype and precision are not for tensor cores")
    properties = driver().properties(problem.device.resolved_index)
    if properties.design < FIRST_DESIGN:
        return refused("the device multiplies what lies in registers")
    if max(problem.shape) > INT32_MAX:
        return refused("a side is longer than 32 bits count")
    left, right = describe(problem.left), describe(problem.right)
    if left is None or right is None:
        return refused("an operand's lines are no multiples of 16 bytes apart, or have gaps within")
    out = describe(problem.out, rows_only=True)
    addend = problem.epilogue.addend
    row_wise = addend is not None and (addend.strides[1] == 0 or problem.m == 1)
    beside = None
    if addend is not None and not row_wise:
        if addend.strides[2] == 0 and problem.n > 1:
            return refused("the addend is a column")
        sizes = (1 if addend.strides[0] == 0 else problem.batch, *problem.out.sizes[1:])
        beside = describe(replace(addend, sizes=sizes), rows_only=True)
        if beside is None or out is None:
            return refused("the addend or the result lies as they cannot describe it")
    num_multiprocessors = multiprocessors(problem.device)
    fused = problem.epilogue.fused
    plain = out is not None and beside is None
    large, crowded = (
        tuple(candidate for candidate in table if candidate.is_for(properties.design))
        for table in tables_for(problem)
    )
    candidates = large if plain else crowded
    # A tile of the addend does not fit that kernel's shared memory next to its ring buffer.
    form = IN_GLUON.get(properties.design)
    specialized = form.tile_of(problem, left, right) if plain and form is not None else None
    if interpreted():
        chosen = for_interpreter(problem)
    else:
        chosen = min(
            candidates,
            key=lambda one: cost(one, tiles_in(one, problem) * problem.batch, problem.k, num_multiprocessors),
        )
    waits = specialized is None and not interpreted()
    best = (
        cost(chosen, tiles_in(chosen, problem) * problem.batch, problem.k, num_multiprocessors)
        if waits
        else 0.0
    )
    division = stream_k.division_of(problem, for_interpreter(problem), best) if cuts else None
    if division is not None:
        if fused is not None and fused.has_prologue:
            if not problem.computes_seldom(division.configuration.tile):
                raise CannotFuse("an operand would be computed too often")
            left, right = descriptions_of_sources(problem)
        return stream_k.plan(problem, division, left, right)
    if not interpreted() and plain:
        name = problem.left.dtype.triton_name
        assert name is not None
        kernel, rule = matmul_persistent, chosen
        if specialized is not None and form is not None:
            kernel, rule = form.KERNEL, specialized
        tuned = configuration(kernel, problem.device, name, problem.shape, rule)
        cuts = cuts and tuned == rule
        if specialized is not None:
            specialized = tuned
        elif tuned in large:
            chosen = tuned
    factors = problem.epilogue.factors
    halved = None
    if cuts and out is not None and (factors is None or not factors.row_wise):
        cut = best_cut(
            problem.out.sizes, problem.k, num_multiprocessors, cut_tiles(problem, candidates), resident, cost
        )
        unfused = replace(problem, epilogue=replace(problem.epilogue, fused=None))
        halved = None if cut is None else in_two(unfused, cut, partial(plan_bulk, cuts=False))
        if halved is not None and cut is not None and fused is None:
            which, count = ("rows", "columns")[cut.side - 1], problem.out.sizes[cut.side] - cut.start
            choices.chosen("the last wave by itself", "{} {} have tiles of their own", count, which)
            return halved
    if fused is not None and specialized is not None:
        result = fused.result
        if result is None or not result.is_floating_point or result.itemsize != problem.out.dtype.itemsize:
            raise CannotFuse(
                "it is warp-specialised, and its first result is of another kind than the product"
            )
        if fused.has_prologue or fused.tiles > MAX_TILES:
            raise CannotFuse(
                "it is warp-specialised, and there is an operand to compute, or many tiles to hold"
            )
    if fused is not None and halved is not None and cut is not None:
        last, _ = part_of(unfused, cut, False)
        # In the interpreter the last bits of sums depend on how many rows a tile has.
        if interpreted() or worthwhile_parts(last, 1, num_multiprocessors, 1) > 1:
            raise CannotFuse("its last wave adds up in an order of its own")
    if fused is not None and fused.has_prologue:
        left, right = descriptions_of_sources(problem)
    if specialized is not None and form is not None and out is not None:
        if fused is not None and fused.result is not None:
            problem = replace(problem, out=replace(problem.out, dtype=fused.result))
        return form.plan(problem, specialized, left, right, out)
    m, n, k, batch = problem.shape
    tiles = tiles_in(chosen, problem) * batch
    small = chosen if interpreted() else crowded[-2] if m > 64 else crowded[-1]
    small_tiles = tiles_in(small, problem) * batch
    small_slots = num_multiprocessors * resident(small)
    parts = worthwhile_parts(problem, small_tiles, small_slots, 4 * small.tile[2])
    if 2 * tiles <= num_multiprocessors * resident(chosen) and parts > 1 and n % 4 == 0:
        if not problem.computes_seldom(small.tile):
            raise CannotFuse("an operand would be computed too often")
        choices.chosen(
            "split-K",
            "{} tiles are few for {} multiprocessors, and {} elements are summed",
            tiles,
            num_multiprocessors,
            k,
        )
        steps = cdiv(cdiv(k, small.tile[2]), parts)
        parts = cdiv(cdiv(k, small.tile[2]), steps)
        workspace = Matrices((parts * batch, m, n), (m * n, n, 1), BY_NAME["float32"])
        computed = None if fused is None else fused.sums
        sums = replace(problem, out=workspace, epilogue=Epilogue(fused=computed))
        described = None if computed is not None else describe(workspace, rows_only=True)
        launch = plan_launch(sums, small, left, right, described, None, parts, steps, batch)
        return in_parts(problem, parts, launch)
    if fused is not None:
        # Operands and results come and go by pointers: a large tile has registers for those of one, in whole vectors.
        if not interpreted() and (fused.tiles > 1 or n % DIVISOR or fused.has_prologue):
            chosen = beside_epilogue(
                problem, crowded, num_multiprocessors, properties.design >= tensor_memory.DESIGN
            )
        return plan_launch(problem, chosen, left, right, None, None, 1, None, batch)
    return plan_launch(problem, chosen, left, right, out, beside, 1, None, batch)


def plan_launch(
    problem: Problem,
    chosen: Configuration,
    left: Description,
    right: Description,
    out: Description | None,
    beside: Description | None,
    parts: int,
    steps: int | None,
    batches: int,
) -> Callable[..., None]:
    """Return the launch of the persistent kernel with a configuration."""
    block_m, block_n, block_k = chosen.tile
    # A descriptor of the output has half of a tile; without one, or in the interpreter for some tiles, it is whole.
    has_halves = out is not None or problem.epilogue.fused is not None
    halves = has_halves and (block_n >= 32 if interpreted() else in_halves(chosen))
    width = block_n // 2 if halves else block_n
    element, right_element = (each.dtype.triton_name for each in problem.loaded)
    out_element = problem.out.dtype.triton_name
    assert element is not None and right_element is not None and out_element is not None
    addend = problem.epilogue.addend
    fused = problem.epilogue.fused
    kernel = matmul_persistent if fused is None else fused.kernel("persistent")
    strides: dict[str, int] = dict.fromkeys(("oz", "om", "on", "sz", "sm", "sn"), 0)
    if out is None:
        strides |= dict(zip(("oz", "om", "on"), problem.out.strides, strict=True))
    if addend is not None and beside is None:
        strides |= dict(zip(("sz", "sm", "sn"), addend.strides, strict=True))
    reach = (problem.m + block_m) * max(strides["om"], strides["sm"])
    reach += (problem.n + block_n) * max(strides["on"], strides["sn"])
    signature, constants, values, divisible = stride_arguments(strides, integer_type(2 * reach))
    every = {
        "a": left.type_name(element, block_m, block_k),
        "b": right.type_name(right_element, block_k, block_n),
        **dict.fromkeys(("m", "n", "k", "batches", "parts"), "i32"),
        **signature,
    }
    tensors = [left.tensor, right.tensor]
    if addend is None:
        constants["addend"] = None
    elif beside is None:
        every["addend"] = f"*{addend.dtype.triton_name}"
    else:
        assert addend.dtype.triton_name is not None
        every["addend"] = beside.type_name(addend.dtype.triton_name, block_m, width)
        tensors.append(beside.tensor)
    if out is None:
        every["out"] = f"*{out_element}"
    else:
        every["out"] = out.type_name(out_element, block_m, width)
        tensors.append(out.tensor)
    if steps is None:
        constants["steps"] = None
    else:
        every["steps"] = "i32"
    if fused is not None and fused.has_prologue:
        constants["WHOLE"] = problem.k % block_k == 0
    passed, fixed = problem.epilogue.signature()
    scales, kinds = problem.epilogue.scale_arguments(problem.saturates)
    every |= passed | scales | dict({} if fused is None else fused.pointers)
    sizes = {"m": problem.m, "n": problem.n, "k": problem.k, "batches": batches, "parts": parts}
    launch = Launch(
        problem.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **constants,
            **fixed,
            **kinds,
            "ADDEND": None if addend is None else "row" if beside is None else "tile",
            "ADDEND_BATCHED": beside is not None and beside.batched,
            "A_BATCHED": left.batched,
            "B_BATCHED": right.batched,
            "A_TRANSPOSED": left.transposed,
            "B_TRANSPOSED": right.transposed,
            "BULK_STORE": out is not None,
            "ACTIVATION": problem.epilogue.activation,
            "PRECISION": problem.precision,
            "IMPRECISE": None if problem.imprecise is None else min(problem.imprecise, block_k),
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_K": block_k,
            "HALVES": halves,
        },
        divisible=divisible if fused is None else [*divisible, *(s for s in "mn" if sizes[s] % DIVISOR == 0)],
        elements=tuple(scales) if fused is None else fused.elements,
        tensors=tensors,
        num_warps=chosen.warps,
        num_stages=chosen.stages,
    )
    tiles = cdiv(problem.m, block_m) * cdiv(problem.n, block_n) * batches * parts
    grid = (min(tiles, multiprocessors(problem.device) * resident(chosen)), 1, 1)
    if steps is not None:
        sizes["steps"] = steps
    numbers = tuple({**sizes, **values}[name] for name in kernel.arg_names if name in sizes or name in values)
    pointers = 3 + problem.epilogue.pointers

    def run(*arguments: int | float) -> None:
        launch(grid, *arguments[:pointers], *numbers, *arguments[pointers:])

    return run
