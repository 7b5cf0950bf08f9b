"""Formulas of views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....runtime.allocator import storage_size
from ....runtime.layout import strided
from ....runtime.tensor_spec import TensorSpec
from ...core.mode_stack import sees_whole
from ...generated import functions as ops
from ...tensor import Tensor
from ...tensor_data import from_numpy
from ..ownership import is_alone, taken_over
from ..reduce_to_spec import sum_to_size


def sum_to(grad: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the sum over dimensions that were expanded."""
    return sum_to_size(grad, tuple(shape))


def reshaped(grad: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the gradient in another shape."""
    alone = is_alone(grad)
    made = grad.reshape(shape)
    return taken_over(made, grad) if alone else made


def turned(grad: Tensor) -> Tensor:
    """Return the transpose of a gradient matrix."""
    alone = is_alone(grad)
    made = grad.t()
    return taken_over(made, grad) if alone else made


def permute_backward(grad: Tensor, dims: Sequence[int]) -> Tensor:
    """Undo the permutation."""
    rank = len(dims)
    inverse = [0] * rank
    for position, d in enumerate(dims):
        inverse[d % rank] = position
    alone = is_alone(grad)
    made = grad.permute(inverse)
    return taken_over(made, grad) if alone else made


def squeeze_backward(grad: Tensor, shape: Sequence[int], dim: Sequence[int] | None = None) -> Tensor:
    """Return the gradient with the squeezed dimensions, all of size 1 or those of `dim`."""
    if not sees_whole():
        return reshaped(grad, shape)
    rank = len(shape)
    chosen = range(rank) if dim is None else sorted(d % rank for d in dim) if rank else ()
    for d in chosen:
        if shape[d] == 1:
            alone = is_alone(grad)
            made = grad.unsqueeze(d)
            grad = taken_over(made, grad) if alone else made
    return grad


def select_backward(grad: Tensor, shape: Sequence[int], dim: int, index: int) -> Tensor:
    """Return zeros with the gradient at one index."""
    return ops.select_backward(grad, shape, dim, index)


def slice_backward(
    grad: Tensor, shape: Sequence[int], dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    """Return zeros with the gradient in a range."""
    return ops.slice_backward(grad, shape, dim, start, end, step)


def as_strided_backward(
    grad: Tensor,
    sizes: Sequence[int],
    strides: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
) -> Tensor:
    """Scatter the gradient to the view's elements in an input of these sizes and strides.

    View elements that share an address have their gradients added. Input elements that share an address split the
    gradient evenly (torch FunctionsManual.cpp).
    """
    view = TensorSpec.of(tuple(size), tuple(stride), grad.dtype, grad.device)
    base = TensorSpec.of(tuple(sizes), tuple(strides), grad.dtype, grad.device)
    reach = storage_size(view.sizes, view.strides)
    have = storage_size(base.sizes, base.strides)
    inside = offset >= 0 and offset + reach <= have
    if base.is_dense() and inside and not may_overlap(view):
        return ops._as_strided_backward(grad, sizes, strides, size, stride, offset)
    low = min(0, offset)
    length = max(have, offset + reach) - low
    flat = ops.zeros((length,), dtype=grad.dtype, device=grad.device)
    flat = flat.index_add(0, _storage_positions(view, offset - low), grad.reshape((-1,)))
    if may_overlap(base):
        ones = ops.ones((base.numel,), dtype=grad.dtype, device=grad.device)
        count = ops.zeros((length,), dtype=grad.dtype, device=grad.device)
        flat = ops.div(flat, count.index_add(0, _storage_positions(base, -low), ones))
    return flat.as_strided(sizes, strides, -low)


def as_strided_of(
    grad: Tensor,
    sizes: Sequence[int],
    strides: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
) -> Tensor:
    """Return the view whose backward is `_as_strided_backward`, of a gradient in the input's layout."""
    laid = grad.new_empty_strided(tuple(sizes), tuple(strides)).copy_(grad)
    return laid._strided_from(tuple(size), tuple(stride), offset)


def may_overlap(spec: TensorSpec) -> bool:
    """Return whether two elements may share an address, by ATen's conservative test."""
    reach = 0
    for stride, n in sorted(zip(spec.strides, spec.sizes, strict=True)):
        if n == 0:
            return False
        if n > 1:
            if stride <= reach:
                return True
            reach += stride * (n - 1)
    return False


def _storage_positions(spec: TensorSpec, offset: int) -> Tensor:
    """Return the storage positions of a tensor's elements, in order, as an index on its device."""
    positions = np.full(spec.sizes, offset, np.int64)
    for d, (n, stride) in enumerate(zip(spec.sizes, spec.strides, strict=True)):
        positions += (np.arange(n) * stride).reshape((n,) + (1,) * (spec.ndim - d - 1))
    return from_numpy(positions.reshape(-1)).to(spec.device)


def unfold_backward(grad: Tensor, shape: Sequence[int], dimension: int, size: int, step: int) -> Tensor:
    """Add each window's gradient at the window's position."""
    if not shape:
        return grad.sum().reshape(())
    d = dimension % len(shape)
    windows = grad.shape[d]
    positions = (np.arange(windows)[:, None] * step + np.arange(size)).reshape(-1)
    moved = grad.movedim(-1, d + 1)
    joined = moved.reshape((*shape[:d], windows * size, *shape[d + 1 :]))
    zeros = ops.zeros(tuple(shape), dtype=grad.dtype, device=grad.device)
    return zeros.index_add(d, from_numpy(positions).to(grad.device, non_blocking=True), joined)


def unsqueeze_backward(grad: Tensor, shape: Sequence[int], dim: int) -> Tensor:
    """Return the gradient without the inserted dimension."""
    if grad._spec.layout is strided and not sees_whole():
        return reshaped(grad, shape)
    alone = is_alone(grad)
    made = grad.squeeze(dim)
    return taken_over(made, grad) if alone else made
