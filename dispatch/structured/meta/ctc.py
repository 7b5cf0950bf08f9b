"""Meta functions of connectionist temporal classification (ATen/native/LossCTC.cpp)."""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.scalar_type import float32, float64, int32, int64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .linalg import check_same_device


def check_ctc(
    log_probs: TensorSpec,
    targets: TensorSpec,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int,
) -> int:
    """Return the length of the longest target. Raises an error for inconsistent arguments."""
    where = "(while checking arguments for ctc_loss_allocate_outputs)"
    if not log_probs.numel:
        raise RuntimeError("log_probs tensor must not be empty")
    if targets.dtype not in (int32, int64):
        raise RuntimeError(
            "Expected tensor for argument #2 'targets' to have one of the following scalar types: Long, Int; but got "
            f"{targets.dtype.scalar_name} instead {where}"
        )
    if log_probs.ndim != 3:
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {log_probs.ndim}-dimensional tensor for argument #1 'log_probs' "
            f"{where}"
        )
    if targets.ndim not in (1, 2):
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument #2 'targets' {where}"
        )
    check_same_device("ctc_loss", log_probs, targets)
    times, batch, classes = log_probs.sizes
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if len(lengths) != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
        least = min(lengths, default=0)
        if least < 0:
            raise RuntimeError(f"Expected {name} to have value at least 0, but got value {least} {where}")
    if max(input_lengths, default=0) > times:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {times}, but got value {max(input_lengths)} {where}"
        )
    longest, total = max(target_lengths, default=0), sum(target_lengths)
    if targets.ndim == 1 and targets.numel != total:
        raise RuntimeError(
            f"Expected tensor to have size {total} at dimension 0, but got size {targets.numel} for argument #2 "
            f"'targets' {where}"
        )
    if targets.ndim == 2 and targets.sizes[0] != batch:
        raise RuntimeError(
            f"Expected tensor to have size {batch} at dimension 0, but got size {targets.sizes[0]} for argument #2 "
            f"'targets' {where}"
        )
    if targets.ndim == 2 and targets.sizes[1] < longest:
        raise RuntimeError(
            f"Expected tensor to have size at least {longest} at dimension 1, but got size {targets.sizes[1]} for "
            f"argument #2 'targets' {where}"
        )
    if log_probs.dtype not in (float32, float64):
        raise NotImplementedError(
            f"\"ctc_loss_{log_probs.device.type}\" not implemented for '{log_probs.dtype.scalar_name}'"
        )
    return longest


def _ctc_loss(
    meta: MetaBase,
    log_probs: TensorSpec,
    targets: TensorSpec,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int,
    zero_infinity: bool,
) -> None:
    """Infer negative log-likelihoods (N), and the log-probabilities of prefixes by time and state, (N, T, 2 S + 1)."""
    longest = check_ctc(log_probs, targets, input_lengths, target_lengths, blank)
    times, batch, _ = log_probs.sizes
    meta.set_output_contiguous(0, (batch,), dtype=log_probs.dtype, device=log_probs.device)
    meta.set_output_contiguous(
        1, (batch, times, 2 * longest + 1), dtype=log_probs.dtype, device=log_probs.device
    )


def _ctc_loss_backward(
    meta: MetaBase,
    grad: TensorSpec,
    log_probs: TensorSpec,
    targets: TensorSpec,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    neg_log_likelihood: TensorSpec,
    log_alpha: TensorSpec,
    blank: int,
    zero_infinity: bool,
) -> None:
    """Infer the gradient of the log-probabilities, which are assumed to be normalized."""
    check_same_device(meta.name, log_probs, grad, neg_log_likelihood, log_alpha)
    longest = check_ctc(log_probs, targets, input_lengths, target_lengths, blank)
    times, batch, _ = log_probs.sizes
    expected = {
        "grad": (grad, (batch,)),
        "neg_log_likelihood": (neg_log_likelihood, (batch,)),
        "log_alpha": (log_alpha, (batch, times, 2 * longest + 1)),
    }
    for name, (spec, sizes) in expected.items():
        if spec.sizes != sizes or spec.dtype is not log_probs.dtype:
            raise RuntimeError(
                f"_ctc_loss_backward: expected {name} of {list(sizes)} and {log_probs.dtype.scalar_name}, but got "
                f"{list(spec.sizes)} and {spec.dtype.scalar_name}"
            )
    meta.set_output_contiguous(0, log_probs.sizes, dtype=log_probs.dtype, device=log_probs.device)
