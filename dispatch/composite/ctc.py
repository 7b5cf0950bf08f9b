"""Connectionist temporal classification over `_ctc_loss`, as ATen composes it (ATen/native/LossCTC.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...runtime.scalar_type import int64
from ...runtime.tensor_impl import TensorImpl
from ..generated import functions as ops
from ..structured.meta.loss import MEAN, SUM
from ..tensor_data import tensor

if TYPE_CHECKING:
    from ..tensor import Tensor


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int,
    reduction: int,
    zero_infinity: bool,
) -> Tensor:
    """Compute `torch.ctc_loss` of (T, N, C) or (T, C). The mean divides each loss by its target's length."""
    batched = log_probs._spec.ndim == 3
    probabilities = log_probs if batched else log_probs.unsqueeze(1)
    classes = targets.to(probabilities.device).to(int64)
    lengths: Tensor | list[int]
    if (
        isinstance(input_lengths, TensorImpl)
        and isinstance(target_lengths, TensorImpl)
        and (input_lengths._spec.keys or target_lengths._spec.keys)
    ):  # a transform or a class may have no lengths to read
        lengths = target_lengths
        losses = ops._ctc_loss(probabilities, classes, input_lengths, lengths, blank, zero_infinity)[0]
    else:
        inputs = lengths_of("input_lengths", input_lengths)
        lengths = lengths_of("target_lengths", target_lengths)
        losses = ops._ctc_loss(probabilities, classes, inputs, lengths, blank, zero_infinity)[0]
    if zero_infinity:
        losses = ops.where(ops.eq(losses, math.inf), 0.0, losses)
    if reduction == MEAN:
        if isinstance(lengths, list):
            counts = tensor([max(length, 1) for length in lengths], dtype=losses.dtype)
            counts = counts.to(losses.device, non_blocking=True)
        else:
            counts = ops.clamp_min(lengths, 1)
        return (losses / counts).mean()
    if reduction == SUM:
        return losses.sum()
    return losses if batched else losses.squeeze(0)


def _ctc_loss_of_tensors(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    zero_infinity: bool,
) -> tuple[Tensor, Tensor]:
    """Run `_ctc_loss` with tensor lengths, which the host reads."""
    lengths = lengths_of("input_lengths", input_lengths), lengths_of("target_lengths", target_lengths)
    return ops._ctc_loss(log_probs, targets, *lengths, blank, zero_infinity)


def _ctc_loss_backward_of_tensors(
    grad: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    neg_log_likelihood: Tensor,
    log_alpha: Tensor,
    blank: int,
    zero_infinity: bool,
) -> Tensor:
    """Run `_ctc_loss_backward` with tensor lengths, which the host reads."""
    lengths = lengths_of("input_lengths", input_lengths), lengths_of("target_lengths", target_lengths)
    results = neg_log_likelihood, log_alpha
    return ops._ctc_loss_backward(grad, log_probs, targets, *lengths, *results, blank, zero_infinity)


def lengths_of(name: str, lengths: Tensor | Sequence[int]) -> list[int]:
    """Return lengths as Python numbers, from a tensor of integers or a sequence."""
    if not isinstance(lengths, TensorImpl):
        return list(lengths)
    if not lengths._spec.dtype.is_integral:
        raise RuntimeError(f"{name} must be integral")
    tensor: Tensor = lengths
    return [int(x) for x in tensor.reshape((-1,)).tolist()]
