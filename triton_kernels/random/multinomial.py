"""Weighted sampling of indices, row by row; a program for each row checks its weights first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, find_kernel, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.faults import Fault, fault_flags
from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ...runtime.generator import Seed
from ...runtime.scalar_type import float64
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration, declare
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import check_dtypes, elementwise
from ..folded_grid import folded, place_in_grid
from ..launch import Launch, cdiv, interpreted, launch_nothing, next_power_of_2
from .random import drawn_words
from .random_functions import open_unit


@triton.jit
def inspect(weights, flag, last_positive, columns, BLOCK: tl.constexpr):
    """Find the last positive weight of a row, one program for each row.

    The first flag reports an infinite, NaN or negative weight; the second a row without positive weights.
    """
    row = tl.program_id(0).to(tl.int64)
    positive = tl.zeros((BLOCK,), tl.int32)
    invalid = tl.zeros((BLOCK,), tl.int32)
    last = tl.zeros((BLOCK,), tl.int64)
    for base in range(0, columns, BLOCK):
        i = base + tl.arange(0, BLOCK).to(tl.int64)
        inside = i < columns
        weight = tl.load(weights + row * columns + i, mask=inside, other=0)
        valid = (weight >= 0.0) & (weight < float("inf"))
        invalid = invalid | (inside & (valid == 0)).to(tl.int32)
        positive = positive | (weight != 0.0).to(tl.int32)
        last = tl.where(weight != 0.0, i, last)
    tl.store(flag, 1, mask=tl.max(invalid, 0) > 0)
    tl.store(flag + 1, 1, mask=tl.max(positive, 0) == 0)
    tl.store(last_positive + row, tl.max(last, 0))


@triton.jit
def running_sums(weights, sums, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((1,), tl.float64)
    for base in range(0, columns, BLOCK):
        i = base + tl.arange(0, BLOCK).to(tl.int64)
        inside = i < columns
        weight = tl.load(weights + row * columns + i, mask=inside, other=0)
        tl.store(sums + row * columns + i, total + tl.cumsum(weight, 0), mask=inside)
        total += tl.sum(weight, 0)


@triton.jit
def search(words, sums, last_positive, out, columns, samples, steps, BLOCK: tl.constexpr):
    """Find by bisection the first index whose running sum exceeds u times the whole sum."""
    row, block = place_in_grid(tl.num_programs(0) // tl.cdiv(samples, BLOCK))
    row = row.to(tl.int64)
    i = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < samples
    u = (tl.load(words + row * samples + i, mask=inside, other=0) >> 11).to(
        tl.float64
    ) * 1.1102230246251565e-16
    level = u * tl.load(sums + row * columns + columns - 1)
    low = i * 0
    high = low + columns
    for _ in range(steps):
        middle = (low + high) // 2
        searching = inside & (low < high)
        exceeds = tl.load(sums + row * columns + middle, mask=searching, other=0) > level
        high = tl.where(searching & exceeds, middle, high)
        low = tl.where(searching & (exceeds == 0), middle + 1, low)
    found = tl.minimum(low, tl.load(last_positive + row))
    tl.store(out + row * samples + i, found, mask=inside)


@triton.jit
def race(draw, weight):
    return (libdevice.log(open_unit(draw)) * -1.0) / weight


@triton.jit
def rank(times, out, columns, samples, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr):
    """Store the indices of a row's smallest times in order; of equal times, the smaller index comes first."""
    row, block = place_in_grid(tl.num_programs(0) // tl.cdiv(columns, BLOCK_I))
    row = row.to(tl.int64)
    i = block.to(tl.int64) * BLOCK_I + tl.arange(0, BLOCK_I)
    inside = i < columns
    own = tl.load(times + row * columns + i, mask=inside, other=0)
    place = tl.zeros((BLOCK_I,), tl.int64)
    for base in range(0, columns, BLOCK_J):
        j = base + tl.arange(0, BLOCK_J).to(tl.int64)
        other = tl.load(times + row * columns + j, mask=j < columns, other=0)
        equal = (other[None, :] == own[:, None]) & (j[None, :] < i[:, None])
        before = (j < columns)[None, :] & ((other[None, :] < own[:, None]) | equal)
        place += tl.sum(before.to(tl.int64), 1)
    tl.store(out + row * samples + place, i, mask=inside & (place < samples))


ROW_WARPS = 8
"""Four float64 for each lane of a row's block: with eight of them sums and masks take half of a lane's registers."""


def row_block(columns: int) -> int:
    """Return the number of a row's elements that a program processes at a time."""
    return min(next_power_of_2(columns), 4096 if interpreted() else 1024)


def inspection(call: StructuredCall, rows: int, columns: int) -> Callable[..., None]:
    """Return ``check(weights address, last positive address)``: finds the faults of the weights."""
    block = row_block(columns)
    launch = Launch(
        call.device,
        inspect,
        {"weights": "*fp64", "flag": "*i32", "last_positive": "*i64", "columns": "i64"},
        {"BLOCK": block},
        elements=("flag",),
        num_warps=ROW_WARPS,
    )
    messages = (
        "probability tensor contains either `inf`, `nan` or element < 0",
        "invalid multinomial distribution (sum of probabilities <= 0)",
    )
    faults = [Fault(call.name, RuntimeError, message) for message in messages]
    flags = fault_flags(call.device.resolved_index, faults)

    def check(weights: int, last_positive: int) -> None:
        launch((rows, 1, 1), weights, flags.begin(), last_positive, columns)
        if flags.driver.launch_blocking:
            for i in flags.raised():
                raise RuntimeError(messages[i])

    return check


def multinomial(call: StructuredCall) -> PlannedKernel:
    """Sample indices by weight, row by row of the weights."""
    out, source = call.outputs[0], call.args["weights"]
    check_dtypes(call, [source])
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    columns, samples = source.sizes[-1], out.sizes[-1]
    rows = out.numel // samples
    weights = TensorSpec.contiguous(source.sizes, float64, call.device)
    widen = copy_kernel(weights, source)
    replacement = call.extra["replacement"]
    draw = with_replacement if replacement else without_replacement
    if replacement:
        chosen(
            "a search in running sums",
            "samples are drawn with replacement, {} of {} weights",
            samples,
            columns,
        )
    elif samples == 1:
        chosen("a race for the first place", "one sample is the least of {} times", columns)
    else:
        chosen("a race ranked by counting", "{} samples are the first of {} times", samples, columns)
    pick = draw(call, rows, columns, samples)
    check = inspection(call, rows, columns)
    allocate, device = get_allocator("cuda").allocate, call.device

    def into(out_data: Any, probabilities: Any, seed: Seed, first: int) -> None:
        wide, last = allocate(weights.nbytes, device), allocate(8 * rows, device)
        widen(wide, probabilities)
        check(wide.address, last.address)
        pick(out_data, wide, last, seed, first)

    return PlannedKernel(into)


def with_replacement(call: StructuredCall, rows: int, columns: int, samples: int) -> Callable[..., None]:
    """Return ``pick(out, weights, last positive, seed, first)``: running sums, then a search for each sample."""
    words, fill = drawn_words(call, call.outputs[0].sizes, True)
    block = row_block(columns)
    lanes = min(next_power_of_2(samples), 4096 if interpreted() else 256)
    add_up = Launch(
        call.device,
        running_sums,
        {"weights": "*fp64", "sums": "*fp64", "columns": "i64"},
        {"BLOCK": block},
        num_warps=ROW_WARPS,
    )
    find = Launch(
        call.device,
        search,
        {
            "words": "*u64",
            "sums": "*fp64",
            "last_positive": "*i64",
            "out": "*i64",
            "columns": "i64",
            "samples": "i64",
            "steps": "i32",
        },
        {"BLOCK": lanes},
    )
    steps = columns.bit_length()
    allocate, device = get_allocator("cuda").allocate, call.device

    def pick(out: Any, weights: Any, last: Any, seed: Seed, first: int) -> None:
        levels, sums = allocate(words.nbytes, device), allocate(8 * rows * columns, device)
        fill(levels, seed, first)
        add_up((rows, 1, 1), weights.address, sums.address, columns)
        grid = folded(rows, cdiv(samples, lanes))
        find(grid, levels.address, sums.address, last.address, out.address, columns, samples, steps)

    return pick


def without_replacement(call: StructuredCall, rows: int, columns: int, samples: int) -> Callable[..., None]:
    """``pick(out, weights, last positive, seed, first)``: the weights race, and the first ones win; zeros come last."""
    words, fill = drawn_words(call, (rows, columns), True)
    times = TensorSpec.contiguous((rows, columns), float64, call.device)
    run = elementwise(call._replace(outputs=(times,)), race, [words, times], [tl.uint64, tl.float64]).into
    allocate, device = get_allocator("cuda").allocate, call.device
    if samples == 1:
        winners = TensorSpec.contiguous((rows,), call.outputs[0].dtype, call.device)
        reduce = find_kernel("argmin_stub", "cuda", "argmin")(
            call._replace(args={"self": times}, outputs=(winners,), extra={"dims": (1,)})
        ).into
    else:
        tile = min(max(next_power_of_2(columns), 16), 512 if interpreted() else 64)
        launch = Launch(
            call.device,
            rank,
            {"times": "*fp64", "out": "*i64", "columns": "i64", "samples": "i64"},
            {"BLOCK_I": tile, "BLOCK_J": tile if interpreted() else tile // 2},
        )
        grid = folded(rows, cdiv(columns, tile))

        def reduce(out: Any, finish: Any) -> None:
            launch(grid, finish.address, out.address, columns, samples)

    def pick(out: Any, weights: Any, last: Any, seed: Seed, first: int) -> None:
        draws, finish = allocate(words.nbytes, device), allocate(times.nbytes, device)
        fill(draws, seed, first)
        run(finish, draws, weights)
        reduce(out, finish)

    return pick


register_stub("multinomial_stub", "cuda", multinomial)

declare(
    inspect,
    why="32 warps: a row for each block, and other rows hide its wait",
    operand="weights",
    dtypes=("fp64",),
    configurations=(Configuration((1024,), ROW_WARPS),),
    smaller=True,
    operations="3 for each weight",
    traffic="8 rows columns",
)
declare(
    running_sums,
    warps=24,
    why="24 warps: three rows, of which others run while one waits at the barriers of its sums; float64 sums and their "
    "addresses take two registers each",
    operand="weights",
    dtypes=("fp64",),
    configurations=(Configuration((1024,), ROW_WARPS),),
    smaller=True,
    operations="rows columns",
    traffic="16 rows columns",
)
declare(
    search,
    why="32 warps: a chain of dependent loads for each lane, as long as the logarithm of the columns",
    dtypes=("i64",),
    configurations=(Configuration((256,)),),
    smaller=True,
    operations="rows samples log2(columns)",
    traffic="rows samples (16 + 32 log2(columns)) at most; the upper steps stay in L1",
)
declare(
    rank,
    warps=16,
    why="16 warps, four for each scheduler: a tile's comparisons are arithmetic, whose latency they hide",
    operand="times",
    tile=("BLOCK_I", "BLOCK_J"),
    dtypes=("fp64",),
    configurations=(Configuration((64, 32)),),
    smaller=True,
    operations="3 rows columns columns",
    traffic="8 rows columns, again for each block from L2",
)
