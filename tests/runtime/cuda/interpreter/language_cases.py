"""Kernels over Python's builtins and `tl` functions, whose results the interpreter and a compiled kernel share.

Each kernel stores rows of `SIZE` results. Run as a program with ``TRITEN_CUDA=emulate`` and the path of an archive, it
writes the results of compiled kernels there, which `test_differential.py` compares with its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import triton
import triton.language as tl

import triten as tt

SIZE = 256

FLOATS = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -7.5,
        2.0,
        3e38,
        -3e38,
        1e-40,
        2.5,
        16777217.0,
        -3.0,
    ],
    np.float32,
)
INTEGERS = np.array(
    [0, 1, -1, 2, -2, 3, -3, 7, -7, 31, 33, 12345, -12345, 2**30, 2**31 - 1, -(2**31)], np.int32
)
FINITE = np.linspace(-6, 6, 16, dtype=np.float32)


@triton.jit
def row(out, ROW: tl.constexpr, value):
    tl.store(out + ROW * 256 + tl.arange(0, 256), value)


@triton.jit
def float_builtins(x, y, out):
    i = tl.arange(0, 256)
    a, b = tl.load(x + i), tl.load(y + i)
    row(out, 0, min(a, b))
    row(out, 1, max(a, b))
    row(out, 2, max(a, b, 0.0))
    row(out, 3, tl.minimum(a, b))
    row(out, 4, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    row(out, 5, tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL))
    row(out, 6, tl.clamp(a, -1.0, 2.0))
    row(out, 7, tl.clamp(a, -1.0, 2.0, propagate_nan=tl.PropagateNan.ALL))
    row(out, 8, tl.abs(a))
    row(out, 9, -a)
    row(out, 10, tl.where(a > 0 and b > 0, 1.0, 0.0))
    row(out, 11, tl.where(a > 0 or b > 0, 1.0, 0.0))
    row(out, 12, tl.where(not a > 0, 1.0, 0.0))
    row(out, 13, tl.where(-1.0 < a < b, 1.0, 0.0))
    row(out, 14, tl.where(a != b, 1.0, 0.0) + tl.where(a == b, 2.0, 0.0))
    row(out, 15, tl.where(a <= b, 1.0, 0.0) + tl.where(a >= b, 2.0, 0.0))
    row(out, 16, a * b + 1.0)
    row(out, 17, a - b)
    row(out, 18, tl.floor(a) + tl.ceil(b))
    row(out, 19, tl.fma(a, b, 0.5))
    row(out, 20, a.to(tl.int32).to(tl.float32))
    row(out, 21, a.to(tl.bfloat16).to(tl.float32))
    row(out, 22, a.to(tl.float16).to(tl.float32))
    row(out, 23, a.to(tl.int1).to(tl.float32))
    row(out, 24, tl.div_rn(a, b))
    row(out, 25, tl.sqrt_rn(a))
    row(out, 26, tl.math.div_rn(b, a))
    row(
        out, 27, tl.ravel(tl.max(tl.reshape(a, (16, 16)), 0, keep_dims=True) + tl.zeros((16, 16), tl.float32))
    )
    zeros = tl.reshape(tl.where(a < b, 0.0, -0.0), (128, 2))
    row(out, 28, tl.ravel(tl.join(tl.max(zeros, 1), tl.min(zeros, 1))))


@triton.jit
def integer_builtins(x, y, out):
    i = tl.arange(0, 256)
    a, b = tl.load(x + i), tl.load(y + i)
    row(out, 0, min(a, b))
    row(out, 1, max(a, b, 3))
    row(out, 2, tl.abs(a))
    row(out, 3, -a)
    row(out, 4, ~a)
    row(out, 5, a + b)
    row(out, 6, a * b)
    row(out, 7, a - b)
    row(out, 8, a ^ b | 5 & a)
    row(
        out,
        9,
        (a > 0 and b > 0).to(tl.int32) + 2 * (a > b or b < 3).to(tl.int32) + 4 * (not a > b).to(tl.int32),
    )
    row(out, 10, (0 <= a < b).to(tl.int32) + 2 * (a != b != 3).to(tl.int32))
    row(out, 11, a << (b & 31))
    row(out, 12, a >> (b & 31))
    row(out, 13, (a.to(tl.uint32) >> (b & 31).to(tl.uint32)).to(tl.int32))
    row(out, 14, tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32))
    row(out, 15, a.to(tl.int8).to(tl.int32))
    row(out, 16, a.to(tl.uint16).to(tl.int32))
    row(out, 17, (a < 0).to(tl.int32) + (a.to(tl.uint32) < b.to(tl.uint32)).to(tl.int32) * 2)
    row(out, 18, tl.where((a > 0) & (b > 0) | (a == b), a, b))
    row(out, 19, tl.cumsum(a, 0))
    row(out, 20, tl.sort(a))
    row(out, 21, tl.flip(b))
    row(out, 22, tl.cdiv(a >> 2, 7))
    row(out, 23, tl.sum(a) + tl.max(a, 0) - tl.min(b, 0) + tl.argmax(a, 0) + tl.argmin(b, 0))
    row(out, 24, tl.xor_sum(a))
    row(out, 25, tl.histogram(a & 15, 256))


@triton.jit
def integer_division(x, y, out):
    i = tl.arange(0, 256)
    a, b = tl.load(x + i), tl.load(y + i)
    b = tl.where((b == 0) | (b == -1), 5, b)  # undefined: division by zero and overflow
    row(out, 0, a // b)
    row(out, 1, a % b)
    row(out, 2, (a.to(tl.uint32) // b.to(tl.uint32)).to(tl.int32))
    row(out, 3, (a.to(tl.uint32) % b.to(tl.uint32)).to(tl.int32))
    row(out, 4, (a.to(tl.int64) * b // 3).to(tl.int32))


@triton.jit
def three_ways(a):
    if a > 2:
        return a * 2
    elif a > 1 and a < 3:
        return a + 40
    return -a


@triton.jit
def scalars(x, y, out, n, one, flag, N: tl.constexpr, NONE: tl.constexpr):
    zero = tl.program_id(0)
    row(out, 0, min(zero + 1, n))
    row(out, 1, max(zero + 1, n, 2))
    row(out, 2, min(N, 3) + max(N, 9) + len((n, one)) + int(N) + tl.cdiv(n, 4))
    count = 0
    while count < n and not (count > 4):
        count += 1
    row(out, 3, count)
    first, second = -7, 2
    row(out, 4, first // second)  # assigned numbers are tensors: C's division
    row(out, 5, -N // 2)  # constants are Python's
    total = 0
    for k in range(-n, n):
        total = total * 3 + k // 2 + k % 3
    row(out, 6, total)
    for k in tl.range(n, one, -2):
        total += k
    for k in range(5, -5, -3):
        total = total * 5 + k // 2
    row(out, 7, total)
    for k in tl.static_range(3):
        total += k // 2 + (-k) // 2
    row(out, 8, total)
    chosen = (-7 if n > 3 else 5) // 2
    row(out, 9, chosen)
    row(out, 10, three_ways(n) + three_ways(one + 1) + three_ways(zero))
    if 0 < n < 5 or flag != 0:
        row(out, 11, 1 if zero else 2)
    if flag == 0 and n > 0 and one > 0:
        row(out, 12, 3)
    if NONE is None and N is not None:
        row(out, 13, 4)
    mixed: tl.int32 = N
    mixed //= -2
    row(out, 14, mixed)
    kept: tl.constexpr = -N
    row(out, 15, kept // 2)
    wide = 2147483647
    wide += 1
    row(out, 16, wide)
    if (last := zero + 9) > 8 and (most := last * 2) > n:
        row(out, 17, most + last)
    row(out, 18, isinstance(n, tl.tensor) + 2 * isinstance(N, tl.tensor) + 4 * hasattr(n, "dtype"))
    row(out, 19, (N > 3 and n > 3) + 2 * (N < 3 or n < 3))
    row(out, 20, (zero <= n <= 4 <= N) + (n < zero == 0).to(tl.int32) * 2)
    row(out, 21, tl.swizzle2d(zero + 3, one, 4, 2, 2)[0])
    row(out, 22, total & 0xFF ^ ~n)
    pair = (one, -9)
    row(out, 23, pair[1] // 2)


@triton.jit
def functions(x, y, out):
    i = tl.arange(0, 256)
    a = tl.load(x + i)
    positive = tl.abs(a) + 0.25
    row(out, 0, tl.exp(a))
    row(out, 1, tl.exp2(a))
    row(out, 2, tl.log(positive))
    row(out, 3, tl.log2(positive))
    row(out, 4, tl.sin(a))
    row(out, 5, tl.cos(a))
    row(out, 6, tl.sqrt(positive))
    row(out, 7, tl.rsqrt(positive))
    row(out, 8, tl.erf(a))
    row(out, 9, tl.sigmoid(a))
    row(out, 10, tl.fdiv(a, positive))
    row(out, 11, tl.softmax(a))
    row(out, 12, tl.cumprod(a / 4, 0))
    row(out, 13, tl.sum(a) + tl.max(a, 0) * tl.min(a, 0))


@triton.jit
def shapes(x, y, out):
    i = tl.arange(0, 256)
    a, b = tl.load(x + i), tl.load(y + i)
    left, right = tl.split(tl.reshape(a, (128, 2)))
    row(out, 0, tl.reshape(tl.join(right, left), (256,)))
    row(out, 1, tl.ravel(tl.trans(tl.reshape(a, (16, 16)))))
    row(out, 2, tl.interleave(left, right))
    row(out, 3, tl.ravel(tl.sum(tl.reshape(a, (16, 16)), 1)[:, None] + tl.zeros((16, 16), tl.int32)))
    row(out, 4, tl.ravel(tl.broadcast_to(tl.max(tl.reshape(b, (16, 16)), 0, keep_dims=True), (16, 16))))
    row(out, 5, tl.ravel(tl.permute(tl.reshape(a, (4, 8, 8)), (2, 0, 1))))
    row(out, 6, tl.gather(a, b & 255, 0))
    row(out, 7, tl.ravel(tl.reshape(a, (16, 16)).T))
    row(out, 8, tl.cat(left, right, can_reorder=False))
    row(out, 9, tl.full((256,), -3, tl.int32) + tl.zeros_like(a) + a.numel)


@triton.jit
def larger(a, b):
    return a if a > b else b


@triton.jit
def scans(x, y, out):
    i = tl.arange(0, 256)
    a = tl.load(x + i)
    row(out, 0, tl.associative_scan(a, 0, maximum_of, reverse=True))
    row(out, 1, tl.reduce(a, 0, maximum_of))
    row(out, 2, larger(tl.sum(a), tl.max(a, 0)))
    row(out, 3, tl.rand(7, i) + tl.randn(3, i))


@triton.jit
def maximum_of(a, b):
    return max(a, b)


@triton.jit
def sorted_pair(a, b):
    if a > b:
        return b, a + 1
    else:
        return a, b


@triton.jit
def scalar_functions(x, y, out):
    i = tl.arange(0, 256)
    low, high = tl.map_elementwise(sorted_pair, tl.load(x + i), tl.load(y + i))
    row(out, 0, low)
    row(out, 1, high)
    row(out, 2, tl.map_elementwise(larger, tl.load(x + i), tl.full([256], 5, tl.int32)))


@triton.jit
def assembly(x, y, out):
    i = tl.arange(0, 256)
    a, b = tl.load(x + i), tl.load(y + i)
    row(out, 0, tl.inline_asm_elementwise("sub.s32 $0, $1, $2;", "=r,r,r", [a, b], tl.int32, True, 1))
    packed = tl.inline_asm_elementwise(
        "xor.b32 $0, $1, $2;", "=r,r,r", [a.to(tl.int8), b.to(tl.int8)], tl.int8, True, 4
    )
    row(out, 1, packed.to(tl.int32))
    packed = tl.inline_asm_elementwise(
        "and.b32 $0, $1, $2;", "=r,r,r", [a.to(tl.int16), b.to(tl.int16)], tl.int16, True, 2
    )
    row(out, 2, packed.to(tl.int32))
    halves = tl.inline_asm_elementwise(
        "add.f16x2 $0, $1, $2;",
        "=r,r,r",
        [(a & 7).to(tl.float16), (b & 7).to(tl.float16)],
        tl.float16,
        True,
        2,
    )
    row(out, 3, halves.to(tl.int32))
    low, high = tl.inline_asm_elementwise(
        "{ .reg .b32 t; min.s32 t, $2, $3; max.s32 $1, $2, $3; mov.b32 $0, t; }",
        "=&r,=r,r,r",
        [a, b],
        (tl.int32, tl.int32),
        True,
        1,
    )
    row(out, 4, low)
    row(out, 5, high)
    wide = tl.inline_asm_elementwise("mul.wide.s32 $0, $1, $2;", "=l,r,r", [a, b], tl.int64, True, 1)
    row(out, 6, (wide >> 16).to(tl.int32))
    row(
        out,
        7,
        tl.inline_asm_elementwise(
            """{
                .reg .b8 part<4>;
                .reg .b32 first, second;
                mov.b32 {part0, part1, part2, part3}, $4;
                cvt.u32.u8 $0, part0;  // one of four
                cvt.u32.u8 $1, part1;
                cvt.u32.u8 $2, part2;
                cvt.u32.u8 $3, part3;
            }""",
            "=r,=r,=r,=r,r",
            [b.to(tl.uint8)],
            tl.int32,
            True,
            4,
        ),
    )
    row(out, 8, tl.extra.cuda.num_warps() * 1000 + tl.extra.cuda.num_threads())
    row(out, 9, (tl.extra.cuda.smid() >= 0) & (tl.extra.cuda.globaltimer() >= 0))


@triton.jit
def atomics(x, y, out):
    i = tl.arange(0, 256)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a)
    tl.store(out + 256 + i, a)
    narrow = (out + 512).to(tl.pointer_type(tl.bfloat16), bitcast=True) + i
    tl.store(narrow, a.to(tl.bfloat16))
    tl.store(narrow + 256, a.to(tl.bfloat16))
    tl.debug_barrier()
    row(out, 3, tl.atomic_xchg(out + i, b))
    row(out, 4, tl.atomic_cas(out + 256 + i, a, b))
    row(out, 5, tl.where(a > 0, tl.atomic_add(narrow, b.to(tl.bfloat16), mask=a > 0), 0.0))
    row(out, 6, tl.atomic_cas(narrow + 256, a.to(tl.bfloat16), b.to(tl.bfloat16)))


@triton.jit
def described_atomics(x, y, out):
    i = tl.arange(0, 256)
    tl.store(out + i, tl.load(x + i))
    tl.store(out + 256 + i, tl.load(x + i))
    tl.store(out + 512 + i, tl.load(x + i))
    tl.debug_barrier()
    value = tl.reshape(tl.load(y + i), [1, 256])
    for k in tl.static_range(3):
        rows = tl.make_tensor_descriptor(
            out + 256 * k, shape=[1, 100], strides=[256, 1], block_shape=[1, 256]
        )
        if k == 0:
            rows.atomic_add([0, 0], value)
        elif k == 1:
            rows.atomic_min([0, 0], value)
        else:
            rows.atomic_xor([0, 0], value)


CASES: dict[str, tuple[Any, Any, Any, int, float]] = {
    "float_builtins": (float_builtins, FLOATS, np.float32, 29, 0.0),
    "integer_builtins": (integer_builtins, INTEGERS, np.int32, 26, 0.0),
    "integer_division": (integer_division, INTEGERS, np.int32, 5, 0.0),
    "scalars": (scalars, INTEGERS, np.int64, 24, 0.0),
    "functions": (functions, FINITE, np.float32, 14, 1e-5),
    "shapes": (shapes, INTEGERS, np.int32, 10, 0.0),
    "scans": (scans, FINITE, np.float32, 4, 1e-5),
    "scalar_functions": (scalar_functions, INTEGERS, np.int32, 3, 0.0),
    "assembly": (assembly, INTEGERS, np.int32, 10, 0.0),
    "atomics": (atomics, FINITE, np.float32, 7, 0.0),
    "described_atomics": (described_atomics, INTEGERS, np.int32, 3, 0.0),
}
"""A kernel, numbers of whose every pair it takes, its results' type and rows, and how far they may differ."""


def pairs(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return 256 pairs, which begin with all pairs of the values."""
    left, right = np.meshgrid(values, values)
    return np.resize(left, SIZE), np.resize(right, SIZE)


def scratch(nbytes: int, alignment: int, stream: int | None) -> Any:
    """Allocate memory for the descriptors that a kernel makes."""
    return tt.empty(nbytes, dtype=tt.int8, device="cuda")


def results() -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield each case's results on the device that this process has."""
    triton.set_allocator(scratch)
    for name, (kernel, values, dtype, rows, _) in CASES.items():
        x, y = (tt.from_numpy(each).cuda() for each in pairs(values))
        out = tt.full((rows, SIZE), 77, dtype=getattr(tt, np.dtype(dtype).name), device="cuda")
        more = (4, 1, 0, 7, None) if kernel is scalars else ()
        kernel[(1,)](x, y, out, *more)
        yield name, out.cpu().numpy()


if __name__ == "__main__":
    np.savez(sys.argv[1], **dict(results()))
