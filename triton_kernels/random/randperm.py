"""Permutations as ranks of 64-bit random words; the smaller index first among equal words.

Each of few words is compared with all. Many are put into buckets by their upper bits first, and ranked within
their bucket. The slot of a word in its bucket changes from run to run; its rank does not.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.generator import Seed
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.elementwise import check_dtypes
from ..launch import Launch, cdiv, interpreted, launch_nothing, next_power_of_2
from .random import drawn_words

FEW = 2048
"""Limit of random words that are all compared with each other."""
IN_BUCKET = 256
"""The least that buckets have on average; the most is twice that."""
BLOCK = 64


@triton.jit
def rank_in(keys, numbers, start, count, i, key, number, BLOCK_J: tl.constexpr):
    """Return the number of keys that come before each key, among `count` keys from `start` on; `numbers` is None for
    indices.
    """
    rank = i * 0
    for base in range(0, count, BLOCK_J):
        j = base + tl.arange(0, BLOCK_J)
        inside = j < count
        other = tl.load(keys + start + j, mask=inside, other=0)
        at = j.to(tl.int64)
        if numbers is not None:
            at = tl.load(numbers + start + j, mask=inside, other=0)
        equal = (other[None, :] == key[:, None]) & (at[None, :] < number[:, None])
        before = inside[None, :] & ((other[None, :] < key[:, None]) | equal)
        rank += tl.sum(before.to(tl.int64), 1)
    return rank


@triton.jit
def rank_all(keys, out, n, stride, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr):
    i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I).to(tl.int64)
    inside = i < n
    key = tl.load(keys + i, mask=inside, other=0)
    rank = rank_in(keys, None, 0, n, i, key, i, BLOCK_J)
    tl.store(out + rank * stride, convert(i, out.dtype.element_ty), mask=inside)


@triton.jit
def count_buckets(keys, counts, places, n, SHIFT: tl.constexpr, BLOCK_I: tl.constexpr):
    """Assign each key the next position in its bucket."""
    i = tl.program_id(0).to(tl.int64) * BLOCK_I + tl.arange(0, BLOCK_I)
    inside = i < n
    bucket = (tl.load(keys + i, mask=inside, other=0) >> SHIFT).to(tl.int64)
    place = tl.atomic_add(counts + bucket, 1, mask=inside, sem="relaxed")
    tl.store(places + i, place, mask=inside)


@triton.jit
def add_up_buckets(counts, starts, buckets, BLOCK_I: tl.constexpr):
    """Compute the start of each bucket, in one program."""
    total = tl.zeros((1,), tl.int64)
    for base in range(0, buckets, BLOCK_I):
        i = base + tl.arange(0, BLOCK_I)
        count = tl.load(counts + i, mask=i < buckets, other=0).to(tl.int64)
        tl.store(starts + i, total + tl.cumsum(count, 0) - count, mask=i < buckets)
        total += tl.sum(count, 0)


@triton.jit
def fill_buckets(
    keys, places, starts, sorted_keys, sorted_numbers, n, SHIFT: tl.constexpr, BLOCK_I: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64) * BLOCK_I + tl.arange(0, BLOCK_I)
    inside = i < n
    key = tl.load(keys + i, mask=inside, other=0)
    start = tl.load(starts + (key >> SHIFT).to(tl.int64), mask=inside, other=0)
    out_index = start + tl.load(places + i, mask=inside, other=0)
    tl.store(sorted_keys + out_index, key, mask=inside)
    tl.store(sorted_numbers + out_index, i, mask=inside)


@triton.jit
def rank_buckets(keys, numbers, counts, starts, out, stride, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr):
    bucket = tl.program_id(0).to(tl.int64)
    start = tl.load(starts + bucket)
    count = tl.load(counts + bucket)
    for base in range(0, count, BLOCK_I):
        i = base + tl.arange(0, BLOCK_I).to(tl.int64)
        inside = i < count
        key = tl.load(keys + start + i, mask=inside, other=0)
        number = tl.load(numbers + start + i, mask=inside, other=0)
        rank = start + rank_in(keys, numbers, start, count, i, key, number, BLOCK_J)
        tl.store(out + rank * stride, convert(number, out.dtype.element_ty), mask=inside)


def randperm(call: StructuredCall) -> PlannedKernel:
    """Return the argsort of 64-bit random words."""
    out = call.outputs[0]
    check_dtypes(call, [out])
    n = out.numel
    if n == 0:
        return PlannedKernel(launch_nothing)
    words, draw = drawn_words(call, out.sizes, True)
    type_name, stride = f"*{out.dtype.triton_name}", out.strides[0]
    allocate, device = get_allocator("cuda").allocate, call.device
    if n <= FEW:
        chosen("ranks by counting", "{} keys are at most {}", n, FEW)
        block = min(max(next_power_of_2(n), 16), 256) if interpreted() else BLOCK
        launch = Launch(
            device,
            rank_all,
            {"keys": "*u64", "out": type_name, "n": "i64", "stride": "i64"},
            {"BLOCK_I": block, "BLOCK_J": block if interpreted() else block // 2},
        )

        def by_counting(out_data: Any, seed: Seed, first: int) -> None:
            keys = allocate(words.nbytes, device)
            draw(keys, seed, first)
            launch((cdiv(n, block), 1, 1), keys.address, out_data.address, n, stride)

        return PlannedKernel(by_counting)
    buckets = next_power_of_2(n // IN_BUCKET + 1) // 2
    chosen("ranks within buckets", "{} keys are more than {}: {} buckets", n, FEW, buckets)
    shift = 64 - (buckets.bit_length() - 1)
    block = 4096 if interpreted() else 1024
    tile = 512 if interpreted() else BLOCK
    constants = {"SHIFT": shift, "BLOCK_I": block}
    count = Launch(
        device, count_buckets, {"keys": "*u64", "counts": "*i32", "places": "*i32", "n": "i64"}, constants
    )
    add_up = Launch(
        device, add_up_buckets, {"counts": "*i32", "starts": "*i64", "buckets": "i32"}, {"BLOCK_I": block}
    )
    fill = Launch(
        device,
        fill_buckets,
        {
            "keys": "*u64",
            "places": "*i32",
            "starts": "*i64",
            "sorted_keys": "*u64",
            "sorted_numbers": "*i64",
            "n": "i64",
        },
        constants,
        num_warps=8,
    )
    rank = Launch(
        device,
        rank_buckets,
        {
            "keys": "*u64",
            "numbers": "*i64",
            "counts": "*i32",
            "starts": "*i64",
            "out": type_name,
            "stride": "i64",
        },
        {"BLOCK_I": tile, "BLOCK_J": tile if interpreted() else tile // 2},
    )
    index, grid = device.resolved_index, (cdiv(n, block), 1, 1)

    def by_buckets(out_data: Any, seed: Seed, first: int) -> None:
        keys, sorted_keys, numbers, offsets, counts, starts = (
            allocate(nbytes, device) for nbytes in (8 * n, 8 * n, 8 * n, 4 * n, 4 * buckets, 8 * buckets)
        )
        draw(keys, seed, first)
        with device_guard(index) as cuda:
            cuda.memset(counts.address, 0, 4 * buckets, cuda.current_stream(index))
        count(grid, keys.address, counts.address, offsets.address, n)
        add_up((1, 1, 1), counts.address, starts.address, buckets)
        fill(
            grid,
            keys.address,
            offsets.address,
            starts.address,
            sorted_keys.address,
            numbers.address,
            n,
        )
        rank(
            (buckets, 1, 1),
            sorted_keys.address,
            numbers.address,
            counts.address,
            starts.address,
            out_data.address,
            stride,
        )

    return PlannedKernel(by_buckets)


register_stub("randperm_stub", "cuda", randperm)

COMPARING = "16 warps, four for each scheduler: a tile's comparisons are arithmetic, whose latency they hide"

for _kernel, _operations in ((rank_all, "3 n n"), (rank_buckets, "3 n for each element of a bucket")):
    declare(
        _kernel,
        warps=16,
        why=COMPARING,
        tile=("BLOCK_I", "BLOCK_J"),
        dtypes=("i64", "i32", "fp32"),
        configurations=(Configuration((64, 32)),),
        operations=_operations,
        traffic="n (16 + 32), since a rank's place costs a sector",
    )
for _kernel, _warps, _traffic in (
    (count_buckets, 4, "n (8 + 4) and an atomic addition"),
    (fill_buckets, 8, "n (8 + 4 + 64)"),
):
    declare(
        _kernel,
        why="32 warps: each lane waits for its key, then for its bucket, and other warps hide that",
        operand="keys",
        tile=("BLOCK_I",),
        dtypes=("u64",),
        configurations=(Configuration((1024,), _warps),),
        operations="2 n",
        traffic=_traffic,
    )
declare(
    add_up_buckets,
    why="one program, whose steps follow from each other: a block on one multiprocessor is all there is",
    operand="counts",
    tile=("BLOCK_I",),
    dtypes=("i32",),
    configurations=(Configuration((1024,), blocks=1),),
    operations="2 buckets",
    traffic="12 buckets",
)
