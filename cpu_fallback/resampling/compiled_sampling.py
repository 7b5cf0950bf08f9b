"""Sampling of images by compiled loops, once NumPy has sampled enough elements (`sampling_loop.py`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.meta.grid_sampler import BILINEAR, BORDER, NEAREST, ZEROS
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cpu.loop_requests import DeferredLoop, Loop, Sharing, eager_until_compiled, shared_loop
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

Array = np.ndarray[Any, Any]
Modes = tuple[int, int, bool]
"""Interpolation mode, padding mode, and whether -1 and 1 are the centers of the outermost elements."""

COMPILE_THRESHOLD = 1 << 20
"""Compile a loop once NumPy has sampled this many elements."""
LEAST_WORK = 1 << 8
"""Elements that NumPy samples in the time that a call costs it in any case."""
DTYPES = ("float32", "float64")
MAX_EXTENT = 1 << 31
"""Planes and dimensions are below this: offsets are 32 bits."""
PARTS = 16
"""Parts that threads take one by one, about."""
FUSED_FROM = 4
"""Samples from which a part computes both gradients of some samples. Of fewer samples, parts compute one gradient: of
some channels of the image, or of some positions.
"""
SHARED_FROM, WAKING_FROM = 1 << 15, 1 << 17
"""Elements from which awake threads share a loop, and from which sleeping ones are woken for it."""


def sample_by_loop(
    call: StructuredCall, modes: Modes, eager: Callable[[Array, Array, Array], object]
) -> Callable[[Array, Array, Array], None] | None:
    """Return ``into(out, image, grid)``, which samples by a loop as soon as there is one; None for other calls."""
    image, (out,) = call.args["input"], call.outputs
    if not is_served(image, modes) or not out.is_contiguous or not out.numel:
        return None

    def prepare(loop: Loop) -> Callable[[Array, Array, Array], None]:
        from .sampling_loop import WORKSPACE

        channels, positions = out.sizes[1], math.prod(out.sizes[2:])
        numbers = [
            _numbers(image, positions, samples, some, (0, channels))
            for samples, some in _ranges(out.sizes[0], positions, is_split=out.numel >= SHARED_FROM)
        ]
        sharing = Sharing.of(out.numel, SHARED_FROM, WAKING_FROM)
        run = shared_loop(loop, numbers, sharing, (3, WORKSPACE))

        def into(target: Array, array: Array, grid: Array) -> None:
            if np.may_share_memory(target, array) or np.may_share_memory(target, grid):
                eager(target, array, grid)
            else:
                run(target, array, np.ascontiguousarray(grid))

        return into

    return eager_until_compiled(eager, _loop("sample", image, modes), max(out.numel, LEAST_WORK), prepare)


def gradients_by_loop(
    image: TensorSpec,
    positions: int,
    modes: Modes,
    mask: tuple[bool, bool],
    eager: Callable[..., object],
) -> Callable[..., None] | None:
    """Return ``into(of_input, of_grid, grad, image, grid)``, which works by a loop as soon as there is one.

    Gradients that `mask` does not ask for are None. Return None for other calls.
    """
    # The loop's offsets are those of the image and of its gradient, which is contiguous.
    image = TensorSpec.contiguous(image.sizes, image.dtype, image.device)
    if not is_served(image, modes) or (modes[0] == NEAREST and not mask[0]):
        return None
    work = math.prod(image.sizes[:2]) * positions
    if not work:
        return None

    def prepare(loop: Loop) -> Callable[..., None]:
        from .sampling_loop import WORKSPACE

        numbers = _gradient_parts(image, positions, mask, is_split=work >= SHARED_FROM)
        run = shared_loop(loop, numbers, Sharing.of(work, SHARED_FROM, WAKING_FROM), (5, WORKSPACE))
        unused = np.empty(0, np.float32)

        def into(
            of_input: Array | None, of_grid: Array | None, grad: Array, array: Array, grid: Array
        ) -> None:
            if of_grid is not None and modes[0] == NEAREST:
                of_grid.fill(0)
            run(
                unused if of_input is None else of_input,
                unused if of_grid is None else of_grid,
                np.ascontiguousarray(grad),
                np.ascontiguousarray(array) if mask[1] else array,
                np.ascontiguousarray(grid),
            )

        return into

    return eager_until_compiled(eager, _loop("gradient", image, modes), max(work, LEAST_WORK), prepare)


def is_served(image: TensorSpec, modes: Modes) -> bool:
    """Return True if there is a loop for the modes, and its offsets reach all elements of the image's planes."""
    interpolation, padding, _ = modes
    if image.ndim != 4 or image.dtype.name not in DTYPES:
        return False
    if interpolation not in (BILINEAR, NEAREST) or padding not in (ZEROS, BORDER):
        return False
    extent = 1 + sum((n - 1) * step for n, step in zip(image.sizes[2:], image.strides[2:], strict=True))
    return max(extent, *image.sizes[2:]) < MAX_EXTENT


def _pieces(size: int, parts: int) -> list[tuple[int, int]]:
    """Return about this many ranges that cover `size`."""
    step = -(-size // parts)
    return [(i, min(i + step, size)) for i in range(0, size, step)]


def _ranges(samples: int, positions: int, is_split: bool) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return ranges of samples with ranges of their positions: one of all unless they are split."""
    if not is_split:
        return [((0, samples), (0, positions))]
    if samples >= PARTS:
        return [(some, (0, positions)) for some in _pieces(samples, PARTS)]
    pieces = _pieces(positions, -(-PARTS // samples))
    return [((i, i + 1), piece) for i in range(samples) for piece in pieces]


def _gradient_parts(
    image: TensorSpec, positions: int, mask: tuple[bool, bool], is_split: bool
) -> list[Array]:
    samples, channels = image.sizes[:2]
    every = (0, positions), (0, channels)
    if not is_split:
        return [_numbers(image, positions, (0, samples), *every, *mask)]
    if samples >= FUSED_FROM:
        return [_numbers(image, positions, some, *every, *mask) for some in _pieces(samples, PARTS)]
    parts = []
    for i in range(samples):
        if mask[0]:
            some_channels = _pieces(channels, PARTS // samples)
            parts += [
                _numbers(image, positions, (i, i + 1), every[0], some, True, False) for some in some_channels
            ]
        if mask[1]:
            some_positions = _pieces(positions, PARTS // samples)
            parts += [
                _numbers(image, positions, (i, i + 1), some, every[1], False, True) for some in some_positions
            ]
    return parts


def _numbers(image: TensorSpec, positions: int, *ranges_and_flags: Any) -> Array:
    """Return the numbers of a part from its ranges of samples, positions and channels (`sampling_loop.NUMBERS`)."""
    samples, some, channels, *flags = ranges_and_flags
    return np.array(
        [*samples, *some, *channels, positions, *image.sizes[1:], *image.strides, *flags], np.int64
    )


def _loop(name: str, image: TensorSpec, modes: Modes) -> DeferredLoop:
    return _deferred(name, image.dtype.name, *modes)


@functools.cache
def _deferred(name: str, dtype: str, interpolation: int, padding: int, align_corners: bool) -> DeferredLoop:
    def make() -> Loop | None:
        from . import sampling_loop

        loop = sampling_loop.sample_loop if name == "sample" else sampling_loop.gradient_loop
        return loop(sampling_loop.Kind(dtype, interpolation, padding, align_corners))

    return DeferredLoop(make, COMPILE_THRESHOLD)
