"""Differences and integrals along a dimension (ATen/native/Integration.cpp, ReduceOps.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import bool_, uint8
from ..core.overload_packet import packets
from ..generated import functions as ops
from ..structured.meta.dims import wrap_dim
from .forms import out_form

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number
    from ..tensor import Tensor


def diff(self: Tensor, n: int, dim: int, prepend: Tensor | None, append: Tensor | None) -> Tensor:
    """Compute `torch.diff`: the `n`-th difference of neighbors along `dim`; XOR for bools."""
    if not self._spec.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    axis = wrap_dim(dim, self._spec.ndim)
    for x in (prepend, append):
        if x is not None:
            _check_joined(self, x, axis)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return ops.clone(self)
    parts = [x for x in (prepend, self, append) if x is not None]
    joined = self if len(parts) == 1 else ops.cat(parts, axis)
    n = min(n, joined._spec.sizes[axis])
    for _ in range(n):
        rest = joined._spec.sizes[axis] - 1
        high, low = _part(joined, axis, 1, rest + 1), _part(joined, axis, 0, max(rest, 0))
        joined = ops.logical_xor(high, low) if self.dtype is bool_ else ops.sub(high, low)
    return joined


def diff_out(
    self: Tensor, n: int, dim: int, prepend: Tensor | None, append: Tensor | None, out: Tensor
) -> Tensor:
    """Run ``diff(out=)``: a difference is cast to the output's dtype; an order of 0 copies the operand uncast."""
    return out_form("diff", diff, exact=n == 0)(self, n, dim, prepend, append, out)


def _check_joined(self: Tensor, other: Tensor, axis: int) -> None:
    if other._spec.ndim != self._spec.ndim:
        raise RuntimeError(
            "diff expects prepend or append to be the same dimension as input, but got "
            f"{other._spec.ndim} and {self._spec.ndim}"
        )
    for d, (own, joined_size) in enumerate(zip(self._spec.sizes, other._spec.sizes, strict=True)):
        if d != axis and own != joined_size:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along the "
                f"differencing dimension; input.size({d}) = {own}, but got tensor.size({d}) = {joined_size}"
            )


def _part(x: Tensor, axis: int, start: int, end: int) -> Tensor:
    return ops.narrow(x, axis, max(min(start, end), 0), max(end - start, 0))


def _refuse_bool(name: str, y: Tensor) -> None:
    if y.dtype is bool_:
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")


def trapezoid_x(y: Tensor, x: Tensor, dim: int) -> Tensor:
    """Compute `torch.trapezoid` over the points `x`."""
    axis = wrap_dim(dim, y._spec.ndim, False)
    if not y._spec.sizes[axis]:
        return ops.sum(y, axis, dtype=y.dtype)
    return ops.sum(_areas(y, x, axis), axis)


def trapezoid_dx(y: Tensor, dx: float | Number, dim: int) -> Tensor:
    """Compute `torch.trapezoid` over points with spacing `dx`."""
    if isinstance(dx, bool | complex):
        raise RuntimeError(f"trapezoid: Currently, we only support dx as a real number, got {dx!r}")
    axis = wrap_dim(dim, y._spec.ndim, False)
    n = y._spec.sizes[axis]
    if n == 0:
        return ops.sum(y, axis, dtype=y.dtype)
    _refuse_bool("trapezoid", y)
    ends = ops.add(ops.select(y, axis, 0), ops.select(y, axis, n - 1))
    ends = ops.mul(ends, 0.5)
    return ops.mul(ops.sub(ops.sum(y, axis), ends), float(dx))


def cumulative_trapezoid_x(y: Tensor, x: Tensor, dim: int) -> Tensor:
    """Compute `torch.cumulative_trapezoid` over the points `x`."""
    axis = wrap_dim(dim, y._spec.ndim, False)
    return ops.cumsum(_areas(y, x, axis), axis)


def cumulative_trapezoid_dx(y: Tensor, dx: Number, dim: int) -> Tensor:
    """Compute `torch.cumulative_trapezoid` over points with spacing `dx`."""
    if isinstance(dx, bool | complex):
        raise RuntimeError(
            f"cumulative_trapezoid: Currently, we only support dx as a real number, got {dx!r}"
        )
    _refuse_bool("cumulative_trapezoid", y)
    axis = wrap_dim(dim, y._spec.ndim, False)
    n = y._spec.sizes[axis]
    pairs = ops.add(_part(y, axis, 1, n), _part(y, axis, 0, n - 1))
    return ops.cumsum(ops.mul(pairs, dx / 2.0), axis)


def _areas(y: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return the areas of the trapezoids between neighbors."""
    if y.dtype is bool_ or x.dtype is bool_:
        raise RuntimeError("trapezoid: received a bool input for `x` or `y`, but bool is not supported")
    if x._spec.ndim == 1 and y._spec.ndim > 1:
        if x._spec.sizes[0] != y._spec.sizes[axis]:
            raise RuntimeError(
                "trapezoid: There must be one `x` value for each sample point, got "
                f"{x._spec.sizes[0]} for {y._spec.sizes[axis]}"
            )
        x = x.view([-1 if d == axis else 1 for d in range(y._spec.ndim)])
    elif x._spec.ndim < y._spec.ndim:
        x = x.view((1,) * (y._spec.ndim - x._spec.ndim) + tuple(x._spec.sizes))
    n, m = y._spec.sizes[axis], x._spec.sizes[axis]
    steps = ops.sub(_part(x, axis, 1, m), _part(x, axis, 0, m - 1))
    pairs = ops.add(_part(y, axis, 1, n), _part(y, axis, 0, n - 1))
    return ops.mul(ops.mul(steps, pairs), 0.5)


def gradient_scalarint(
    self: Tensor, spacing: Number | None, dim: int | None, edge_order: int
) -> tuple[Tensor, ...]:
    """Compute `torch.gradient` with one spacing for all dimensions."""
    dims = _dims(self, dim)
    return _gradient(self, [1 if spacing is None else spacing] * len(dims), dims, edge_order)


def gradient_scalararray(
    self: Tensor, spacing: Number, dim: Sequence[int], edge_order: int
) -> tuple[Tensor, ...]:
    """Compute `torch.gradient` with one spacing for the given dimensions."""
    return _gradient(self, [spacing] * len(dim), dim, edge_order)


def gradient_array(self: Tensor, dim: Sequence[int], edge_order: int) -> tuple[Tensor, ...]:
    """Compute `torch.gradient` with a spacing of 1 in the given dimensions."""
    return _gradient(self, [1] * len(dim), dim, edge_order)


def gradient_scalarrayint(
    self: Tensor, spacing: Sequence[Any], dim: int | None, edge_order: int
) -> tuple[Tensor, ...]:
    """Compute `torch.gradient` with a spacing for each dimension."""
    return _gradient(self, spacing, _dims(self, dim), edge_order)


def gradient_scalarrayarray(
    self: Tensor, spacing: Sequence[Any], dim: Sequence[int], edge_order: int
) -> tuple[Tensor, ...]:
    """Compute `torch.gradient` with a spacing for each of the given dimensions."""
    return _gradient(self, spacing, dim, edge_order)


def gradient_tensorarrayint(
    self: Tensor, spacing: Sequence[Tensor], dim: int | None, edge_order: int
) -> tuple[Tensor, ...]:
    """Compute `torch.gradient` with coordinates for each dimension."""
    return _gradient(self, spacing, _dims(self, dim), edge_order)


def gradient_tensorarray(
    self: Tensor, spacing: Sequence[Tensor], dim: Sequence[int], edge_order: int
) -> tuple[Tensor, ...]:
    """Compute `torch.gradient` with coordinates for each of the given dimensions."""
    return _gradient(self, spacing, dim, edge_order)


def _dims(self: Tensor, dim: int | None) -> list[int]:
    return list(range(self._spec.ndim)) if dim is None else [dim]


def _gradient(
    self: Tensor, spacing: Sequence[Any], dim: Sequence[int], edge_order: int
) -> tuple[Tensor, ...]:
    """Compute second-order central differences inside, and one-sided ones of `edge_order` at the ends.

    Differences of integers are integers, which wrap around.
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"torch.gradient only supports edge_order=1 and edge_order=2, got {edge_order}")
    if len(spacing) != len(dim):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar or a list of length {len(dim)}, but got a "
            f"list of length {len(spacing)}"
        )
    axes = [wrap_dim(d, self._spec.ndim) for d in dim]
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"dim {axes[0]} appears multiple times in the list of dims")
    for axis in axes:
        if self._spec.sizes[axis] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1, got "
                f"{self._spec.sizes[axis]}"
            )
    if self.dtype is uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if self.dtype is bool_:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )
    return tuple([_along(self, step, axis, edge_order) for step, axis in zip(spacing, axes, strict=True)])


def _evenly(x: Tensor, step: complex, axis: int) -> Tensor:
    """Return the differences of evenly spaced points, of first order at the ends."""

    def difference(high: tuple[int, int | None], low: tuple[int, int | None]) -> Tensor:
        subtracted = packets["slice"].call(x, axis, *low)
        return ops.div(ops.sub(packets["slice"].call(x, axis, *high), subtracted), step)

    inside = difference((2, None), (0, -2))
    first = difference((1, 2), (0, 1))
    last = difference((-1, None), (-2, -1))
    return ops.cat([first, ops.div(inside, 2), last], axis)


def _along(x: Tensor, spacing: Any, axis: int, edge_order: int) -> Tensor:
    n = x._spec.sizes[axis]
    shape = [-1 if d == axis else 1 for d in range(x._spec.ndim)]
    if hasattr(spacing, "_spec"):
        if spacing._spec.ndim != 1 or spacing._spec.sizes[0] != n:
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one value for each point of its dimension: "
                f"{n}, got {list(spacing._spec.sizes)}"
            )
        steps = diff(spacing, 1, 0, None, None)
        before, after = _part(steps, 0, 0, n - 2).view(shape), _part(steps, 0, 1, n - 1).view(shape)
        ends = [ops.select(steps, 0, i).view([1] * len(shape)) for i in (0, min(1, n - 2), -1, max(n - 3, 0))]
        first, second, last, previous = ends
    else:
        before = after = first = second = last = previous = spacing
    if not hasattr(spacing, "_spec") and edge_order == 1:
        return _evenly(x, spacing if isinstance(spacing, complex) else float(spacing), axis)
    low, middle, high = _part(x, axis, 0, n - 2), _part(x, axis, 1, n - 1), _part(x, axis, 2, n)
    if before is after:
        inside = ops.div(ops.sub(high, low), 2 * spacing)
    else:
        # Weights of the parabola through three points (Fornberg, 1988).
        a = -after / (before * (before + after))
        b = (after - before) / (before * after)
        c = before / (after * (before + after))
        inside = ops.add(ops.add(ops.mul(low, a), ops.mul(middle, b)), ops.mul(high, c))

    def at(i: int) -> Tensor:
        return _part(x, axis, i % n, i % n + 1)

    if edge_order == 1:
        left = ops.div(ops.sub(at(1), at(0)), first)
        right = ops.div(ops.sub(at(-1), at(-2)), last)
    elif before is after:
        left = ops.div(at(0) * -1.5 + at(1) * 2 - at(2) * 0.5, spacing)
        right = ops.div(at(-3) * 0.5 - at(-2) * 2 + at(-1) * 1.5, spacing)
    else:
        left = (
            at(0) * (-(2 * first + second) / (first * (first + second)))
            + at(1) * ((first + second) / (first * second))
            + at(2) * (-first / (second * (first + second)))
        )
        right = (
            at(-3) * (last / (previous * (previous + last)))
            + at(-2) * (-(previous + last) / (previous * last))
            + at(-1) * ((2 * last + previous) / (last * (previous + last)))
        )
    return ops.cat([left, inside, right], axis)
