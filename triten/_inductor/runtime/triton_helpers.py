"""Functions of Triton kernels by the names of PyTorch's code generator (`torch._inductor.runtime.triton_helpers`).

Minima, maxima and their places are NaN where an operand is, as PyTorch's operators have it.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from triton.language.extra import libdevice

__all__ = [
    "any",
    "div_floor_integer",
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
    "prod",
    "promote_to_tensor",
    "remainder_integer",
    "welford_combine",
    "welford_reduce",
]


@triton.jit
def promote_to_tensor(x: Any) -> Any:
    """Return a number as a tensor."""
    return x + tl.zeros((1,), tl.int1)


@triton.jit
def div_floor_integer(a: Any, b: Any) -> Any:
    """Return the quotient of two integers, rounded down."""
    quotient = a // b
    remainder = a % b
    return tl.where((remainder != 0) & ((a < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def remainder_integer(a: Any, b: Any) -> Any:
    """Return the remainder of two integers, with the sign of `b`."""
    remainder = a % b
    return tl.where((remainder != 0) & ((a < 0) != (b < 0)), remainder + b, remainder)


@triton.jit
def is_floating(x: Any) -> Any:
    """Return whether a value is floating."""
    return promote_to_tensor(x).dtype.is_floating()


@triton.jit
def minimum(a: Any, b: Any) -> Any:
    """Return the smaller one of two values, NaN if one is."""
    mask = a < b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def maximum(a: Any, b: Any) -> Any:
    """Return the greater one of two values, NaN if one is."""
    mask = a > b
    if is_floating(a):
        mask |= a != a
    return tl.where(mask, a, b)


@triton.jit
def min2(a: Any, dim: Any) -> Any:
    """Return the minima along a dimension."""
    return tl.reduce(a, dim, minimum)


@triton.jit
def max2(a: Any, dim: Any) -> Any:
    """Return the maxima along a dimension."""
    return tl.reduce(a, dim, maximum)


@triton.jit
def _product(a: Any, b: Any) -> Any:
    return a * b


@triton.jit
def prod(input: Any, axis: Any) -> Any:
    """Return the products along a dimension."""
    return tl.reduce(input, axis, _product)


@triton.jit
def _or(a: Any, b: Any) -> Any:
    return a | b


@triton.jit
def any(a: Any, dim: Any) -> Any:
    """Return whether an element along a dimension is True."""
    return tl.reduce(a, dim, _or)


@triton.jit
def minimum_with_index(a_value: Any, a_index: Any, b_value: Any, b_index: Any) -> Any:
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
def maximum_with_index(a_value: Any, a_index: Any, b_value: Any, b_index: Any) -> Any:
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
def min_with_index(value: Any, index: Any, dim: Any) -> Any:
    """Return the minima along a dimension, and their indices."""
    return tl.reduce((value, index), dim, minimum_with_index)


@triton.jit
def max_with_index(value: Any, index: Any, dim: Any) -> Any:
    """Return the maxima along a dimension, and their indices."""
    return tl.reduce((value, index), dim, maximum_with_index)


@triton.jit
def welford_reduce(value: Any, mean: Any, m2: Any, weight: Any, first_iteration: Any) -> Any:
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
def welford_combine(mean_1: Any, m2_1: Any, weight_1: Any, mean_2: Any, m2_2: Any, weight_2: Any) -> Any:
    """Return mean, sum of squared deviations and weight of two sets of values."""
    delta = mean_2 - mean_1
    new_weight = weight_1 + weight_2
    share = tl.where(new_weight == 0.0, 0.0, weight_2 / new_weight)
    return mean_1 + delta * share, m2_1 + m2_2 + delta * delta * weight_1 * share, new_weight
