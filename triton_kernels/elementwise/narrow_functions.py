"""Scalar functions for float16 and bfloat16, in float32 with as few instructions as a memory-bound kernel can
hide.

A multiprocessor of an H200 has some 24 instructions and 3 special-unit ones for each 16-bit element that its
share of the memory loads and stores. libdevice's float32 functions take up to twice as many, to get bits
right that rounding drops here. Each function has a relative error of at most 2**-17, with infinities and NaN
as in `pointwise_functions`. After rounding it differs from the correctly rounded value by at most one ulp,
and seldom. If exp(-a) overflows, quotients are zero, as they are in float32.
"""

from ...runtime.cuda.triton.lazy_triton import tl, triton
from . import pointwise_functions as f


@triton.jit
def reciprocal(x):
    """1 / x in one instruction, of numbers that are neither below the normal ones nor have a reciprocal there."""
    return tl.inline_asm_elementwise(
        "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def power_of_two(x):
    """2**x in one instruction, zero where that is below the normal numbers."""
    return tl.inline_asm_elementwise(
        "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def exp(a):
    return tl.exp2(a * 1.4426950408889634)


@triton.jit
def sigmoid(a):
    return reciprocal(1.0 + power_of_two(a * -1.4426950408889634))


@triton.jit
def silu(a):
    return a * sigmoid(a)


@triton.jit
def tanh(a):
    """1 - 2 / (1 + exp(2 |a|)); its Taylor series near zero, where that cancels."""
    size = tl.abs(a)
    square = a * a
    series = tl.fma(
        square, tl.fma(square, tl.fma(square, 0.021869489, -0.053968254), 0.13333333), -0.33333333
    )
    near = tl.fma(a * square, series, a)
    far = tl.fma(reciprocal(1.0 + power_of_two(size * 2.8853900817779268)), -2.0, 1.0)
    return tl.where(size < 0.3, near, tl.where(a < 0, -far, far))


@triton.jit
def gelu(a):
    """Compute a Phi(a), where Phi(-u) is exp(-u**2 / 2) times a polynomial in 1 / (1 + 0.31 u).

    The form is that of Hastings, "Approximations for Digital Computers" (1955), sheet 43.
    """
    t = reciprocal(tl.fma(tl.abs(a), 0.31, 1.0))
    series = tl.fma(t, tl.fma(t, -0.07392977178096771, 0.18045209348201752), 0.015742899850010872)
    series = tl.fma(
        t, tl.fma(t, tl.fma(t, series, 0.13343064486980438), 0.12044109404087067), 0.12386071681976318
    )
    below = t * series * power_of_two(a * a * -0.7213475204444817)
    return a * tl.where(a < 0, below, 1.0 - below)


@triton.jit
def gelu_tanh(a):
    """0.5 a (1 + tanh(z)) as a sigmoid(2 z)."""
    z = a * tl.fma(a * a, 0.044715, 1.0)
    return a * reciprocal(1.0 + power_of_two(z * -2.302208198144325))


@triton.jit
def trunc_divide_half(a, b):
    return f.trunc(f.divide(a, b).to(tl.float16).to(tl.float32))


@triton.jit
def trunc_divide_bfloat16(a, b):
    return f.trunc(f.divide(a, b).to(tl.bfloat16).to(tl.float32))
