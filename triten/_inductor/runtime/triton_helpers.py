"""Functions of Triton kernels by the names of PyTorch's code generator (`torch._inductor.runtime.triton_helpers`).

Minima, maxima and their places are NaN where an operand is, as PyTorch's operators have it.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

__all__ = [
    "any",
    "device_assert_then",
    "div_floor_integer",
    "exp",
    "is_floating",
    "libdevice",
    "max2",
    "max_with_index",
    "maximum",
    "maximum_with_index",
    "min2",
    "min_with_index",
    "minimum",
    "minimum_with_index",
    "online_softmax_combine",
    "online_softmax_reduce",
    "prod",
    "promote_to_tensor",
    "randint64",
    "remainder_integer",
    "select_one",
    "welford",
    "welford_combine",
    "welford_reduce",
]


@triton.jit
def promote_to_tensor(x):
    """Return a number as a tensor."""
    return x + tl.zeros((1,), tl.int1)


@triton.jit
def div_floor_integer(a, b):
    """Return the quotient of two integers, rounded down."""
    quotient = a // b
    remainder = a % b
    return tl.where((remainder != 0) & ((a < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def remainder_integer(a, b):
    """Return the remainder of two integers, with the sign of `b`."""
    remainder = a % b
    return tl.where((remainder != 0) & ((a < 0) != (b < 0)), remainder + b, remainder)


@triton.jit
def is_floating(x):
    """Return whether a value is floating."""
    return promote_to_tensor(x).dtype.is_floating()


@triton.jit
def minimum(a, b):
    """Return the smaller one of two values, NaN if one is."""
    mask = a < b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def maximum(a, b):
    """Return the greater one of two values, NaN if one is."""
    mask = a > b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def min2(a, dim):
    """Return the minima along a dimension."""
    return tl.reduce(a, dim, minimum)


@triton.jit
def max2(a, dim):
    """Return the maxima along a dimension."""
    return tl.reduce(a, dim, maximum)


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def prod(input, axis):
    """Return the products along a dimension."""
    return tl.reduce(input, axis, _product)


@triton.jit
def _or(a, b):
    return a | b


@triton.jit
def any(a, dim):
    """Return whether an element along a dimension is True."""
    return tl.reduce(a, dim, _or)


@triton.jit
def minimum_with_index(a_value, a_index, b_value, b_index):
    """Return the smaller one of two values and its index; of equal values the lower index."""
    mask = a_value < b_value
    equal = a_value == b_value
    if is_floating(a_value):
        a_isnan = a_value != a_value
        b_isnan = b_value != b_value
        mask |= a_isnan & (not b_isnan)
        equal |= a_isnan & b_isnan
    mask |= equal & (a_index < b_index)
    return tl.where(mask, a_value, b_value), tl.where(mask, a_index, b_index)


@triton.jit
def maximum_with_index(a_value, a_index, b_value, b_index):
    """Return the greater one of two values and its index; of equal values the lower index."""
    mask = a_value > b_value
    equal = a_value == b_value
    if is_floating(a_value):
        a_isnan = a_value != a_value
        b_isnan = b_value != b_value
        mask |= a_isnan & (not b_isnan)
        equal |= a_isnan & b_isnan
    mask |= equal & (a_index < b_index)
    return tl.where(mask, a_value, b_value), tl.where(mask, a_index, b_index)


@triton.jit
def min_with_index(value, index, dim):
    """Return the minima along a dimension, and their indices."""
    return tl.reduce((value, index), dim, minimum_with_index)


@triton.jit
def max_with_index(value, index, dim):
    """Return the maxima along a dimension, and their indices."""
    return tl.reduce((value, index), dim, maximum_with_index)


@triton.jit
def welford_reduce(value, mean, m2, weight, first_iteration):
    """Return mean, sum of squared deviations and weight with one more value."""
    if first_iteration:
        new_weight = tl.full(weight.shape, 1, weight.dtype)
        new_mean = value
        new_m2 = tl.zeros_like(m2)
    else:
        delta = value - mean
        new_weight = weight + 1
        new_mean = mean + delta / new_weight
        new_m2 = m2 + delta * (value - new_mean)
    return new_mean, new_m2, new_weight


@triton.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    """Return mean, sum of squared deviations and weight of two sets of values."""
    delta = mean_2 - mean_1
    new_weight = weight_1 + weight_2
    share = tl.where(new_weight == 0.0, 0.0, weight_2 / new_weight)
    return mean_1 + delta * share, m2_1 + m2_2 + delta * delta * weight_1 * share, new_weight


@triton.jit
def welford(mean, m2, weight, dim):
    """Return mean, sum of squared deviations and weight of all sets along a dimension."""
    return tl.reduce((mean, m2, weight), dim, welford_combine)


@triton.jit
def exp(x, use_fast_math: tl.constexpr):
    """Return e**x, by the approximate instruction or by libdevice."""
    if use_fast_math:
        result = tl.math.exp(x)
    else:
        result = libdevice.exp(x)
    return result


@triton.jit
def online_softmax_reduce(lhs_max, lhs_sum, dim, use_fast_math: tl.constexpr):
    """Return the maxima of a softmax's rows, and sums relative to them, from those of the columns."""
    row_max = max2(lhs_max, dim)
    row_max_column = row_max[:, None]
    delta = tl.where(row_max_column == float("-inf"), 0, lhs_max - row_max_column)
    return row_max, tl.sum(lhs_sum * exp(delta, use_fast_math), dim)


@triton.jit
def online_softmax_combine(lhs_max, lhs_sum, rhs_max, use_fast_math: tl.constexpr):
    """Return the maxima of a softmax, and sums relative to them, with one more value for each."""
    row_max = maximum(lhs_max, rhs_max)
    is_empty = row_max == float("-inf")
    lhs_scale = tl.where(is_empty, 1.0, exp(lhs_max - row_max, use_fast_math))
    rhs_scale = tl.where(is_empty, 1.0, exp(rhs_max - row_max, use_fast_math))
    return row_max, lhs_sum * lhs_scale + rhs_scale


@triton.jit
def select_one(x, mask, dim, keep_dims=False):
    """Return the bits of the only element along a dimension for which the mask is True."""
    bits = x.to(tl.core.get_int_dtype(x.dtype.primitive_bitwidth, False), bitcast=True)
    return tl.sum(bits * mask, dim, keep_dims).to(x.dtype, bitcast=True)


@triton.jit
def device_assert_then(cond, msg, r):
    """Return `r` after an assertion."""
    tl.device_assert(cond, msg)
    return r


@triton.jit
def randint64(seed, offset, low, high):
    """Return random int64 numbers from `low` on and below `high`."""
    low_bits, high_bits, _, _ = tl.randint4x(seed, offset)
    bits = low_bits.to(tl.uint64) | (high_bits.to(tl.uint64) << 32)
    return (bits % (high - low).to(tl.uint64)).to(tl.int64) + low
