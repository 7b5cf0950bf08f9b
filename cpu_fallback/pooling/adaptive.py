"""Pooling over even shares of each dimension, one dimension after another.

Output i of a dimension has the inputs from floor(i n / out) to ceil((i + 1) n / out). So an input lies in outputs that
the same rule gives with the sizes exchanged, and gradients are gathered as outputs are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..reduction.sums import pairwise_sum
from ..resampling.dense_maps import SMALL, mapped
from ..widen import compute_np
from ..window_taps import even_taps, maxima_by_table
from ..windows import Window
from . import compiled
from .pooling import maxima_of

Array = np.ndarray[Any, Any]


def shares(n: int, out: int) -> Iterator[tuple[Array, Array]]:
    """Yield the taps of `out` adaptive windows over `n` elements: each tap's positions, and the windows that
    have it.
    """
    o = np.arange(out)
    start = o * n // max(out, 1)
    end = -(-(o + 1) * n // max(out, 1))
    for tap in range(int((end - start).max(initial=0))):
        position = start + tap
        yield np.minimum(position, n - 1), position < end


def sizes_of(n: int, out: int) -> Array:
    """Return the number of elements of each adaptive window."""
    o = np.arange(out)
    return -(-(o + 1) * n // max(out, 1)) - o * n // max(out, 1)


def along(values: Array, axis: int) -> Array:
    """Return a vector shaped to broadcast along an axis counted from the end."""
    return values.reshape(-1, *(1,) * (-1 - axis))


FEW = 64
"""Number of windows of a dimension up to which each is summed by a separate call."""


LONG = 32
"""Window length from which one call finds the maxima of all windows."""


def is_even(spatial: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """Return True if all adaptive windows have the same size and do not overlap."""
    return all(n and o and n % o == 0 for n, o in zip(spatial, out, strict=True))


def summed(array: Array, out: tuple[int, ...]) -> Array:
    """Sum the adaptive windows of the last dimensions, outermost first, where NumPy adds whole rows."""
    for axis, size in zip(range(-len(out), 0), out, strict=True):
        n = array.shape[axis]
        if n == size:
            continue
        if size and n % size == 0:
            dim = array.ndim + axis
            parts = array.reshape(*array.shape[:dim], size, n // size, *array.shape[dim + 1 :])
            array = pairwise_sum(parts, (dim + 1,), array.dtype).squeeze(dim + 1)
            continue
        total = np.zeros((*array.shape[:axis], size, *array.shape[axis:][1:]), array.dtype)
        if size <= FEW and size <= n:
            target, whole = np.moveaxis(total, axis, 0), np.moveaxis(array, axis, 0)
            for o in range(size):
                share = whole[o * n // size : -(-(o + 1) * n // size)]
                target[o] = pairwise_sum(share, (0,), array.dtype)[0]
        else:
            for dim, inside in shares(n, size):
                total += np.where(along(inside, axis), np.take(array, dim, axis), array.dtype.type(0))
        array = total
    return array


def divisors(spatial: tuple[int, ...], out: tuple[int, ...], np_dtype: np.dtype[Any]) -> Array:
    """Return the number of elements of each window."""
    counts = np.ones((), np.int64)
    for n, o in zip(spatial, out, strict=True):
        counts = np.multiply.outer(counts, sizes_of(n, o))
    return counts.astype(np_dtype)


def adaptive_average(call: StructuredCall) -> PlannedKernel:
    """Compute the mean of each window."""
    spec, out = call.args["self"], call.extra["pool"].out
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    np_dtype = compute_np(spec.dtype)
    size = divisors(spec.sizes[-len(out) :], out, np_dtype)

    def into(grad_input: Array, array: Array) -> None:
        np.copyto(grad_input, summed(array.astype(np_dtype, copy=False), out) / size, casting="unsafe")

    general = quietly(into)
    loop = compiled.averages(spec, partial(even_taps, spec.sizes[-len(out) :], out), size, general)
    if loop is not None:
        return compiled.planned(loop, spec)
    if not 0 < spec.numel <= SMALL or not math.prod(out):
        chosen("running sums", "{} elements are more than {}, or none", spec.numel, SMALL)
        return PlannedKernel(general)
    matrices = [line.matrix for line in even_taps(spec.sizes[-len(out) :], out)]
    small = mapped(spec, call.outputs[0], matrices, np_dtype, general, size, exact=True)
    if small is None:
        chosen("running sums", "products would not be exact in {}", spec.dtype.name)
        return PlannedKernel(general)
    chosen("products with matrices of windows", "{} elements are at most {}", spec.numel, SMALL)
    return small


def adaptive_average_backward(call: StructuredCall) -> PlannedKernel:
    """Divide each gradient by its window's size, and add it to every element of the window."""
    spec, out = call.args["self"], call.extra["pool"].out
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    np_dtype = compute_np(spec.dtype)
    spatial = spec.sizes[-len(out) :]
    size = divisors(spatial, out, np_dtype)
    even = is_even(spatial, out)
    if even:
        chosen("shares", "each window of {} has as many elements", out)
    else:
        chosen("running sums of shares", "windows of {} differ in size", out)
    lead = spec.ndim - len(out)
    # (..., out, elements of a share) for each dimension, and the gradient to go with it.
    parts = [part for n, o in zip(spatial, out, strict=True) for part in (o, n // max(o, 1))]
    spread = (slice(None),) * lead + (slice(None), None) * len(out)

    def into(grad_input: Array, grad: Array, array: Array) -> None:
        if even and grad_input.flags.c_contiguous:
            share = grad.astype(np_dtype, copy=False) / size
            np.copyto(grad_input.reshape(*grad_input.shape[:lead], *parts), share[spread], casting="unsafe")
            return
        np.copyto(grad_input, summed(grad / size, spatial), casting="unsafe")

    general, lines = quietly(into), partial(even_taps, spatial, out)
    loop = compiled.averages_backward(spec, call.args["grad_output"], lines, size, general)
    return PlannedKernel(general) if loop is None else compiled.planned(loop, spec)


def adaptive_max(call: StructuredCall) -> PlannedKernel:
    """Compute the maximum of each window: the first of equal elements, the last of NaNs."""
    spec, out = call.args["self"], call.extra["pool"].out
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    np_dtype = compute_np(spec.dtype)
    spatial = spec.sizes[-len(out) :]
    general = quietly(_maxima(spec, spatial, out, np_dtype))
    if not spec.numel or not math.prod(out):
        return PlannedKernel(general)
    loop = compiled.maxima(spec, partial(even_taps, spatial, out), general)
    if loop is not None:
        return compiled.planned(loop, spec)
    table = maxima_by_table(spec, call.outputs, even_taps(spatial, out), np_dtype, general)
    if table is None:
        chosen("a pass for each tap", "{} elements are too many for a table", spec.numel)
        return PlannedKernel(general)
    chosen("a table of windows", "{} elements are few", spec.numel)
    return table


def _line_maxima(
    spec: TensorSpec, area: int, n: int, np_dtype: np.dtype[Any], general: Callable[[Any, Any, Any], None]
) -> Callable[[Any, Any, Any], None]:
    """Return the maxima kernel of lines of `n` elements in planes of `area`; `general` serves lines with a NaN."""
    starts = np.arange(0, spec.numel, n)
    firsts = starts % area

    def into(out: Any, indices: Any, array: Any) -> None:
        lines = array.reshape(-1, n).astype(np_dtype, copy=False)
        indices_in_lines = lines.argmax(1)
        best = lines.take(indices_in_lines + starts)
        if np.isnan(best.dot(best)):
            general(out, indices, array)
            return
        np.copyto(out, best.reshape(out.shape), casting="unsafe")
        np.copyto(indices, np.add(indices_in_lines, firsts, indices_in_lines).reshape(indices.shape))

    return into


def _maxima(
    spec: TensorSpec, spatial: tuple[int, ...], out: tuple[int, ...], np_dtype: np.dtype[Any]
) -> Callable[[Any, Any, Any], None]:
    """Return the kernel of `adaptive_max` over (values, indices, input)."""
    if is_even(spatial, out):
        none = (0,) * len(out)
        kernel = tuple(n // o for n, o in zip(spatial, out, strict=True))
        window = Window(spatial, kernel, kernel, none, (1,) * len(out), out)
        general = maxima_of(spec, window)
        if spec.is_contiguous and kernel[-1] >= LONG and math.prod(kernel) == kernel[-1]:
            return _line_maxima(spec, math.prod(spatial), kernel[-1], np_dtype, general)
        return general
    positions = np.arange(math.prod(spatial)).reshape(spatial)

    def into(grad_input: Array, indices: Array, array: Array) -> None:
        best = array.astype(np_dtype, copy=False)
        where: Any = np.broadcast_to(positions, best.shape)
        for axis, size in zip(range(-1, -len(out) - 1, -1), reversed(out), strict=True):
            n = best.shape[axis]
            maximum: Any = None
            for tap_positions, is_inside in shares(n, size):
                candidates, candidate_positions = (
                    np.take(best, tap_positions, axis),
                    np.take(where, tap_positions, axis),
                )
                if maximum is None:
                    maximum, argmax = candidates, candidate_positions
                    continue
                better = along(is_inside, axis) & ((candidates > maximum) | (candidates != candidates))
                maximum, argmax = (
                    np.where(better, candidates, maximum),
                    np.where(better, candidate_positions, argmax),
                )
            best, where = (maximum, argmax) if maximum is not None else (grad_input, indices)
        np.copyto(grad_input, best, casting="unsafe")
        np.copyto(indices, where)

    return into


for _rank in (2, 3):
    register_stub(f"_adaptive_avg_pool{_rank}d_stub", "cpu", adaptive_average)
    register_stub(f"_adaptive_avg_pool{_rank}d_backward_stub", "cpu", adaptive_average_backward)
    register_stub(f"adaptive_max_pool{_rank}d_stub", "cpu", adaptive_max)
