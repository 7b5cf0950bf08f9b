"""Bags of embeddings as `torch.nn.functional` has them; `nn.functional` re-exports this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.core.tensor_function import overridable
from ..dispatch.generated import functions as ops
from ..runtime.scalar_type import int64

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = ["embedding_bag"]

MODES = {"sum": 0, "mean": 1, "max": 2}


@overridable
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Reduce bags of a table's rows by sum, mean or maximum (`torch.nn.functional.embedding_bag`).

    Args:
        input: Indices of rows, as int32 or int64: (B, N) for bags of N each, or (N,) with `offsets`.
        weight: The table, of shape (V, D).
        offsets: The start of each bag in `input`; with `include_last_offset` also the end of the last bag.
        max_norm: Rows of a larger norm are scaled down to it first, in place.
        norm_type: The order of that norm.
        scale_grad_by_freq: If True, divide gradients by the frequency of each row. Default: False.
        mode: "sum", "mean" or "max".
        sparse: If True, the gradient of `weight` is a sparse tensor of the used rows. Default: False.
        per_sample_weights: The weight of each row, of `input`'s shape; only with mode "sum".
        include_last_offset: If True, `offsets` end with the number of indices. Default: False.
        padding_idx: A row that counts for nothing and gets no gradient.

    Returns:
        A tensor of shape (B, D); zeros for a bag of nothing.

    Raises:
        ValueError: Sizes and options do not go together.
        NotImplementedError: `per_sample_weights` are given for means or maxima.
        RuntimeError: An index is outside the table, or offsets do not ascend from 0.

    Example:
        >>> import triten as tt
        >>> table = tt.tensor([[1.0], [2.0], [4.0]])
        >>> tt.nn.functional.embedding_bag(tt.tensor([0, 1, 2]), table, tt.tensor([0, 2]), mode="sum").tolist()
        [[3.0], [4.0]]
    """
    if weight.dtype is int64 and input.is_floating_point():
        weight, input = input, weight
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the "
            f"same shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        bags, length = input.shape
        offsets = (
            ops.arange(0, bags * length, length, dtype=input.dtype, device=input.device)
            if length
            else ops.zeros((bags,), dtype=input.dtype, device=input.device)
        )
        include_last_offset = False
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if mode not in MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max":
        if scale_grad_by_freq:
            raise ValueError("max mode does not support scaling the gradient by the frequency")
        if sparse:
            raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        with no_grad():
            ops.embedding_renorm_(weight.detach(), input.contiguous(), max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}')."
        )
    return ops.embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]
