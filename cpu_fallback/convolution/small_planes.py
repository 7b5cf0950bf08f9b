"""Depthwise convolutions of small planes: each channel is a matmul with the matrix of its taps.

The matrix (elements of a plane, positions) has a channel's taps where a window covers an element, and zeros
elsewhere. A few multiplications by zero replace many short rows. The gradient of the input is a matmul with
the transposed matrix. The gradient of the weight is the matmul of both planes, and a matmul with ones sums
the elements of each tap. A zero times an infinite element is NaN: `is_finite` detects results that are not
finite.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..windows import Window
from .columns import Convolution

MAX_ELEMENTS = 1 << 10
"""Elements of a channel's matrix up to which one matmul takes less time than its taps one by one."""
MAX_BYTES = 4 << 20
"""Bytes of all channels' matrices, which each call makes again."""

MIN_PART = 1 << 22
"""Multiplications of a thread's channels."""

Array = np.ndarray[Any, Any]


def is_small(channels: int, window: Window, dtype: np.dtype[Any]) -> bool:
    """Return True if the matrices of this many channels are small."""
    elements = math.prod(window.spatial) * math.prod(window.out)
    return 0 < elements <= MAX_ELEMENTS and channels * elements * dtype.itemsize <= MAX_BYTES


def tap_table(window: Window) -> Array:
    """Return the tap that covers each element (row) at each position (column), or the number of taps for none."""
    flat = np.zeros((1, 1), np.int64)
    there = np.ones((1, 1), np.bool_)
    for n, kernel, stride, padding, dilation, out in zip(*window, strict=True):
        distance = np.arange(n)[:, None] + padding - np.arange(out) * stride
        tap, rest = np.divmod(distance, dilation)
        met = (rest == 0) & (tap >= 0) & (tap < kernel)
        sizes = (len(flat) * n, flat.shape[1] * out)
        flat = (flat[:, None, :, None] * kernel + np.where(met, tap, 0)[:, None]).reshape(sizes)
        there = (there[:, None, :, None] & met[:, None]).reshape(sizes)
    return np.where(there, flat, math.prod(window.kernel))


def tap_sums(window: Window, dtype: np.dtype[Any]) -> Array:
    """Ones (elements and positions, taps) where a tap is."""
    table = tap_table(window).reshape(-1, 1)
    return (table == np.arange(math.prod(window.kernel))).astype(dtype)


def is_finite(array: Array) -> bool:
    """Return True if every element is finite; also return False if the sum of squares overflows."""
    return math.isfinite(np.vdot(array, array))


def _matrices(window: Window, dtype: np.dtype[Any]) -> Callable[[Array], Array]:
    """Expand a weight (channels, 1, *kernel) to matrices (channels, elements, positions)."""
    table, taps = tap_table(window), math.prod(window.kernel)

    def matrices(weight: Array) -> Array:
        line = np.zeros((len(weight), taps + 1), dtype)
        line[:, :taps] = weight.reshape(-1, taps)
        return line.take(table, axis=1)

    return matrices


def _multiply(left: Array, right: Array, out: Array) -> None:
    """Multiply the matrices of all channels, on several threads."""
    work = out[0].size * left.shape[2]

    def some(first: int, last: int) -> None:
        np.matmul(left[first:last], right[first:last], out=out[first:last])

    parallel_for(0, len(out), max(1, MIN_PART // work), some)


def forward(n: int, channels: int, window: Window, dtype: np.dtype[Any]) -> Callable[..., bool]:
    """Return ``into(out, input, weight, bias)`` for results in C order; False if a result is not finite."""
    return _products(n, channels, dtype, _matrices(window, dtype))


def backward_input(n: int, channels: int, window: Window, dtype: np.dtype[Any]) -> Callable[..., bool]:
    """Return ``into(out, grad, weight, bias)`` for results in C order; False if a result is not finite."""
    matrices = _matrices(window, dtype)
    return _products(n, channels, dtype, lambda weight: matrices(weight).swapaxes(1, 2))


def _products(
    n: int, channels: int, dtype: np.dtype[Any], matrices: Callable[[Array], Array]
) -> Callable[..., bool]:
    """Return a kernel that multiplies every plane by its channel's matrix, which `matrices` makes from the
    weight.
    """

    def into(out: Array, given: Array, weight: Array, bias: Array | None = None) -> bool:
        planes = np.ascontiguousarray(given, dtype).reshape(n, channels, -1).swapaxes(0, 1)
        _multiply(planes, matrices(weight), out.reshape(n, channels, -1).swapaxes(0, 1))
        if bias is not None:
            out += bias.reshape(-1, *(1,) * (out.ndim - 2))
        return is_finite(out)

    return into


def backward_weight(n: int, channels: int, window: Window, dtype: np.dtype[Any]) -> Callable[..., bool]:
    """Return ``into(out, grad, input)`` for results in C order; False if a result is not finite."""
    sums = tap_sums(window, dtype)

    def into(out: Array, grad: Array, input: Array) -> bool:
        elements = np.ascontiguousarray(input, dtype).reshape(n, channels, -1).transpose(1, 2, 0)
        positions = np.ascontiguousarray(grad, dtype).reshape(n, channels, -1).swapaxes(0, 1)
        met = np.empty((channels, elements.shape[1], positions.shape[2]), dtype)
        _multiply(elements, positions, met)
        np.matmul(met.reshape(channels, -1), sums, out=out.reshape(channels, -1))
        return is_finite(out)

    return into


def applies(conv: Convolution, spec: TensorSpec) -> bool:
    """Return True for a depthwise convolution of small planes."""
    return (
        1 < conv.groups == conv.channels == conv.outputs
        and conv.multiply is np.matmul
        and spec.np_dtype == conv.dtype
        and spec.is_contiguous
        and not conv.window.is_pointwise
        and is_small(conv.channels, conv.window, conv.dtype)
    )


def planned(
    call: StructuredCall,
    conv: Convolution,
    kernel: Callable[..., Callable[..., bool]],
    general: Callable[[StructuredCall, Convolution], PlannedKernel],
) -> PlannedKernel:
    """Plan a depthwise convolution of small planes, with the general kernel for results that are not finite."""
    why = "there is a group for each of {} channels, whose planes have {} elements"
    chosen("matrices of taps", why, conv.channels, math.prod(conv.window.spatial))
    by_planes = quietly(kernel(conv.n, conv.channels, conv.window, conv.dtype))
    otherwise = functools.cache(lambda: general(call, conv).into)

    def into(out: Any, *args: Any) -> None:
        if not by_planes(out, *args):
            otherwise()(out, *args)

    return PlannedKernel(into)
