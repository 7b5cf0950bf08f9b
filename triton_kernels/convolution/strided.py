"""Strides of a convolution as views that tensor maps describe: a map takes any step along its dimensions.

A dimension whose taps all read one phase of the stride (one tap, or a dilation that the stride divides) is a
view with a stride of one. Otherwise lines and pixels are folded by the stride. The map then has the dimensions
(images, lines, phases of a line, pixels, phases of a pixel by channels), as many as a map may have.
"""

from __future__ import annotations

import dataclasses

from ...runtime.cuda.tensor_map import DescribedTensor
from ...runtime.tensor_spec import TensorSpec
from ..launch import cdiv
from .layout_copies import unit_of_spec
from .maps import described
from .problem import Problem
from .volume import BYTES, Triple, Window


def subsampled(source: TensorSpec, window: Window) -> tuple[TensorSpec, Window]:
    """Return the view of a channels-last volume that a window's taps read, and its window over that view.

    Strides of dimensions whose taps read several phases remain.

    Example:
        >>> import triten as tt
        >>> from triten.runtime.tensor_spec import TensorSpec
        >>> from triten.triton_kernels.convolution.strided import subsampled
        >>> from triten.triton_kernels.convolution.volume import Window
        >>> spec = TensorSpec.contiguous((2, 7, 8, 16), tt.float16, tt.device("cpu"))
        >>> volume = spec.replace(sizes=(2, 16, 1, 7, 8), strides=(896, 1, 0, 128, 16))
        >>> view, window = subsampled(volume, Window((1, 1, 1), (1, 2, 2), (0, 0, 0), (1, 1, 1)))
        >>> view.sizes, view.strides, window.stride
        ((2, 16, 1, 4, 4), (896, 1, 0, 256, 32), (1, 1, 1))
    """
    if unit_of_spec(source) * source.itemsize < BYTES:
        return source, window
    sizes, strides = list(source.sizes), list(source.strides)
    kernel = window.kernel
    stride, padding, dilation = list(window.stride), list(window.padding), list(window.dilation)
    for dim, step in enumerate(window.stride):
        if padding[dim] % step or (kernel[dim] > 1 and dilation[dim] % step):
            continue
        size = cdiv(sizes[2 + dim], step)
        sizes[2 + dim], strides[2 + dim] = size, strides[2 + dim] * step if size > 1 else 0
        stride[dim], padding[dim] = 1, padding[dim] // step
        dilation[dim] = dilation[dim] // step if kernel[dim] > 1 else dilation[dim]
    if tuple(stride) == window.stride:
        return source, window
    rest = (_triple(stride), _triple(padding), _triple(dilation))
    return source.replace(sizes=tuple(sizes), strides=tuple(strides)), Window(kernel, *rest)


def over_view(problem: Problem) -> Problem:
    """Return the convolution over the view that `subsampled` gives; transposed ones and groups stay."""
    if problem.transposed or problem.groups > 1 or problem.window.stride == (1, 1, 1):
        return problem
    source, window = subsampled(problem.source, problem.window)
    return dataclasses.replace(problem, source=source, window=window)


def _triple(numbers: list[int]) -> Triple:
    depth, height, width = numbers
    return depth, height, width


def folded(spec: TensorSpec, window: Window) -> DescribedTensor | None:
    """Return a picture that a window's taps read, folded by its strides, or None.

    There is none if a tap may read the phase of a line (or pixel) that the last fold lacks: the map would read
    the next image (or line) there.
    """
    phases = [
        max((tap * dilation - padding) % step for tap in range(taps))
        for taps, step, padding, dilation in zip(*(numbers[1:] for numbers in window), strict=True)
    ]
    return _folded(spec, window, (phases[0], phases[1]))


def folded_wholly(spec: TensorSpec, window: Window) -> DescribedTensor | None:
    """Return a picture of which all phases are written, folded by a window's strides, or None."""
    return _folded(spec, window, (window.stride[1] - 1, window.stride[2] - 1))


def _folded(spec: TensorSpec, window: Window, last_phases: tuple[int, int]) -> DescribedTensor | None:
    n, c, _, h, w = spec.sizes
    sn, sc, _, sh, sw = spec.strides
    (_, step_h, step_w), (last_h, last_w) = window.stride, last_phases
    phases_h, phases_w = h % step_h or step_h, w % step_w or step_w
    if last_h >= phases_h or last_w >= phases_w:
        return None
    sizes = (n, cdiv(h, step_h), phases_h, cdiv(w, step_w), (phases_w - 1) * sw + c)
    return described(sizes, (sn, step_h * sh, sh, step_w * sw, sc), spec.itemsize)
