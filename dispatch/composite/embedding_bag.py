"""`embedding_bag`, and the gradients of bags (ATen/native/EmbeddingBag.cpp).

Gradients are made of rows picked by bag and rows added in the order of their indices, so that they are deterministic
and differentiable themselves.
"""

from __future__ import annotations

from typing import Any

from ..generated import functions as ops
from ..structured.meta.embedding_bag import MAX, MEAN


def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Any,
    include_last_offset: bool,
) -> Any:
    """`torch.embedding_bag`."""
    return embedding_bag_padding_idx(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        None,
    )


def embedding_bag_padding_idx(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Any,
    include_last_offset: bool,
    padding_idx: int | None,
) -> Any:
    """`torch.embedding_bag` with a row that counts for nothing."""
    padding = -1
    if padding_idx is not None:
        rows = weight._spec.sizes[0]
        if not -rows <= padding_idx < rows:
            raise RuntimeError(
                f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, but got "
                f"{padding_idx}"
            )
        padding = padding_idx % rows
    return ops._embedding_bag(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding,
    )


def _embedding_bag_backward(
    grad: Any,
    indices: Any,
    offsets: Any,
    offset2bag: Any,
    bag_size: Any,
    maximum_indices: Any,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Any,
    padding_idx: int,
) -> Any:
    """The gradient of the table, which is dense."""
    if offsets._spec.numel > bag_size._spec.numel and mode != MAX:
        grad, bag_size = _with_no_bag(grad), _with_no_bag(bag_size)
    return ops._embedding_bag_dense_backward(
        grad,
        indices,
        offset2bag,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )


def _with_no_bag(x: Any) -> Any:
    """The entries of bags, and zeros for indices after the last offset, which are in none."""
    return ops.cat([x, x.new_zeros((1, *x._spec.sizes[1:]))])


def _embedding_bag_dense_backward(
    grad: Any,
    indices: Any,
    offset2bag: Any,
    bag_size: Any,
    maximum_indices: Any,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Any,
    padding_idx: int,
) -> Any:
    """The gradient of the table: to each row, that of the bags which it is in."""
    if mode == MAX:
        empty = ops.eq(bag_size, 0).unsqueeze(1)
        zeros = grad.new_zeros((num_weights, grad._spec.sizes[1]))
        return zeros.scatter_add(0, maximum_indices, grad.masked_fill(empty, 0))
    if mode == MEAN:
        grad = grad / ops.clamp(bag_size, min=1).unsqueeze(1).to(grad.dtype)
    rows = grad.index_select(0, offset2bag)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    return ops.embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq)


def _embedding_bag_per_sample_weights_backward(
    grad: Any, weight: Any, indices: Any, offsets: Any, offset2bag: Any, mode: int, padding_idx: int
) -> Any:
    """The gradient of the weights: the product of a row and the gradient of its bag."""
    if offsets._spec.numel > grad._spec.sizes[0]:
        grad = _with_no_bag(grad)
    found = (grad.index_select(0, offset2bag) * weight.index_select(0, indices)).sum(1)
    return found.masked_fill(ops.eq(indices, padding_idx), 0) if padding_idx >= 0 else found
