"""Second derivatives of grid sampling, by ordinary operators over the taps of each sampling location.

The value at a location is the sum over taps t of w_t(location) input_t. A backward pass has the gradients w_t g of
the elements and (g . input_t) grad w_t of the location. Weights are products of one factor for each dimension. This
module computes the factors' values, slopes and curvatures as functions of the grid, which can be differentiated
again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ....runtime.scalar_type import float32, int64
from ...generated import functions as ops
from ...structured.meta.grid_sampler import BICUBIC, BORDER, NEAREST, REFLECTION

if TYPE_CHECKING:
    from ...tensor import Tensor

CUBIC = -0.75
FAR = 2.0**31 - 2


class Axis(NamedTuple):
    """Taps of all locations in one dimension: their indices, -1 for none, and their factors with derivatives."""

    elements: list[Any]
    factors: list[list[Any]]


def _reflected(x: Tensor, n: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Return coordinates reflected at the edges until they are in range, and the sign of their derivative."""
    low, high = (0, 2 * (n - 1)) if align_corners else (-1, 2 * n - 1)
    if low == high:
        return ops.zeros_like(x), ops.zeros_like(x)
    least, span = low / 2, (high - low) / 2
    beyond = x - least
    sign = ops.where(ops.lt(beyond, 0), -1.0, 1.0).to(x.dtype)
    beyond = ops.abs(beyond)
    extra = ops.fmod(beyond, span)
    even = ops.eq(ops.fmod(ops.floor(beyond / span), 2), 0)
    return ops.where(even, extra + least, span - extra + least), ops.where(even, sign, -sign)


def _clipped(x: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return coordinates clamped to [0, n - 1], NaN as 0, and 1 where they are strictly inside, else 0."""
    moving = ops.logical_and(ops.gt(x, 0), ops.lt(x, n - 1)).to(x.dtype)
    return ops.clamp(ops.where(ops.isnan(x), 0.0, x), min=0, max=n - 1), moving


def _safe(x: Tensor) -> Tensor:
    """Replace coordinates that no integer can hold by one outside of everything."""
    return ops.where(ops.logical_and(ops.isfinite(x), ops.lt(ops.abs(x), FAR)), x, -100.0)


def _padded(x: Tensor, n: int, padding: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Return coordinates after the padding mode, and their derivatives."""
    if padding == REFLECTION:
        x, sign = _reflected(x, n, align_corners)
        x, moving = _clipped(x, n)
        return x, sign * moving
    if padding == BORDER:
        return _clipped(x, n)
    return x, ops.ones_like(x)


def _keys(distance: Tensor, sign: int, far: bool) -> list[Any]:
    """Return the kernel of R. Keys (1981) at a distance, and its derivatives by the coordinate.

    The distance is `sign` times the coordinate, plus a constant.
    """
    d, a = distance, CUBIC
    if far:
        value = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        slope, curvature = (3 * a * d - 10 * a) * d + 8 * a, 6 * a * d - 10 * a
    else:
        value = ((a + 2) * d - (a + 3)) * d * d + 1
        slope, curvature = (3 * (a + 2) * d - 2 * (a + 3)) * d, 6 * (a + 2) * d - 2 * (a + 3)
    return [value, slope * sign, curvature]


def _axis(grid: Tensor, n: int, interpolation: int, padding: int, align_corners: bool) -> Axis:
    """Return the taps of coordinates in [-1, 1], as differentiable functions of them."""
    x = (grid + 1) * 0.5 * (n - 1) if align_corners else ((grid + 1) * n - 1) * 0.5
    speed = 0.5 * (n - 1) if align_corners else 0.5 * n
    still = x.detach()
    moved = ops.where(ops.isfinite(still), x - still, 0.0)
    if interpolation == BICUBIC:
        position, moving = _safe(still), ops.ones_like(still)
    else:
        position, moving = _padded(still, n, padding, align_corners)
        position = _safe(position)
    if interpolation == NEAREST:
        ones, zeros = ops.ones_like(position), ops.zeros_like(position)
        return Axis([_present(ops.round(position), n)], [[ones, zeros, zeros]])
    first = ops.floor(position)
    part = position - first + moving * moved
    if interpolation != BICUBIC:
        rate, zeros = moving * speed, ops.zeros_like(position)
        index = [_present(first + k, n) for k in range(2)]
        return Axis(index, [[1 - part, -rate, zeros], [part, rate, zeros]])
    index, factors = [], []
    for k in range(-1, 3):
        index.append(_present(_safe(_padded(first + k, n, padding, align_corners)[0]), n))
        sign = 1 if k <= 0 else -1
        value, slope, curvature = _keys((part - k) * sign, sign, far=k in (-1, 2))
        factors.append([value, slope * speed, curvature * (speed * speed)])
    return Axis(index, factors)


def _present(position: Tensor, n: int) -> Tensor:
    index = position.to(int64)
    return ops.where(ops.logical_and(ops.ge(index, 0), ops.lt(index, n)), index, -1)


def _elements(axes: Sequence[Axis], size: Sequence[int]) -> Tensor:
    """Return (N, P, T): the flat index of each location's taps in a plane, or the plane's size for none."""
    count, indices = math.prod(size), []
    for choice in _choices(axes):
        flat: int = 0
        absent: Any = None
        for axis, k, n in zip(axes, choice, size, strict=True):
            flat = flat * n + axis.elements[k]
            outside = ops.lt(axis.elements[k], 0)
            absent = outside if absent is None else ops.logical_or(absent, outside)
        indices.append(ops.where(absent, count, flat))
    return ops.stack(indices, -1)


def _choices(axes: Sequence[Axis]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(len(axis.elements)) for axis in axes)))


def _weights(axes: Sequence[Axis], orders: Sequence[int]) -> Tensor:
    """Return (N, P, T): the weights' derivatives of the given orders, one order for each dimension."""
    made = []
    for choice in _choices(axes):
        product: Any = None
        for axis, k, order in zip(axes, choice, orders, strict=True):
            factor = axis.factors[k][order]
            product = factor if product is None else product * factor
        made.append(product)
    return ops.stack(made, -1)


def grid_sampler_double_backward(
    grads: Sequence[Any],
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Differentiate the gradients of image and grid by `grad_output`, `input` and `grid`.

    Let x and y be the gradients of the two, and D the derivative along y. The results are:

    - the sum of w_t x_t + D w_t input_t,
    - for each element, the sum of D w_t g,
    - the sum of (g . x_t) grad w_t + (g . input_t) grad D w_t.
    """
    x, y = grads
    if (x is None and y is None) or not grad_output.numel():
        return None, None, None
    rank, size = input.dim() - 2, list(input.shape[2:])
    n, c = input.shape[:2]
    dtype = grad_output.dtype if grad_output.dtype.itemsize > 2 else float32
    num_points, count = math.prod(grid.shape[1:-1]), math.prod(size)
    wide = grid.to(dtype).reshape(n, num_points, rank)
    axes = [
        _axis(wide.select(2, rank - 1 - d), size[d], interpolation_mode, padding_mode, align_corners)
        for d in range(rank)
    ]
    first = ops.arange(n, device=grid.device).reshape(n, 1, 1) * (count + 1)
    index = (_elements(axes, size) + first).reshape(-1)
    taps = len(_choices(axes))
    g = grad_output.to(dtype).reshape(n, c, num_points).permute(0, 2, 1)

    def of_taps(image: Tensor) -> Tensor:
        """Return (N, P, T, C): the image's values at each tap, 0 outside."""
        rows = image.to(dtype).reshape(n, c, count).permute(0, 2, 1)
        rows = ops.cat([rows, ops.zeros([n, 1, c], dtype=dtype, device=rows.device)], 1)
        return ops.index_select(rows.reshape(-1, c), 0, index).reshape(n, num_points, taps, c)

    of_output = of_input = None
    of_grid: list[Any] = [None] * rank
    gradient = [[int(e == d) for e in range(rank)] for d in range(rank)]
    if x is not None:
        tap_values = of_taps(x)
        of_output = ops.sum(_weights(axes, [0] * rank).unsqueeze(-1) * tap_values, 2)
        shares = ops.sum(tap_values * g.unsqueeze(2), -1)
        of_grid = [ops.sum(_weights(axes, orders) * shares, -1) for orders in gradient]
    if y is not None:
        tap_values = of_taps(input)
        along = [y.to(dtype).reshape(n, num_points, rank).select(2, rank - 1 - d) for d in range(rank)]
        slope: Any = 0
        for orders, step in zip(gradient, along, strict=True):
            slope = slope + _weights(axes, orders) * step.unsqueeze(-1)
        more = ops.sum(slope.unsqueeze(-1) * tap_values, 2)
        of_output = more if of_output is None else of_output + more
        added = ops.zeros([n * (count + 1), c], dtype=dtype, device=g.device).index_add(
            0, index, (slope.unsqueeze(-1) * g.unsqueeze(2)).reshape(-1, c)
        )
        planes = added.reshape(n, count + 1, c).narrow(1, 0, count).permute(0, 2, 1)
        of_input = planes.reshape(input.shape).to(input.dtype)
        shares = ops.sum(tap_values * g.unsqueeze(2), -1)
        for d in range(rank):
            bend: int = 0
            for orders, step in zip(gradient, along, strict=True):
                both = [order + increment for order, increment in zip(orders, gradient[d], strict=True)]
                bend = bend + _weights(axes, both) * step.unsqueeze(-1)
            more = ops.sum(bend * shares, -1)
            of_grid[d] = more if of_grid[d] is None else of_grid[d] + more
    assert of_output is not None
    grad_of_output = of_output.permute(0, 2, 1).reshape(grad_output.shape).to(grad_output.dtype)
    return grad_of_output, of_input, ops.stack(of_grid[::-1], -1).reshape(grid.shape).to(grid.dtype)
