"""Formulas of views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...generated import functions as ops
from ..reduce_to_spec import sum_to_size


def sum_to(grad: Any, shape: Sequence[int]) -> Any:
    """The sum over dimensions that were expanded."""
    return sum_to_size(grad, tuple(shape))


def permute_backward(grad: Any, dims: Sequence[int]) -> Any:
    """The permutation undone."""
    rank = len(dims)
    inverse = [0] * rank
    for position, d in enumerate(dims):
        inverse[d % rank] = position
    return grad.permute(inverse)


def select_backward(grad: Any, shape: Sequence[int], dim: int, index: int) -> Any:
    """Zeros with the gradient at one index."""
    return ops.select_backward(grad, shape, dim, index)


def slice_backward(grad: Any, shape: Sequence[int], dim: int, start: Any, end: Any, step: int) -> Any:
    """Zeros with the gradient in a range."""
    return ops.slice_backward(grad, shape, dim, start, end, step)


def as_strided_backward(
    grad: Any,
    sizes: Sequence[int],
    strides: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    offset: Any,
) -> Any:
    """The gradient put where the view's elements were in an input of these sizes and strides."""
    return ops._as_strided_backward(grad, sizes, strides, size, stride, offset or 0)
