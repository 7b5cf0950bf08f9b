"""Random ops: a program turns a block of Philox counters into elements in C order, 128 bits at a time.

Kernels generate the same words as every backend for the same seed and counter (see
`dispatch/structured/meta/draws.py`). Outputs of other strides are generated in contiguous memory and copied.
Operators with tensor parameters generate words first and combine them elementwise.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl, triton
from ...runtime.generator import Seed
from ...runtime.scalar_type import bfloat16, bool_, float16, float32, float64, uint32, uint64
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration, declare
from ..conversion import convert
from ..elementwise.copy import as_real, copy_kernel
from ..elementwise.elementwise import check_dtypes, elementwise
from ..elementwise.value_checks import checked
from ..launch import Launch, cdiv, interpreted, launch_nothing, next_power_of_2
from . import random_functions as f

COUNTERS = 256
"""Counters of a program of four warps: two counters, eight elements, for each thread."""
INTERPRETED_COUNTERS = 8192
BITS = {float32: 24, float16: 11, bfloat16: 8}

PHILOX_TYPES = {"seed": "i64", "first": "i64", "state": "*i64"}

Numbers = Callable[..., Sequence[int | float]]


@triton.jit
def start_of_draws(seed, first, state):
    """Return the counter where random numbers begin. A captured graph has seed and offset in memory; `first` counts
    from that offset.
    """
    if state.to(tl.int64) != 0:
        seed = tl.load(state)
        first += tl.load(state + 1)
    return seed, first


@triton.jit
def draws(
    seed,
    counter,
    a,
    b,
    c,
    d,
    FUNCTION: tl.constexpr,
    WIDE: tl.constexpr,
    PAIRED: tl.constexpr,
    OUT: tl.constexpr,
    BITS: tl.constexpr,
):
    """Return the random values of a block of counters, four (two if WIDE) per counter, in the order of elements."""
    w0, w1, w2, w3 = tl.randint4x(seed, counter)
    if WIDE:
        q0 = w0.to(tl.uint64) | (w1.to(tl.uint64) << 32)
        q1 = w2.to(tl.uint64) | (w3.to(tl.uint64) << 32)
        if PAIRED:
            v0, v1 = FUNCTION(q0, q1, a, b, c, d, OUT, BITS)
            return tl.interleave(v0, v1)
        else:
            return FUNCTION(tl.interleave(q0, q1), a, b, c, d, OUT, BITS)
    else:
        if PAIRED:
            v0, v1 = FUNCTION(w0, w1, a, b, c, d, OUT, BITS)
            v2, v3 = FUNCTION(w2, w3, a, b, c, d, OUT, BITS)
            return tl.interleave(tl.interleave(v0, v2), tl.interleave(v1, v3))
        else:
            w = tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3))
            return FUNCTION(w, a, b, c, d, OUT, BITS)


@triton.jit
def fill_with_draws(
    out,
    n,
    seed,
    first,
    state,
    a,
    b,
    c,
    d,
    FUNCTION: tl.constexpr,
    WIDE: tl.constexpr,
    PAIRED: tl.constexpr,
    BITS: tl.constexpr,
    PER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    seed, first = start_of_draws(seed, first, state)
    block = tl.program_id(0).to(tl.int64)
    counter = first + block * BLOCK + tl.arange(0, BLOCK)
    value = draws(seed, counter, a, b, c, d, FUNCTION, WIDE, PAIRED, out.dtype.element_ty, BITS)
    value = convert(value, out.dtype.element_ty)
    start = block * BLOCK * PER
    index = start + tl.arange(0, BLOCK * PER)
    if start + BLOCK * PER <= n:
        tl.store(out + index, value)
    else:
        tl.store(out + index, value, mask=index < n)


def signed64(value: int) -> int:
    """Return the bits of a 64-bit number as a signed number."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def philox_numbers(seed: Seed, first: int) -> tuple[int, int, int]:
    """Return the arguments ``seed, first, state`` of a kernel."""
    return (signed64(seed), first, 0) if isinstance(seed, int) else (0, first, seed.address)


def single(value: float) -> float:
    """Return the nearest float32."""
    return ctypes.c_float(value).value


def block_of(counters: int) -> int:
    """Return the number of counters of a program."""
    if interpreted():
        return min(max(next_power_of_2(counters), 16), INTERPRETED_COUNTERS)
    return COUNTERS


def drawn(
    call: StructuredCall,
    function: Any,
    types: Sequence[str],
    numbers: Numbers,
    wide: bool,
    paired: bool = False,
    out: TensorSpec | None = None,
) -> Callable[..., None]:
    """Return ``fill(bytes, *arguments, seed, first)`` for the elements of `out`, the call's output unless given.

    Args:
        function: one of `random_functions`.
        types: the types of the numbers that it gets.
        numbers: Function from the arguments to these numbers.
        wide: If True, random words have 64 bits.
        paired: If True, the function gets pairs of words.
    """
    spec = call.outputs[0] if out is None else out
    if spec.dtype.is_complex:
        spec = as_real(spec)
    check_dtypes(call, [spec])
    n = spec.numel
    if n == 0:
        return launch_nothing
    per = 2 if wide else 4
    block = block_of(cdiv(n, per))
    passed = dict(zip("abcd", types, strict=False))
    launch = Launch(
        call.device,
        fill_with_draws,
        {"out": f"*{spec.dtype.triton_name}", "n": "i64", **PHILOX_TYPES, **passed},
        {
            **dict.fromkeys(name for name in "abcd" if name not in passed),
            "FUNCTION": function,
            "WIDE": wide,
            "PAIRED": paired,
            "BITS": BITS.get(spec.dtype, 8),
            "PER": per,
            "BLOCK": block,
        },
        elements=("state",),
    )
    grid = (cdiv(n, block * per), 1, 1)

    def fill(data: Any, *arguments: Any) -> None:
        *values, seed, first = arguments
        launch(grid, data.address, n, *philox_numbers(seed, first), *numbers(*values))

    if spec.is_contiguous:
        chosen("draws in place", "the {} elements of the result lie one after another", n)
        return fill
    chosen("draws, then a copy", "the {} elements of the result have gaps", n)
    gapless = TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device)
    scatter = copy_kernel(spec, gapless)
    allocate = get_allocator("cuda").allocate

    def fill_and_scatter(data: Any, *arguments: Any) -> None:
        buffer = allocate(gapless.nbytes, gapless.device)
        fill(buffer, *arguments)
        scatter(data, buffer)

    return fill_and_scatter


def is_wide(spec: TensorSpec) -> bool:
    """Return True if a dtype uses 64-bit random words."""
    return spec.dtype.to_real() is float64


def check_floating(call: StructuredCall, allow_complex: bool = False) -> TensorSpec:
    """Return the output's spec; raise for dtypes that are not floating."""
    spec = call.outputs[0]
    if not (spec.dtype.is_floating_point or (allow_complex and spec.dtype.is_complex)):
        raise call.refuse(spec)
    return spec


def uniform(call: StructuredCall) -> PlannedKernel:
    """Compute u * (high - low) + low."""
    spec = check_floating(call, allow_complex=True)
    wide = is_wide(spec)
    rounded: Callable[[float], float] = float if wide else single
    target = spec.dtype.to_real().np.type
    known: dict[tuple[float, float], tuple[float, ...]] = {(0.0, 1.0): (1.0, 0.0, math.nan, 0.0)}

    def numbers(low: float, high: float) -> Sequence[float]:
        scaling = known.get((low, high))
        if scaling is None:
            with np.errstate(all="ignore"):
                scaling = (rounded(high - low), rounded(low), float(target(high)), float(target(low)))
            if len(known) < 64:
                known[low, high] = scaling
        return scaling

    return PlannedKernel(drawn(call, f.uniform, ["fp64" if wide else "fp32"] * 4, numbers, wide))


def normal(call: StructuredCall) -> PlannedKernel:
    """Compute mean + std * z; a complex number has its variance in equal parts."""
    spec = check_floating(call, allow_complex=True)
    scale = math.sqrt(0.5) if spec.dtype.is_complex else 1.0

    def numbers(mean: Any, std: float) -> Sequence[float]:
        if scale == 1.0:
            even = odd = float(mean)
        else:
            even, odd = complex(mean).real, complex(mean).imag
        # -0.0 adds nothing to any number, where 0.0 would turn -0.0 into 0.0.
        return even or -0.0, odd or -0.0, float(std) * scale

    return PlannedKernel(drawn(call, f.normal, ["fp64"] * 3, numbers, is_wide(spec), paired=True))


def log_normal(call: StructuredCall) -> PlannedKernel:
    """Compute exp(mean + std * z)."""
    spec = check_floating(call)
    return PlannedKernel(
        drawn(call, f.log_normal, ["fp64"] * 2, lambda *values: values, is_wide(spec), paired=True)
    )


def exponential(call: StructuredCall) -> PlannedKernel:
    """Compute -log(v) / lambd."""
    spec = check_floating(call)
    return PlannedKernel(drawn(call, f.exponential, ["fp64"], lambda lambd: (-lambd,), is_wide(spec)))


def cauchy(call: StructuredCall) -> PlannedKernel:
    """Compute median + sigma * tan(pi * (v - 0.5))."""
    spec = check_floating(call)
    return PlannedKernel(drawn(call, f.cauchy, ["fp64"] * 2, lambda *values: values, is_wide(spec)))


def geometric(call: StructuredCall) -> PlannedKernel:
    """Return the number of trials up to the first success."""
    spec = call.outputs[0]
    if spec.dtype.is_complex or spec.dtype is bool_:
        raise call.refuse(spec)
    return PlannedKernel(drawn(call, f.geometric, ["fp64"], lambda p: (math.log1p(-p),), False))


def threshold(p: float) -> tuple[int]:
    """Return the bound that a 32-bit random word is below with probability `p`."""
    return (math.ceil(p * 4294967296.0),)


def bernoulli(call: StructuredCall) -> PlannedKernel:
    """Sample 1 with probability p."""
    spec = call.outputs[0]
    if spec.dtype.is_complex:
        raise call.refuse(spec)
    return PlannedKernel(drawn(call, f.bernoulli, ["i64"], threshold, False))


def random(call: StructuredCall) -> PlannedKernel:
    """Compute low + floor(draw * span / 2**bits)."""
    spec = call.outputs[0]
    if spec.dtype.is_complex:
        raise call.refuse(spec)
    span = call.extra["span"]
    bounds = (signed64(span % (1 << 64)), signed64(call.extra["low"]))
    return PlannedKernel(drawn(call, f.integers, ["i64"] * 2, lambda: bounds, span > 1 << 16))


def drawn_words(call: StructuredCall, sizes: Sequence[int], wide: bool) -> tuple[TensorSpec, Any]:
    """Words of their own: their spec, and ``fill(bytes, seed, first)``."""
    spec = TensorSpec.contiguous(tuple(sizes), uint64 if wide else uint32, call.device)
    return spec, drawn(call, f.words, (), lambda: (), wide, out=spec)


def bernoulli_tensor(call: StructuredCall) -> PlannedKernel:
    """Sample 1 with the probability of the element."""
    spec, p = call.outputs[0], call.args["p"]
    check_dtypes(call, [spec, p])
    words, fill = drawn_words(call, spec.sizes, False)
    check = checked(call, p, f.no_probability, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    compare = elementwise(call, f.below, [words, p], [tl.uint32, tl.float64]).into
    allocate = get_allocator("cuda").allocate

    def into(out: Any, chances: Any, seed: Seed, first: int) -> None:
        check(chances)
        buffer = allocate(words.nbytes, words.device)
        fill(buffer, seed, first)
        compare(out, buffer, chances)

    return PlannedKernel(into)


def normal_tensor(call: StructuredCall) -> PlannedKernel:
    """Compute mean + std * z with tensors that broadcast."""
    spec = check_floating(call)
    mean, std = call.args["mean"], call.args["std"]
    z = TensorSpec.contiguous(spec.sizes, float64, call.device)
    fill = drawn(call, f.normal, ["fp64"] * 3, lambda: (-0.0, -0.0, 1.0), is_wide(spec), paired=True, out=z)
    combine = elementwise(call, f.scaled_sum, [z, mean, std], [tl.float64] * 3).into
    check: Callable[[Any], None] | None = None
    if isinstance(std, TensorSpec):
        check = checked(call, std, f.no_deviation, "normal expects all elements of std >= 0.0")
    allocate = get_allocator("cuda").allocate

    def into(out: Any, means: Any, stds: Any, seed: Seed, first: int) -> None:
        if check is not None:
            check(stds)
        buffer = allocate(z.nbytes, z.device)
        fill(buffer, seed, first)
        combine(out, buffer, means, stds)

    return PlannedKernel(into)


register_stub("uniform_stub", "cuda", uniform)
register_stub("normal_stub", "cuda", normal)
register_stub("normal_tensor_stub", "cuda", normal_tensor)
register_stub("exponential_stub", "cuda", exponential)
register_stub("log_normal_stub", "cuda", log_normal)
register_stub("cauchy_stub", "cuda", cauchy)
register_stub("geometric_stub", "cuda", geometric)
register_stub("bernoulli_stub", "cuda", bernoulli)
register_stub("bernoulli_tensor_stub", "cuda", bernoulli_tensor)
register_stub("random_stub", "cuda", random)

ARGUMENT_REDUCTION = (
    48,
    "libdevice's table for reducing large float64 arguments, on a path that is never taken",
)

declare(
    fill_with_draws,
    warps=16,
    why="16 warps, four for each scheduler: ten rounds of Philox and float64 logarithms are arithmetic, whose "
    "latency they hide; nothing is loaded",
    tile=("BLOCK", "PER"),
    dtypes={
        ("fp32", "fp64", "u32"): (Configuration((256, 4)), Configuration((256, 2))),
        ("fp16", "bf16", "i8", "i16", "u8", "u16", "i1"): (Configuration((256, 4)),),
        ("i32", "i64", "u64"): (Configuration((256, 2)),),
    },
    operations="ten rounds of Philox for every four elements (two of 64 bits), and the distribution's function",
    traffic="n itemsize",
    stores=("out",),
    local=dict.fromkeys(("normal", "log_normal", "cauchy"), ARGUMENT_REDUCTION),
)
