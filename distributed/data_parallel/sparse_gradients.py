"""Sums of sparse gradients: each process gets all indices and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..collectives import all_gather_into_tensor

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ..process_group import ProcessGroup

__all__ = ["all_reduce_sparse"]


def all_reduce_sparse(tensor: Tensor, group: ProcessGroup) -> Tensor:
    """Sum the sparse tensors of all ranks, and return the coalesced result.

    Ranks may have different numbers of elements; shorter tensors are padded to communicate.

    Args:
        tensor: This rank's tensor, in COO layout.
        group: The group.
    """
    from ...dispatch.functions.sparse import sparse_coo_tensor
    from ...dispatch.generated.functions import cat
    from ...dispatch.tensor_data import tensor as make_tensor

    size = group.size()
    own = tensor.coalesce()
    indices, values = own.indices(), own.values()
    counts = indices.new_empty(size)
    all_gather_into_tensor(counts, make_tensor([indices.shape[1]], device=indices.device), group)
    numbers = counts.tolist()
    max_nnz = max(numbers)
    if not max_nnz:
        return own
    all_indices = indices.new_empty(size, max_nnz, indices.shape[0])
    all_values = values.new_empty(size, max_nnz, *values.shape[1:])
    sent_indices = indices.new_zeros(max_nnz, indices.shape[0])
    sent_values = values.new_zeros(max_nnz, *values.shape[1:])
    sent_indices[: indices.shape[1]] = indices.t()
    sent_values[: values.shape[0]] = values
    all_gather_into_tensor(all_indices, sent_indices, group)
    all_gather_into_tensor(all_values, sent_values, group)
    return sparse_coo_tensor(
        cat([all_indices[rank, :number] for rank, number in enumerate(numbers)]).t(),
        cat([all_values[rank, :number] for rank, number in enumerate(numbers)]),
        tensor.shape,
    ).coalesce()
