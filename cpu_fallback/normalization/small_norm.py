"""batch_norm and group_norm of small arrays: all of it at once, in float64, in which nothing of float32 overflows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

FLOAT64 = np.dtype(np.float64)
SMALL = 1 << 12
"""Elements up to which the wider numbers cost less than calls for blocks."""


def standardise(lines: Array, ones: Array, eps: float) -> tuple[Array, Array, Array]:
    """Take each line's mean from it. Gives means, biased variances, and 1 / sqrt(variance + eps)."""
    count = len(ones)
    mean = lines.dot(ones)
    np.divide(mean, count, mean)
    np.subtract(lines, mean[:, None], lines)
    variance = np.vecdot(lines, lines)
    np.divide(variance, count, variance)
    return mean, variance, reciprocal_root(variance, eps)


def reciprocal_root(variance: Array, eps: float) -> Array:
    """Compute 1 / sqrt(variance + eps)."""
    root = np.add(variance, eps)
    np.sqrt(root, root)
    return np.reciprocal(root, root)


def without_spread(scale: Array, eps: float) -> Array:
    """Set infinite scales to 0 in place: a constant batch has scale 0 if `eps` is 0."""
    if eps == 0:
        scale[np.isposinf(scale)] = 0
    return scale


def move_running(running: Array, new: Array, momentum: float) -> None:
    """Bring a running statistic towards the one of a batch, in float64."""
    moved = np.multiply(running, 1 - momentum, dtype=FLOAT64)
    moved += momentum * new.reshape(moved.shape)
    running[...] = moved


def small_batch_norm(spec: TensorSpec, training: bool) -> Callable[..., None]:
    """Return the kernel of `batch_norm` for tensors of this geometry, of at most `SMALL` elements."""
    if not training:
        return _by_running_statistics(spec)
    n, c, *spatial = spec.sizes
    count = spec.numel // c
    is_flat = count == n
    by_channel = (c, n, *spatial)
    rows = (c, count)
    ones = np.ones(count)
    # The unbiased variance of a single value is none.
    unbiased = count / (count - 1) if count > 1 else np.inf

    def into(
        out: Array,
        save_mean: Array,
        save_invstd: Array,
        x: Array,
        weight: Array | None,
        bias: Array | None,
        running_mean: Array | None,
        running_var: Array | None,
        momentum: float,
        eps: float,
    ) -> None:
        if is_flat:
            made = x.reshape(n, c).astype(FLOAT64)
            lines = made.T
        else:
            made = np.empty(by_channel)
            made[...] = x.swapaxes(0, 1)
            lines = made.reshape(rows)
        mean, variance, scale = standardise(lines, ones, eps)
        scale = without_spread(scale, eps)
        if running_mean is not None and running_var is not None:
            move_running(running_mean, mean, momentum)
            np.multiply(variance, unbiased, variance)
            move_running(running_var, variance, momentum)
        save_mean[...] = mean
        save_invstd[...] = scale
        if weight is not None:
            np.multiply(scale, weight.reshape(c), scale)
        np.multiply(lines, scale[:, None], lines)
        if bias is not None:
            np.add(lines, bias.reshape(c, 1), lines)
        if is_flat:
            out[...] = made.reshape(out.shape)
        else:
            out.swapaxes(0, 1)[...] = made

    return into


def _by_running_statistics(spec: TensorSpec) -> Callable[..., None]:
    """Return the kernel of `batch_norm` in evaluation."""
    column = (spec.sizes[1], *[1] * (spec.ndim - 2))

    def into(
        out: Array,
        save_mean: Array,
        save_invstd: Array,
        x: Array,
        weight: Array | None,
        bias: Array | None,
        running_mean: Array,
        running_var: Array,
        momentum: float,
        eps: float,
    ) -> None:
        scale = reciprocal_root(running_var.astype(FLOAT64), eps)
        if weight is not None:
            np.multiply(scale, weight, scale)
        made = np.subtract(x, running_mean.reshape(column), dtype=FLOAT64)
        np.multiply(made, scale.reshape(column), made)
        if bias is not None:
            np.add(made, bias.reshape(column), made)
        out[...] = made

    return into


def small_group_norm(spec: TensorSpec, groups: int) -> Callable[..., None]:
    """Return the kernel of `group_norm` for tensors of this geometry, of at most `SMALL` elements."""
    n, c = spec.sizes[:2]
    count = spec.numel // (n * groups)
    rows, by_channel = (n * groups, count), (n, c, spec.numel // (n * c))
    column = (c, 1)
    ones = np.ones(count)

    def into(
        out: Array,
        means: Array,
        rstds: Array,
        x: Array,
        weight: Array | None,
        bias: Array | None,
        eps: float,
    ) -> None:
        made = np.empty(rows)
        made[...] = x.reshape(rows)
        mean, _, rstd = standardise(made, ones, eps)
        means[...] = mean.reshape(means.shape)
        rstds[...] = rstd.reshape(rstds.shape)
        np.multiply(made, rstd[:, None], made)
        channels = made.reshape(by_channel)
        if weight is not None:
            np.multiply(channels, weight.reshape(column), channels)
        if bias is not None:
            np.add(channels, bias.reshape(column), channels)
        out[...] = made.reshape(out.shape)

    return into
