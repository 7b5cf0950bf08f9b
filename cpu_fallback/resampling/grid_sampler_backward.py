"""Gradients of sampled images and of the grids, by one kernel that computes the taps once.

The order of additions is fixed. The gradient of an element adds its positions in order, and the taps of each. The
gradient of a coordinate first adds the channels of each tap, then the taps. The compiled loop adds in the same order
(`sampling_loop.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.meta.grid_sampler import (
    BILINEAR,
    BORDER,
    NEAREST,
    REFLECTION,
    check_grid_gradient,
)
from ...dispatch.structured.stub import HostKernel, PlannedKernel, StructuredCall, by_arguments, register_stub
from ...runtime.float_errors import quietly
from ...runtime.tensor_spec import TensorSpec
from ..indexing.scatter_reduction import add_rows
from ..plain_numpy import np
from ..widen import compute_np
from .compiled_sampling import Modes, gradients_by_loop
from .grid_sampler import Taps, check_floating, clipped, safe

Array = np.ndarray[Any, Any]

GROUP = 1 << 18
"""Elements that the taps of a group of samples read, about: a group has at least one sample."""


class LineTaps(NamedTuple):
    """Taps of positions along one dimension, each (taps, positions).

    Attributes:
        index: Indices of the elements, out of bounds for none.
        exists: True for indices in bounds.
        weight: Weights of the elements.
        slope: Derivatives of the weights by the coordinate.
    """

    index: Array
    exists: Array
    weight: Array
    slope: Array


def line_taps(grid: Array, size: Sequence[int], modes: Modes) -> list[LineTaps]:
    """Return the taps along each dimension, outermost first.

    Args:
        grid: Positions (positions, rank), with the innermost dimension first.
        size: Sizes of the dimensions, outermost first.
        modes: Modes of the call.
    """
    interpolation, padding, align_corners = modes
    rank = len(size)
    if interpolation == BILINEAR and padding != REFLECTION:
        return _linear_taps(grid.T[::-1], size, padding, align_corners)
    made = []
    for d, n in enumerate(size):
        taps = Taps(grid[:, rank - 1 - d], n, interpolation, padding, align_corners)
        index, weight, slope = (
            np.ascontiguousarray(each.T) for each in (taps.index, taps.weight, taps.slope)
        )
        made.append(LineTaps(index, index >= 0, weight, slope))
    return made


def _linear_taps(
    coordinates: Array, size: Sequence[int], padding: int, align_corners: bool
) -> list[LineTaps]:
    """Return two taps along each dimension, computed for all dimensions (rank, positions) at once."""
    dtype = coordinates.dtype
    one, half = dtype.type(1), dtype.type(0.5)
    counts = np.array(size).reshape(-1, 1)
    sizes = counts.astype(dtype)
    last = sizes - one
    x = np.ascontiguousarray(coordinates)
    x = np.add(x, one)
    if align_corners:
        np.multiply(x, half, x)
        np.multiply(x, last, x)
        rate = last * half
    else:
        np.multiply(x, sizes, x)
        np.subtract(x, one, x)
        np.multiply(x, half, x)
        rate = sizes * half
    if padding == BORDER:
        x, moving = clipped(x, counts)
        rate = moving * rate
    else:
        x = safe(x)
    first = np.floor(x)
    weight, slope = np.empty((2, 2, *x.shape), dtype)
    np.subtract(x, first, weight[1])
    np.subtract(one, weight[1], weight[0])
    slope[1] = rate
    np.negative(slope[1], slope[0])
    index = np.empty(weight.shape, np.int64)
    index[0] = first
    np.add(index[0], 1, index[1])
    exists = np.greater_equal(index, 0)
    np.logical_and(exists, np.less(index, counts), exists)
    return [LineTaps(index[:, d], exists[:, d], weight[:, d], slope[:, d]) for d in range(len(size))]


def combined(parts: Sequence[Array], combine: Callable[[Array, Array], Array]) -> Array:
    """Combine arrays (taps, positions) of the dimensions to one of all taps, those of the innermost dimension last."""
    made, *others = parts
    for part in others:
        made = combine(made[:, None], part).reshape(-1, part.shape[1])
    return made


def gradients(
    of_input: Array | None,
    of_grid: Array | None,
    grad: Array,
    image: Array,
    grid: Array,
    modes: Modes,
    np_dtype: np.dtype[Any],
) -> None:
    """Compute the gradients of some samples, where `of_input` and `of_grid` are not None.

    Args:
        of_input: Gradient of the image, (N, C, *size).
        of_grid: Gradient of the grid, (N, *positions, rank).
        grad: Gradient of the output, (N, C, *positions).
        image: The image.
        grid: The grid.
        modes: Modes of the call.
        np_dtype: Dtype of the computation.
    """
    n, c, *size = image.shape
    rank, area = len(size), math.prod(size)
    taps = line_taps(grid.reshape(-1, rank).astype(np_dtype, copy=False), size, modes)
    positions = grid.size // (n * rank)
    exists = combined([tap.exists for tap in taps], np.logical_and)
    index = taps[0].index
    for tap, m in zip(taps[1:], size[1:], strict=True):
        index = (index[:, None] * m + tap.index).reshape(-1, n * positions)
    samples = np.arange(n).repeat(positions)
    if of_input is not None:
        weight = combined([tap.weight for tap in taps], np.multiply)
        shares = grad.reshape(n, c, positions).swapaxes(1, 2).reshape(-1, 1, c).astype(np_dtype, copy=False)
        shares = shares * weight.T[..., None]
        # An extra row of each sample receives the gradients of positions outside.
        rows = np.where(exists, index, area) + samples * (area + 1)
        added = np.zeros((n * (area + 1), c), np_dtype)
        add_rows(added, rows.T.reshape(-1), shares.reshape(-1, c), False)
        made = added.reshape(n, area + 1, c)[:, :area].swapaxes(1, 2)
        np.copyto(of_input, made.reshape(of_input.shape), casting="unsafe")
    if of_grid is None:
        return
    places = np.where(exists, index + samples * area, 0)
    products = image.swapaxes(0, 1).reshape(c, n * area).take(places, 1).astype(np_dtype, copy=False)
    lines = grad.swapaxes(0, 1).reshape(c, 1, n * positions).astype(np_dtype, copy=False)
    np.multiply(products, lines, products)
    np.copyto(products, 0, where=np.logical_not(exists))
    share = np.add.reduce(products, 0)
    made = np.zeros((n * positions, rank), np_dtype)
    for d in range(rank):
        factors = [tap.slope if e == d else tap.weight for e, tap in enumerate(taps)]
        total = made[:, rank - 1 - d]
        for term in share * combined(factors, np.multiply):
            np.add(total, term, total)
    np.copyto(of_grid, made.reshape(of_grid.shape), casting="unsafe")


def _kernel(
    image: TensorSpec, grid: TensorSpec, modes: Modes, mask: tuple[bool, bool]
) -> Callable[[Array | None, Array | None, Array, Array, Array], None]:
    """Return ``into(of_input, of_grid, grad, image, grid)``; gradients that `mask` does not ask for are None."""
    np_dtype, positions = compute_np(image.dtype), math.prod(grid.sizes[1:-1])
    taps = 1 << len(image.sizes) - 2
    step = max(GROUP // max(positions * image.sizes[1] * taps, 1), 1)

    @quietly
    def eager(of_input: Array | None, of_grid: Array | None, grad: Array, image: Array, grid: Array) -> None:
        if of_grid is not None and (modes[0] == NEAREST or not grad.size):
            of_grid[...] = 0  # The nearest element does not move with the position.
            of_grid = None
        if of_input is not None and not grad.size:
            of_input[...] = 0
            of_input = None
        if of_input is None and of_grid is None:
            return
        for i in range(0, len(image), step):
            some = slice(i, i + step)
            gradients(
                None if of_input is None else of_input[some],
                None if of_grid is None else of_grid[some],
                grad[some],
                image[some],
                grid[some],
                modes,
                np_dtype,
            )

    chosen("both gradients at once", "the taps of groups of {} samples are computed once", step)
    return gradients_by_loop(image, positions, modes, mask, eager) or eager


def grid_sampler_backward(
    grad: TensorSpec,
    image: TensorSpec,
    grid: TensorSpec,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> HostKernel | None:
    """Compute the gradients that `output_mask` asks for, of images or volumes."""
    mask = bool(output_mask[0]), bool(output_mask[1])
    if not any(mask) or not image.dtype.is_floating_point:
        return None
    check_grid_gradient(grad, image, grid, interpolation_mode)
    outputs = tuple(
        TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device) if wanted else None
        for spec, wanted in zip((image, grid), mask, strict=True)
    )
    into = _kernel(image, grid, (interpolation_mode, padding_mode, align_corners), mask)
    return HostKernel(outputs, None, into, quiet=False, declines=False)


def grid_sampler_grid_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradient of the grid alone."""
    image, grid = call.args["input"], call.args["grid"]
    check_floating(call, image)
    modes = call.args["interpolation_mode"], call.args["padding_mode"], call.args["align_corners"]
    into = _kernel(image, grid, modes, (False, True))
    return PlannedKernel(lambda out, grad, image, grid: into(None, out, grad, image, grid))


register_stub("_grid_sampler_grid_backward_stub", "cpu", grid_sampler_grid_backward)
register_stub("grid_sampler_backward_host_stub", "cpu", by_arguments(grid_sampler_backward))
