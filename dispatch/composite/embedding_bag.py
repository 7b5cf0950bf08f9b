"""`embedding_bag`, and the gradients of bags (ATen/native/EmbeddingBag.cpp).

Gradients gather rows by bag and add rows in the order of their indices. They are therefore deterministic and
differentiable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.scalar_type import int32, int64
from ..generated import functions as ops
from ..structured.meta.embedding_bag import MAX, MEAN, SUM
from ..structured.meta.linalg import check_same_device
from ..structured.operand_checks import check_dtype, check_ranks, check_sizes, check_sizes_given

if TYPE_CHECKING:
    from ...runtime.tensor_spec import TensorSpec
    from ..tensor import Tensor


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute `torch.embedding_bag`."""
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
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute `torch.embedding_bag` with a padding row, which is left out of every bag."""
    padding = -1
    if padding_idx is not None:
        check_ranks("embedding_bag", "weight", weight._spec, 2)
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
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int,
) -> Tensor:
    """Compute the gradient of the table: dense, or sparse over the rows that were looked up."""
    _check_bags("_embedding_bag_backward", grad, indices, offset2bag, mode, num_weights=num_weights)
    check_dtype("_embedding_bag_backward", "offsets", offsets._spec, int64, int32)
    check_sizes(
        "_embedding_bag_backward", "per_sample_weights", _spec(per_sample_weights), indices._spec.sizes
    )
    check_sizes("_embedding_bag_backward", "bag_size", bag_size._spec, grad._spec.sizes[:1])
    if offsets._spec.numel > bag_size._spec.numel and mode != MAX:
        grad, bag_size = _with_no_bag(grad), _with_no_bag(bag_size)
    if sparse:
        if mode == MAX:
            raise RuntimeError("max mode does not support sparse weights")
        rows = _rows_of_bags(grad, offset2bag, bag_size, mode, per_sample_weights)
        return ops.embedding_sparse_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq)
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


def _spec(x: Tensor | None) -> TensorSpec | None:
    return None if x is None else x._spec


def _check_bags(
    name: str, grad: Tensor, indices: Tensor, offset2bag: Tensor, mode: int, num_weights: int = 0
) -> None:
    """Raise RuntimeError for a gradient or indices that do not fit an embedding bag."""
    if mode not in (SUM, MEAN, MAX):
        raise RuntimeError(f"{name}: expected mode 0 (sum), 1 (mean) or 2 (max), but got {mode}")
    check_ranks(name, "grad", grad._spec, 2)
    check_ranks(name, "indices", indices._spec, 1)
    check_sizes_given(name, "num_weights", (num_weights,))
    check_same_device(name, grad._spec, indices._spec, offset2bag._spec)
    for argument, x in (("indices", indices), ("offset2bag", offset2bag)):
        check_dtype(name, argument, x._spec, int64, int32)
    if mode != MAX:
        check_sizes(name, "offset2bag", offset2bag._spec, indices._spec.sizes)


def _with_no_bag(x: Tensor) -> Tensor:
    """Return the entries of bags, and zeros for indices after the last offset, which belong to no bag."""
    return ops.cat([x, x.new_zeros((1, *x._spec.sizes[1:]))])


def _embedding_bag_dense_backward(
    grad: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int,
) -> Tensor:
    """Compute the dense gradient of the table: each row sums the gradients of its bags."""
    name = "_embedding_bag_dense_backward"
    _check_bags(name, grad, indices, offset2bag, mode, num_weights=num_weights)
    check_sizes(name, "bag_size", bag_size._spec, grad._spec.sizes[:1])
    check_sizes(name, "per_sample_weights", _spec(per_sample_weights), indices._spec.sizes)
    if mode == MAX:
        check_dtype(name, "maximum_indices", maximum_indices._spec, int64, int32)
        check_sizes(name, "maximum_indices", maximum_indices._spec, grad._spec.sizes)
        check_same_device(name, grad._spec, maximum_indices._spec)
    if mode == MAX:
        empty = ops.eq(bag_size, 0).unsqueeze(1)
        zeros = grad.new_zeros((num_weights, grad._spec.sizes[1]))
        return zeros.scatter_add(0, maximum_indices, grad.masked_fill(empty, 0))
    rows = _rows_of_bags(grad, offset2bag, bag_size, mode, per_sample_weights)
    return ops.embedding_dense_backward(rows, indices, num_weights, padding_idx, scale_grad_by_freq)


def _rows_of_bags(
    grad: Tensor, offset2bag: Tensor, bag_size: Tensor, mode: int, per_sample_weights: Tensor | None
) -> Tensor:
    """Return each index's gradient from its bag, divided by the bag's length or times the index's weight."""
    if mode == MEAN:
        grad = grad / ops.clamp(bag_size, min=1).unsqueeze(1).to(grad.dtype)
    rows = grad.index_select(0, offset2bag)
    return rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(1)


def _embedding_bag_per_sample_weights_backward(
    grad: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int,
) -> Tensor:
    """Compute the gradient of the weights: the dot product of a row and the gradient of its bag."""
    name = "_embedding_bag_per_sample_weights_backward"
    _check_bags(name, grad, indices, offset2bag, mode)
    check_ranks(name, "weight", weight._spec, 2)
    check_dtype(name, "weight", weight._spec, grad._spec.dtype)
    check_same_device(name, grad._spec, weight._spec)
    check_sizes(name, "grad", grad._spec, (grad._spec.sizes[0], weight._spec.sizes[1]))
    if mode != SUM:
        raise RuntimeError(f"{name}: expected mode 0 (sum), whose elements have weights, but got {mode}")
    if offsets._spec.numel > grad._spec.sizes[0]:
        grad = _with_no_bag(grad)
    weight_grads = (grad.index_select(0, offset2bag) * weight.index_select(0, indices)).sum(1)
    return weight_grads.masked_fill(ops.eq(indices, padding_idx), 0) if padding_idx >= 0 else weight_grads
