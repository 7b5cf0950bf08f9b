"""Pooling: the taps of the window one after another over whole images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.memory_format import channels_last, channels_last_3d, contiguous_strides
from ..runtime.tensor_spec import TensorSpec
from .error_state import quiet
from .widen import compute_np
from .windows import Padding, Window


def window_of(call: StructuredCall) -> Window:
    """The call's window over its input."""
    pool = call.extra["pool"]
    spatial = call.args["self"].sizes[-len(pool.out) :]
    return Window(spatial, pool.kernel, pool.stride, pool.padding, pool.dilation, pool.out)


def batched(array: Any, window: Window) -> Any:
    """(C, *spatial) as a batch of one."""
    return array if array.ndim == len(window.out) + 2 else array[None]


def _is_channels_last(spec: TensorSpec) -> bool:
    """Whether channels are the fastest dimension."""
    return spec.suggest_memory_format() in (channels_last, channels_last_3d)


def _lowest(np_dtype: Any) -> Any:
    return -math.inf if np_dtype.kind == "f" else np.iinfo(np_dtype).min


def _flat_indices(window: Window) -> tuple[Any, Any]:
    """For each position the index in its plane of the window's corner and of its first element in the plane."""
    corner: Any = 0
    first: Any = 0
    for n, s, p, d, out in zip(
        window.spatial, window.stride, window.padding, window.dilation, window.out, strict=True
    ):
        start = np.arange(out) * s - p
        inside = start + np.maximum(0, -(start // d)) * d
        corner = np.add.outer(corner * n, start)
        first = np.add.outer(first * n, np.where(start < 0, inside, start))
    return corner, first


def _without_elements(window: Window) -> Any:
    """Which positions' windows lie in the border alone: `ceil_mode` and dilation make some; None if there is none."""
    empty: Any = False
    for n, k, s, p, d, out in zip(
        window.spatial, window.kernel, window.stride, window.padding, window.dilation, window.out, strict=True
    ):
        start = np.arange(out) * s - p
        first = start + np.maximum(0, -(start // d)) * d
        empty = np.logical_or.outer(empty, (first >= n) | (first > start + (k - 1) * d))
    return empty if empty.any() else None


def max_pool(call: StructuredCall) -> PlannedKernel:
    """The largest element under each window; of equals the first, of NaNs the last, as ATen's loop finds them."""
    spec = call.args["self"]
    if not (spec.dtype.is_floating_point or spec.dtype.name in call.extra.get("integers", ())):
        raise NotImplementedError(
            f"\"max_pool{len(call.extra['pool'].out)}d\" not implemented for '{spec.dtype.scalar_name}'"
        )
    window = window_of(call)
    np_dtype = compute_np(spec.dtype)
    is_float = np_dtype.kind == "f"
    lowest = _lowest(np_dtype)
    last = _is_channels_last(spec)
    pad = Padding(window, np_dtype, lowest, last)
    corner, first = _flat_indices(window)
    pitch = contiguous_strides(window.spatial)
    offsets = [
        sum(t * d * w for t, d, w in zip(tap, window.dilation, pitch, strict=True)) for tap in window.taps
    ]
    places = [(slice(None), slice(None), *window.slices(tap)) for tap in window.taps]

    def into(values: Any, indices: Any, array: Any) -> None:
        padded = pad(batched(array, window))
        if last:
            padded = np.moveaxis(padded, -1, 1)
        target, where = batched(values, window), batched(indices, window)
        best = np.full_like(target, lowest, np_dtype)
        where[...] = first
        for place, offset in zip(places, offsets, strict=True):
            found = padded[place]
            better = found > best
            if is_float:
                better |= found != found
            np.copyto(best, found, where=better)
            np.copyto(where, corner + offset, where=better)
        np.copyto(target, best, casting="unsafe")

    return PlannedKernel(quiet(into))


def max_pool_backward(call: StructuredCall) -> PlannedKernel:
    """Each gradient added to the element that its index names, in the order of positions.

    The index of a window without elements names none, whatever it is.
    """
    spec = call.args["self"]
    window = window_of(call)
    rank = len(window.out)
    empty = None if call.extra["pool"].adaptive else _without_elements(window)
    area = math.prod(window.spatial)
    planes = math.prod(spec.sizes[:-rank])
    base = (np.arange(planes) * area).reshape(*spec.sizes[:-rank], *(1,) * rank)
    is_disjoint = not call.extra["pool"].adaptive and all(
        s > (k - 1) * d for s, k, d in zip(window.stride, window.kernel, window.dilation, strict=True)
    )
    is_disjoint = is_disjoint and empty is None

    def into(out: Any, grad: Any, array: Any, indices: Any) -> None:
        if empty is not None:
            indices, grad = np.where(empty, 0, indices), np.where(empty, 0, grad)
        flat = (indices + base).reshape(-1)
        if is_disjoint:
            made = np.zeros(planes * area, grad.dtype)
            made[flat] = grad.reshape(-1)
        else:
            made = np.bincount(flat, grad.astype(np.float64).reshape(-1), planes * area)
        np.copyto(out, made.reshape(out.shape), casting="unsafe")

    return PlannedKernel(quiet(into))


def _divisors(window: Window, count_include_pad: bool, divisor_override: int | None) -> Any:
    """What each window's sum is divided by: elements in the input, or in it and its border, or as told."""
    if divisor_override is not None:
        return np.full(window.out, divisor_override, np.int64)
    counts: Any = 1
    for n, k, s, p, out in zip(
        window.spatial, window.kernel, window.stride, window.padding, window.out, strict=True
    ):
        start = np.arange(out) * s - p
        if count_include_pad:
            count = np.minimum(start + k, n + p) - start
        else:
            count = np.minimum(start + k, n) - np.maximum(start, 0)
        counts = np.multiply.outer(counts, count)
    return counts


def avg_pool(call: StructuredCall) -> PlannedKernel:
    """The mean under each window; integers are divided as C divides them."""
    spec = call.args["self"]
    window = window_of(call)
    if not (spec.dtype.is_floating_point or spec.dtype.name in call.extra["integers"]):
        name = "avg_pool2d" if len(window.out) == 2 else "avg_pool3d_out_frame"
        raise NotImplementedError(f"\"{name}\" not implemented for '{spec.dtype.scalar_name}'")
    np_dtype = compute_np(spec.dtype)
    last = _is_channels_last(spec)
    pad = Padding(window, np_dtype, 0, last)
    divisors = _divisors(window, call.args["count_include_pad"], call.args["divisor_override"])
    divide = np.divide if np_dtype.kind in "fc" else _divide_truncating
    divisors = divisors.astype(np_dtype)
    places = [(slice(None), slice(None), *window.slices(tap)) for tap in window.taps]

    def into(out: Any, array: Any) -> None:
        padded = pad(batched(array, window))
        if last:
            padded = np.moveaxis(padded, -1, 1)
        target = batched(out, window)
        total = np.zeros_like(target, np_dtype)
        for place in places:
            total += padded[place]
        np.copyto(target, divide(total, divisors), casting="unsafe")

    return PlannedKernel(quiet(into))


def _divide_truncating(a: Any, b: Any) -> Any:
    return np.sign(a) * (np.abs(a) // np.abs(b)) * np.sign(b)


def avg_pool_backward(call: StructuredCall) -> PlannedKernel:
    """Each gradient, divided as its window's sum was, added to every element under the window."""
    spec = call.args["self"]
    window = window_of(call)
    np_dtype = compute_np(spec.dtype)
    divisors = _divisors(window, call.args["count_include_pad"], call.args["divisor_override"]).astype(
        np_dtype
    )
    places = [(slice(None), slice(None), *window.slices(tap)) for tap in window.taps]
    inside = (slice(None), slice(None), *window.inside)

    def into(out: Any, grad: Any, array: Any) -> None:
        share = batched(grad, window) / divisors
        full = np.zeros((*share.shape[:2], *window.padded), np_dtype)
        for place in places:
            full[place] += share
        np.copyto(batched(out, window), full[inside], casting="unsafe")

    return PlannedKernel(quiet(into))


for _rank in (2, 3):
    register_stub(f"max_pool{_rank}d_with_indices_stub", "cpu", max_pool)
    register_stub(f"max_pool{_rank}d_with_indices_backward_stub", "cpu", max_pool_backward)
    register_stub(f"adaptive_max_pool{_rank}d_backward_stub", "cpu", max_pool_backward)
    register_stub(f"avg_pool{_rank}d_stub", "cpu", avg_pool)
    register_stub(f"avg_pool{_rank}d_backward_stub", "cpu", avg_pool_backward)
