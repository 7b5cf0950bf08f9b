"""batch_norm of contiguous tensors of one block: the lines of samples and channels at once.

No block is looked up.
Sums are those of `channel_norm`: BLAS's along a line, and float64 across lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from .moments import CHUNK, column_sums, ones, row_dots
from .small_norm import move_running, without_spread

MAX_SINGLE_THREAD_ELEMENTS = 1 << 18
"""Up to this many elements one thread is faster, and results stay in the cache for the next pass."""

Array = np.ndarray[Any, Any]


def are_rows(*specs: TensorSpec | None) -> bool:
    """Return True if all tensors are contiguous, small, and of one dtype, float32 or float64."""
    first = next(spec for spec in specs if spec is not None)
    return (
        first.dtype.name in ("float32", "float64")
        and 0 < first.numel <= MAX_SINGLE_THREAD_ELEMENTS
        and math.prod(first.sizes[2:]) <= CHUNK
        and all(spec is None or (spec.is_contiguous and spec.dtype is first.dtype) for spec in specs)
    )


class ChannelRows:
    """The lines (samples, channels, positions) of contiguous tensors of these sizes; (samples, channels) if a line has
    one position.
    """

    def __init__(self, spec: TensorSpec) -> None:
        n, c, *spatial = spec.sizes
        positions = math.prod(spatial)
        self.is_flat = positions == 1
        self.lines = (n, c) if self.is_flat else (n, c, positions)
        self.rows = (n, c) if self.is_flat else (n * c, positions)
        self.column_sizes = (c,) if self.is_flat else (c, 1)
        self.count = n * positions
        self.dtype = spec.np_dtype
        self.units = ones(positions, self.dtype)
        self.nbytes = spec.numel * self.dtype.itemsize

    def sums(self, rows: Array, other: Array | None = None) -> Array:
        """Return each channel's sum in float64, or its dot product with `other`."""
        if self.is_flat:
            return column_sums(rows if other is None else np.multiply(rows, other))
        return row_dots(rows, self.units if other is None else other).reshape(self.lines[:2]).sum(0)

    def column(self, values: Array) -> Array:
        """Return a value for each channel, shaped to broadcast with the lines."""
        return values.astype(self.dtype, copy=False).reshape(self.column_sizes)


def batch_norm(spec: TensorSpec, general: Callable[..., None]) -> Callable[..., None]:
    """Return the kernel of `channel_norm.batch_norm` in training; `general` handles results that are not finite."""
    view = ChannelRows(spec)
    count = view.count
    bessel = count / (count - 1) if count > 1 else math.inf

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
        rows, made = x.reshape(view.rows), out.reshape(view.lines)
        mean = view.sums(rows)
        mean /= count
        pivot = mean.astype(view.dtype)
        np.subtract(x.reshape(view.lines), view.column(pivot), made)
        flat = made.reshape(view.rows)
        variance = view.sums(flat, flat)
        if not math.isfinite(variance.sum()):
            general(out, save_mean, save_invstd, x, weight, bias, running_mean, running_var, momentum, eps)
            return
        left = mean - pivot
        variance -= count * left * left
        np.maximum(variance, 0, out=variance)
        variance /= count
        invstd = without_spread(1 / np.sqrt(variance + eps), eps)
        save_mean[...] = mean.reshape(save_mean.shape)
        save_invstd[...] = invstd.reshape(save_invstd.shape)
        if running_mean is not None and running_var is not None:
            variance *= bessel
            move_running(running_mean, mean, momentum)
            move_running(running_var, variance, momentum)
        made *= view.column(invstd if weight is None else invstd * weight.reshape(-1))
        if bias is not None:
            made += view.column(bias)

    return into


def batch_norm_backward(spec: TensorSpec) -> Callable[..., None]:
    """Return the kernel of `channel_norm.batch_norm_backward` in training."""
    view = ChannelRows(spec)
    count = view.count

    def into(
        out: Array | None,
        to_weight: Array | None,
        to_bias: Array | None,
        grad: Array,
        x: Array,
        mean: Array,
        invstd: Array,
        weight: Array | None,
        eps: float,
    ) -> None:
        g, invstd = grad.reshape(view.rows), invstd.reshape(-1).astype(np.float64)
        room = borrow(view.nbytes)
        gaps: Array = np.ndarray(view.lines, view.dtype, room)
        np.subtract(x.reshape(view.lines), view.column(mean), gaps)
        plain, scaled = view.sums(g), view.sums(g, gaps.reshape(view.rows))
        scaled *= invstd
        if to_weight is not None:
            to_weight[...] = scaled.reshape(to_weight.shape)
        if to_bias is not None:
            to_bias[...] = plain.reshape(to_bias.shape)
        if out is not None:
            scaled *= invstd
            scaled /= count
            plain /= count
            gaps *= view.column(scaled)
            made = out.reshape(view.lines)
            np.subtract(grad.reshape(view.lines), gaps, made)
            made -= view.column(plain)
            made *= view.column(invstd if weight is None else invstd * weight.reshape(-1))
        give_back(room)

    return into
