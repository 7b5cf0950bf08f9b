"""Connectionist temporal classification: the likelihood of a sequence of labels over all of its alignments.

The forward recursion in logarithms over labels with blanks between them, a step of whole tensors for each time. Source:
A. Graves et al., "Connectionist Temporal Classification" (2006), section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.scalar_type import int64
from ...runtime.tensor_impl import TensorImpl
from ..generated import functions as ops
from .tensor_data import tensor

NEVER = -1e30
"""The logarithm of nothing, finite so that differences of two of them are numbers."""


def ctc_losses(
    log_probs: Any,
    targets: Any,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int,
    zero_infinity: bool,
) -> Any:
    """The negative log-likelihood of each sequence of a batch, infinite where no alignment fits.

    As PyTorch's, the gradient takes the probabilities of each time for normalised: to that of the likelihood it adds
    the probabilities themselves, so that through `log_softmax` it is that of the activations.
    """
    times, batch, _ = log_probs._spec.sizes
    device = log_probs._spec.device
    longest = max(target_lengths, default=0)
    labels = padded(targets, target_lengths, longest, device)
    inputs, lengths = (lengths_on(device, x) for x in (input_lengths, target_lengths))
    extended = ops.full((batch, 2 * longest + 1), blank, dtype=int64, device=device)
    if longest:
        extended[:, 1::2] = labels
    emitted = ops.gather(log_probs, 2, extended.expand((times, batch, 2 * longest + 1))).clamp_min(NEVER)
    # A label may follow the last but one state unless that is the same label, or a blank.
    places = ops.arange(2 * longest + 1, device=device)
    skips = ops.logical_and(extended[:, 2:] != extended[:, :-2], places[2:] % 2 == 1)
    alpha = ops.where(ops.logical_and(places < 2, places <= 2 * lengths.unsqueeze(1)), emitted[0], NEVER)
    nothing = ops.full((batch, 2), NEVER, dtype=log_probs._spec.dtype, device=device)
    for time in range(1, times):
        shifted = ops.cat([nothing, alpha], 1)
        total = ops.logaddexp(alpha, shifted[:, 1:-1])
        if longest:
            skipped = ops.where(skips, shifted[:, 2:-2], NEVER)
            total = ops.cat([total[:, :2], ops.logaddexp(total[:, 2:], skipped)], 1)
        alpha = ops.where(inputs.unsqueeze(1) > time, ops.add(total, emitted[time]), alpha)
    ends = ops.stack([2 * lengths, (2 * lengths - 1).clamp_min(0)], 1)
    last = ops.gather(alpha, 1, ends)
    without = ops.where(lengths > 0, last[:, 1], NEVER)
    likelihood = ops.logaddexp(last[:, 0], without)
    # Of a sequence without times only no label at all is certain.
    likelihood = ops.where(ops.logical_and(inputs == 0, lengths == 0), 0.0, likelihood)
    impossible = ops.logical_or(likelihood < NEVER / 2, ops.logical_and(inputs == 0, lengths > 0))
    within = ops.arange(times, device=device).unsqueeze(1) < inputs
    mass = ops.sum(ops.where(within, ops.sum(ops.exp(log_probs), 2), 0.0), 0)
    loss = ops.add(ops.neg(likelihood), ops.sub(mass, mass.detach()))
    return ops.where(impossible, 0.0 if zero_infinity else float("inf"), loss)


def lengths_on(device: Any, numbers: Sequence[int]) -> Any:
    """Whole numbers as a tensor."""
    return tensor(list(numbers), dtype=int64).to(device)


def padded(targets: Any, lengths: Sequence[int], longest: int, device: Any) -> Any:
    """Labels as (batch, longest), from that or from one sequence after another."""
    labels = targets.to(device).to(int64)
    if labels._spec.ndim == 2:
        return labels[:, :longest]
    starts, total = [], 0
    for length in lengths:
        starts.append(total)
        total += length
    places = lengths_on(device, starts).unsqueeze(1) + ops.arange(longest, device=device)
    return (
        labels[places.clamp_max(max(labels.numel() - 1, 0))]
        if longest
        else labels.new_empty((len(lengths), 0))
    )


def lengths_of(name: str, lengths: Any) -> list[int]:
    """Lengths as Python numbers, from a tensor of integers or a sequence."""
    if not isinstance(lengths, TensorImpl):
        return list(lengths)
    if not lengths._spec.dtype.is_integral:
        raise RuntimeError(f"{name} must be integral")
    found: Any = lengths
    return [int(x) for x in found.reshape((-1,)).tolist()]
