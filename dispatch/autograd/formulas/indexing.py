"""Formulas of indexing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....runtime.tensor_spec import TensorSpec
from ...generated import functions as ops


def zeros_for(grad: Any, shape: Sequence[int]) -> Any:
    """Zeros of a shape, with the gradient's dtype and device."""
    return grad.new_zeros(tuple(shape))


def cat_backward(grad: Any, specs: Sequence[TensorSpec], dim: int) -> list[Any]:
    """The gradient's part for each tensor that was joined."""
    parts = []
    start = 0
    wrapped = dim % grad.ndim
    for spec in specs:
        if spec.sizes == (0,):
            parts.append(zeros_for(grad, (0,)))
            continue
        part = grad.slice(wrapped, start, start + spec.sizes[wrapped], 1)
        start += spec.sizes[wrapped]
        parts.append(part)
    return parts


def index_backward(grad: Any, shape: Sequence[int], indices: Sequence[Any]) -> Any:
    """Zeros with the gradient added at the indices."""
    return zeros_for(grad, shape).index_put(indices, grad, True)


def index_put_self_backward(grad: Any, indices: Sequence[Any], accumulate: bool) -> Any:
    """The gradient, zero where values were put in place of the tensor's own."""
    return grad if accumulate else grad.index_put(indices, zeros_for(grad, ()))


def index_select_self_backward(grad: Any, shape: Sequence[int], dim: int, index: Any) -> Any:
    """Zeros with the gradient's slices added at the indices."""
    return zeros_for(grad, shape).index_add(dim, index, grad)


def index_add_source_backward(grad: Any, source: TensorSpec, dim: int, index: Any, alpha: Any) -> Any:
    """The slices of the gradient that `source` went to, times `alpha`."""
    part = grad.index_select(dim, index)
    part = part.expand(source.sizes) if source.ndim else part.reshape(())
    return part if alpha == 1 else part * alpha


def gather_backward(grad: Any, shape: Sequence[int], dim: int, index: Any) -> Any:
    """Zeros with the gradient's elements added at the places gathered from."""
    return zeros_for(grad, shape).scatter_add(dim, index, grad)


def scatter_src_backward(grad: Any, dim: int, index: Any, shape: Sequence[int]) -> Any:
    """The gradient where elements of the source went; zero for those beyond the index."""
    part = grad.gather(dim, index)
    if part._spec.sizes == tuple(shape):
        return part
    whole = zeros_for(grad, shape)
    target = whole
    for d, size in enumerate(part._spec.sizes):
        target = target.slice(d, 0, size, 1)
    target.copy_(part)
    return whole


def take_backward(grad: Any, shape: Sequence[int], index: Any) -> Any:
    """Zeros with the gradient added at places of the flattened tensor."""
    return zeros_for(grad, shape).put(index, grad, True)


def masked_fill_value_backward(grad: Any, mask: Any) -> Any:
    """The sum of the gradient where the mask holds."""
    return ops.where(mask, grad, 0).sum()


def embedding_double_backward(grad: Any, indices: Any, padding_idx: int) -> Any:
    """Rows of the gradient's gradient, zero for the padding."""
    rows = ops.embedding(grad, indices)
    return rows.masked_fill((indices == padding_idx).unsqueeze(-1), 0) if padding_idx >= 0 else rows
