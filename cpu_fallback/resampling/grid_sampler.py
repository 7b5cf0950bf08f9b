"""Sampling of images at given places (ATen/native/GridSampler.cpp): the taps of all places, then a gather."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.meta.grid_sampler import BICUBIC, BILINEAR, BORDER, NEAREST, REFLECTION, ZEROS
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from ..widen import compute_np
from .compiled_sampling import Modes, sample_by_loop
from .line_maps import keys
from .small_grid_sampler import linear_sampler

Array = np.ndarray[Any, Any]


def check_floating(call: StructuredCall, spec: Any) -> None:
    """Refuse what is not floating."""
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)


def unnormalized(x: Array, n: int, align_corners: bool) -> tuple[Array, float]:
    """Coordinates in [-1, 1] as places in a dimension, and how fast those move."""
    if align_corners:
        return (x + 1) * x.dtype.type(0.5) * (n - 1), 0.5 * (n - 1)
    return ((x + 1) * n - 1) * x.dtype.type(0.5), 0.5 * n


def reflected(x: Array, n: int, align_corners: bool) -> tuple[Array, Array]:
    """Return places mirrored at the edges until they lie between them, and the sign with which they move."""
    low, high = (0, 2 * (n - 1)) if align_corners else (-1, 2 * n - 1)
    if low == high:
        return np.zeros_like(x), np.zeros_like(x)
    least, span = x.dtype.type(low / 2), x.dtype.type((high - low) / 2)
    beyond = x - least
    sign = np.where(beyond < 0, -1, 1).astype(x.dtype)
    beyond = np.abs(beyond)
    extra = np.fmod(beyond, span)
    turns = np.floor(beyond / span)
    even = np.fmod(turns, 2) == 0
    return np.where(even, extra + least, span - extra + least), np.where(even, sign, -sign)


def clipped(x: Array, n: int | Array) -> tuple[Array, Array]:
    """Return places in [0, n - 1], a NaN at 0, and whether they move."""
    moving = (x > 0) & (x < n - 1)
    last = np.asarray(n - 1, x.dtype)
    return np.fmin(np.fmax(x, x.dtype.type(0)), last), moving.astype(x.dtype)


def placed(x: Array, n: int, mode: int, align_corners: bool) -> tuple[Array, Array]:
    """Return places within the input, as the padding mode has them, and how fast they move."""
    if mode == REFLECTION:
        x, sign = reflected(x, n, align_corners)
        x, moving = clipped(x, n)
        return safe(x), sign * moving
    if mode == BORDER:
        x, moving = clipped(x, n)
        return x, moving
    return safe(x), np.ones_like(x)


def safe(x: Array) -> Array:
    """Clamp positions to the range of an integer; out-of-range ones are outside of every input."""
    return np.where(np.isfinite(x) & (np.abs(x) < 2.0**31 - 2), x, x.dtype.type(-100))


class Taps:
    """Taps of one dimension: the elements of each position, -1 for none, their weights, and the weights'
    derivatives.
    """

    def __init__(self, x: Array, n: int, interpolation: int, mode: int, align_corners: bool) -> None:
        real = x.dtype.type
        x, speed = unnormalized(x, n, align_corners)
        if interpolation == BICUBIC:
            self._cubic(x, n, mode, align_corners, speed)
            return
        x, moving = placed(x, n, mode, align_corners)
        if interpolation == NEAREST:
            self.index = np.rint(x).astype(np.int64)[..., None]
            self.weight = np.ones_like(self.index, x.dtype)
            self.slope = np.zeros_like(self.weight)
        else:
            first = np.floor(x)
            part = x - first
            self.index = first.astype(np.int64)[..., None] + np.arange(2)
            self.weight = np.stack([real(1) - part, part], -1)
            rate = moving * real(speed)
            self.slope = np.stack([-rate, rate], -1)
        self.index = np.where((self.index >= 0) & (self.index < n), self.index, -1)

    def _cubic(self, x: Array, n: int, mode: int, align_corners: bool, speed: float) -> None:
        real, a = x.dtype.type, x.dtype.type(-0.75)
        x = safe(x)
        first = np.floor(x)
        part = (x - first)[..., None]
        offsets = np.arange(-1, 3).astype(x.dtype)
        positions = first[..., None] + offsets
        if mode == BORDER:
            positions = clipped(positions, n)[0]
        elif mode == REFLECTION:
            positions = clipped(reflected(positions, n, align_corners)[0], n)[0]
        self.index = safe(positions).astype(np.int64)
        self.index = np.where((self.index >= 0) & (self.index < n), self.index, -1)
        distance = part - offsets
        far = np.abs(distance)
        self.weight = keys(far, a)
        near_slope = (3 * (a + 2) * far - 2 * (a + 3)) * far
        far_slope = (3 * a * far - 10 * a) * far + 8 * a
        slope = np.where(far <= 1, near_slope, far_slope)
        self.slope = np.where(distance < 0, -slope, slope) * real(speed)


def taps_along(
    grid: Array, size: Sequence[int], interpolation: int, mode: int, align_corners: bool
) -> list[Taps]:
    """Return the taps of each dimension, outermost first; the grid has the innermost one first."""
    rank = len(size)
    return [Taps(grid[..., rank - 1 - d], size[d], interpolation, mode, align_corners) for d in range(rank)]


def joined(taps: Sequence[Taps], size: Sequence[int]) -> tuple[Array, Array]:
    """Return flat element indices, the plane's size for none, and weights: (..., taps of all dimensions)."""
    count = math.prod(size)
    index, weight = [], []
    for choice in itertools.product(*(range(tap.index.shape[-1]) for tap in taps)):
        flat: Any = 0
        product: Any = 1
        exists: Any = True
        for tap, k, n in zip(taps, choice, size, strict=True):
            flat = flat * n + tap.index[..., k]
            product = product * tap.weight[..., k]
            exists = exists & (tap.index[..., k] >= 0)
        index.append(np.where(exists, flat, count))
        weight.append(product)
    return np.stack(index, -1), np.stack(weight, -1)


def _modes(call: StructuredCall) -> Modes:
    return call.args["interpolation_mode"], call.args["padding_mode"], call.args["align_corners"]


def grid_sampler(call: StructuredCall) -> PlannedKernel:
    """Compute each position's weighted sum of elements, in the order of the taps."""
    spec = call.args["input"]
    check_floating(call, spec)
    modes, np_dtype, size = _modes(call), compute_np(spec.dtype), spec.sizes[2:]

    def into(out: Array, image: Array, grid: Array) -> None:
        if out.size == 0:
            return
        n, c = image.shape[:2]
        index, weight = joined(taps_along(grid.astype(np_dtype, copy=False), size, *modes), size)
        count = math.prod(size)
        index, weight = index.reshape(n, -1, index.shape[-1]), weight.reshape(n, -1, weight.shape[-1])
        total = np.empty((index.shape[1], c), np_dtype)
        for sample in range(n):
            # A row for each element: what a place needs of all channels lies together.
            rows = np.ascontiguousarray(image[sample].reshape(c, count).T, np_dtype)
            total.fill(0)
            for k in range(index.shape[-1]):
                indices = index[sample, :, k]
                absent = indices == count
                elements = np.take(rows, np.where(absent, 0, indices), 0)
                elements *= weight[sample, :, k, None]
                elements[absent] = 0
                total += elements
            np.copyto(out[sample], total.T.reshape(out.shape[1:]), casting="unsafe")

    if modes[:2] == (BILINEAR, ZEROS) and call.outputs[0].numel and spec.numel:
        small = linear_sampler(spec, call.outputs[0].sizes[2:], modes[2], np_dtype)
        if small is not None:
            chosen(
                "all places at once", "{} elements and {} results are few", spec.numel, call.outputs[0].numel
            )
            return _sampling(call, modes, small)
    chosen("sample by sample", "results are many, or the mode is not bilinear with zeros")
    return _sampling(call, modes, into)


def _sampling(
    call: StructuredCall, modes: Modes, eager: Callable[[Array, Array, Array], None]
) -> PlannedKernel:
    """Return the kernel that samples by a loop as soon as there is one, and by NumPy's passes until then."""
    by_loop = sample_by_loop(call, modes, quietly(eager))
    return PlannedKernel(eager, quiet=True) if by_loop is None else PlannedKernel(by_loop)


def grid_sampler_taps(call: StructuredCall) -> PlannedKernel:
    """Compute the indices and weights of `_grid_sampler_taps`."""
    spec, size = call.args["grid"], tuple(call.args["size"])
    check_floating(call, spec)
    modes, np_dtype = _modes(call), compute_np(spec.dtype)

    def into(index: Array, weight: Array, grid: Array) -> None:
        if index.size == 0:
            return
        indices, weights = joined(taps_along(grid.astype(np_dtype, copy=False), size, *modes), size)
        np.copyto(index, indices.reshape(index.shape))
        np.copyto(weight, weights.reshape(weight.shape), casting="unsafe")

    return PlannedKernel(quietly(into))


for _rank in (2, 3):
    register_stub(f"grid_sampler_{_rank}d_stub", "cpu", grid_sampler)
register_stub("_grid_sampler_taps_stub", "cpu", grid_sampler_taps)
