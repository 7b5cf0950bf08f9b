"""Connectionist temporal classification over ndarrays: all labels of all sequences at once, a step for each time.

The recursions run in logarithms, in float64. Source: A. Graves et al., "Connectionist Temporal Classification" (2006),
section 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np

Array = np.ndarray[Any, Any]


class States:
    """Labels with blanks before, between and after them, [N, 2 S + 1], and what is known of each.

    Args:
        targets: (N, S), or one sequence after another.
        lengths: Number of labels of each sequence.
    """

    def __init__(self, targets: Array, lengths: Sequence[int], blank: int, classes: int) -> None:
        counts = np.asarray(lengths, np.int64)[:, None]
        longest = int(counts.max(initial=0))
        positions = np.arange(longest)
        if targets.ndim == 1:
            first = np.cumsum(counts, 0) - counts
            within = np.minimum(first + positions, max(len(targets) - 1, 0))
            labels = targets[within] if len(targets) else np.zeros((len(counts), longest), np.int64)
        else:
            labels = targets[:, :longest]
        labels = np.where(positions < counts, labels, blank)
        wrong = (labels < 0) | (labels >= classes)
        if wrong.any():
            raise RuntimeError(
                f"ctc_loss: expected targets within [0, {classes}), but got {int(labels[wrong][0])}"
            )
        self.labels = np.full((len(counts), 2 * longest + 1), blank, np.int64)
        self.labels[:, 1::2] = labels
        states = np.arange(2 * longest + 1)
        self.outside = states > 2 * counts
        self.ends = 2 * counts[:, 0]
        # Over a blank goes a path from one label to the next, unless that is the same.
        self.jumps = np.zeros(self.labels.shape, np.bool_)
        self.jumps[:, 3::2] = labels[:, 1:] != labels[:, :-1]

    def emitted(self, log_probs: Array) -> Array:
        """Return the log-probability of each state's label at each time, [T, N, 2 S + 1] in float64."""
        result = np.take_along_axis(log_probs, self.labels[None], 2).astype(np.float64)
        result[:, self.outside] = -np.inf
        return result


def joined(stay: Array, step: Array, jump: Array) -> Array:
    """Compute the log-sum-exp of three terms."""
    maximum = np.maximum(np.maximum(stay, step), jump)
    shift = np.where(np.isneginf(maximum), 0.0, maximum)
    total = np.exp(stay - shift)
    total += np.exp(step - shift)
    total += np.exp(jump - shift)
    return np.log(total) + shift  # type: ignore[no-any-return]


def moved(a: Array, shift: int) -> Array:
    """Shift states by `shift`, filling with -infinity beyond the ends."""
    out = np.full_like(a, -np.inf)
    if shift > 0:
        out[:, shift:] = a[:, :-shift]
    else:
        out[:, :shift] = a[:, -shift:]
    return out


def ctc_loss(call: StructuredCall) -> PlannedKernel:
    """Compute each sequence's negative log-likelihood, infinite if no path fits, and the forward
    log-probabilities.
    """
    lengths, counts, blank = (call.args[name] for name in ("input_lengths", "target_lengths", "blank"))
    inputs = np.asarray(lengths, np.int64)

    def into(losses: Array, log_alpha: Array, log_probs: Array, targets: Array) -> None:
        states = States(targets, counts, blank, log_probs.shape[2])
        emitted = states.emitted(log_probs)
        alpha = emitted[0].copy()
        alpha[:, 2:] = -np.inf
        alpha[inputs == 0] = -np.inf
        log_alpha[:, 0] = alpha
        for time in range(1, len(emitted)):
            jump = np.where(states.jumps, moved(alpha, 2), -np.inf)
            following = joined(alpha, moved(alpha, 1), jump) + emitted[time]
            running = (inputs > time)[:, None]
            log_alpha[:, time] = np.where(running, following, -np.inf)
            alpha = np.where(running, following, alpha)
        rows = np.arange(len(inputs))
        blank_last = alpha[rows, states.ends]
        label_last = np.where(states.ends > 0, alpha[rows, np.maximum(states.ends - 1, 0)], -np.inf)
        likelihood = joined(blank_last, label_last, np.full_like(blank_last, -np.inf))
        # With zero time steps, only the empty label sequence has probability 1.
        losses[...] = np.where((inputs == 0) & (states.ends == 0), -0.0, -likelihood)

    return PlannedKernel(quietly(into))


def ctc_loss_backward(call: StructuredCall) -> PlannedKernel:
    """Compute (exp(x) - the sum of the paths through each class) * grad, zero beyond each sequence's length."""
    lengths, counts, blank = (call.args[name] for name in ("input_lengths", "target_lengths", "blank"))
    zero_infinity = call.args["zero_infinity"]
    inputs = np.asarray(lengths, np.int64)

    def into(
        out: Array, grad: Array, log_probs: Array, targets: Array, losses: Array, log_alpha: Array
    ) -> None:
        times, batch, classes = log_probs.shape
        states = States(targets, counts, blank, classes)
        emitted = states.emitted(log_probs)
        rows, width = np.arange(batch), states.labels.shape[1]
        shares = np.empty(emitted.shape)
        beta = np.full((batch, width), -np.inf)
        jumps = np.concatenate([states.jumps[:, 2:], np.zeros((batch, min(2, width)), np.bool_)], 1)
        cost = losses.astype(np.float64)[:, None]
        for time in range(times - 1, -1, -1):
            jump = np.where(jumps[:, :width], moved(beta, -2), -np.inf)
            following = joined(beta, moved(beta, -1), jump) + emitted[time]
            start = np.full_like(beta, -np.inf)
            start[rows, states.ends] = emitted[time, rows, states.ends]
            before = np.maximum(states.ends - 1, 0)
            start[rows, before] = emitted[time, rows, before]
            beta = np.where((inputs > time + 1)[:, None], following, start)
            shares[time] = log_alpha[:, time] + beta + cost - emitted[time]
        shares = np.where(states.outside, 0.0, np.exp(shares))
        slots = (np.arange(times)[:, None, None] * batch + rows[:, None]) * classes + states.labels
        through = np.bincount(slots.ravel(), shares.ravel(), times * batch * classes)
        through = through.reshape(log_probs.shape)
        through[np.isneginf(log_probs) | np.isposinf(cost)] = np.nan
        gradient = (np.exp(log_probs.astype(np.float64)) - through) * grad[:, None]
        left_out = np.arange(times)[:, None] >= inputs
        if zero_infinity:
            left_out = left_out | np.isposinf(losses)
        np.copyto(out, np.where(left_out[:, :, None], 0.0, gradient), casting="unsafe")

    return PlannedKernel(quietly(into))


register_stub("_ctc_loss_stub", "cpu", ctc_loss)
register_stub("_ctc_loss_backward_stub", "cpu", ctc_loss_backward)
