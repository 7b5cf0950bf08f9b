"""batch_norm and group_norm of contiguous tensors as compiled loops over lines (the extra ``triten[jit]``).

Each channel's lines, or each group's, stay in the cache between the passes over them; `channel_loop.py`
has the loops. Sums of pieces are in the dtype itself, and of all in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...runtime.cpu.loop_requests import Sharing, loop_now, shared_loop
from ...runtime.parallel import get_num_threads
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from .small_norm import move_running, without_spread

Array = np.ndarray[Any, Any]

COMPILE_THRESHOLD = 1 << 15
"""Compile loops for calls of at least this many elements; NumPy takes some 60 us for them."""
SHARED_FROM, WAKING_FROM = 1 << 15, 1 << 18
"""Elements from which threads share a loop, and from which those that sleep are woken for it."""
SHORTEST = 2
"""Length of a line from which a loop over lines is quicker than passes over whole blocks."""
PARTS = 4
"""Parts of a thread."""


def are_lines(*specs: TensorSpec | None) -> bool:
    """Return True if all tensors are contiguous, large, of long lines, and of one dtype that loops support."""
    first = next(spec for spec in specs if spec is not None)
    return (
        first.dtype.name in ("float32", "float64")
        and first.numel >= COMPILE_THRESHOLD
        and math.prod(first.sizes[2:]) >= SHORTEST
        and all(spec is None or (spec.is_contiguous and spec.dtype is first.dtype) for spec in specs)
        and _loop_now("moments", first.dtype.name) is not None
    )


def _loop_now(kind: str, dtype: str) -> Callable[..., None] | None:
    from .channel_loop import channel_loop

    return loop_now(channel_loop, kind, dtype)


class Lines:
    """The lines (samples, channels, length) of contiguous tensors, with one statistic for each channel."""

    def __init__(self, samples: int, channels: int, length: int, dtype: Any) -> None:
        self.sizes = (samples, channels, length)
        self.count = samples * length
        self.dtype = np.dtype(dtype)
        self._loops: dict[tuple[str, int], Callable[..., None]] = {}

    def run(self, kind: str, *arrays: Array) -> None:
        """Call a loop of some kind on all channels."""
        threads = get_num_threads()
        loop = self._loops.get((kind, threads))
        if loop is None:
            loop = self._loops[kind, threads] = self._planned(kind, threads)
        loop(*arrays)

    def _planned(self, kind: str, threads: int) -> Callable[..., None]:
        loop = _loop_now(kind, self.dtype.name)
        assert loop is not None
        channels = self.sizes[1]
        numel = math.prod(self.sizes)
        sharing = Sharing.of(numel, SHARED_FROM, WAKING_FROM) if threads > 1 else Sharing.ALONE
        step = -(-channels // (PARTS * threads)) if sharing else channels
        parts = [
            np.array([first, min(first + step, channels), *self.sizes], np.int64)
            for first in range(0, channels, step)
        ]
        return shared_loop(loop, parts, sharing, None)

    def parameter(self, values: Any, repeats: int = 1) -> Array:
        """Return values for each channel, or for each of some samples."""
        made = np.ascontiguousarray(values, self.dtype).reshape(-1)
        return np.tile(made, repeats) if repeats > 1 else made

    def moments(self, x: Array) -> tuple[Array, Array] | None:
        """Return the mean and biased variance of each channel in float64; None if not finite in the dtype."""
        mean, squares = np.empty(self.sizes[1]), np.empty(self.sizes[1])
        self.run("moments", x, mean, squares)
        if not math.isfinite(squares.sum()):
            return None
        return mean, np.maximum(squares, 0) / self.count


def batch_norm(spec: TensorSpec, general: Callable[..., None]) -> Callable[..., None]:
    """Return the kernel of `channel_norm.batch_norm` in training; `general` handles results that are not finite."""
    n, c, *spatial = spec.sizes
    lines = Lines(n, c, math.prod(spatial), spec.np_dtype)
    count = lines.count
    bessel = count / (count - 1) if count > 1 else math.inf
    zeros = np.zeros(c, lines.dtype)

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
        found = lines.moments(x)
        if found is None:
            general(out, save_mean, save_invstd, x, weight, bias, running_mean, running_var, momentum, eps)
            return
        mean, variance = found
        invstd = without_spread(1 / np.sqrt(variance + eps), eps)
        np.copyto(save_mean, mean, casting="unsafe")
        np.copyto(save_invstd, invstd, casting="unsafe")
        if running_mean is not None and running_var is not None:
            move_running(running_mean, mean, momentum)
            move_running(running_var, variance * bessel, momentum)
        scale = invstd if weight is None else invstd * weight
        shift = zeros if bias is None else lines.parameter(bias)
        lines.run("scaled", x, lines.parameter(mean), lines.parameter(scale), shift, out)

    return into


def batch_norm_backward(spec: TensorSpec) -> Callable[..., None]:
    """Return the kernel of `channel_norm.batch_norm_backward` in training."""
    n, c, *spatial = spec.sizes
    lines = Lines(n, c, math.prod(spatial), spec.np_dtype)
    count = lines.count

    def into(
        out: Array | None,
        to_weight: Array | None,
        to_bias: Array | None,
        grad: Array,
        x: Array,
        mean: Array,
        spread: Array,
        weight: Array | None,
        eps: float,
    ) -> None:
        mean, rstd = lines.parameter(mean), spread.astype(np.float64)
        plain, scaled = np.empty(c), np.empty(c)
        lines.run("gradient_sums", grad, x, mean, plain, scaled)
        scaled *= rstd
        for target, sums in ((to_weight, scaled), (to_bias, plain)):
            if target is not None:
                np.copyto(target, sums, casting="unsafe")
        if out is not None:
            scale = rstd if weight is None else rstd * weight
            slope, shift = scale * scaled * rstd / count, scale * plain / count
            lines.run("gradient", grad, x, mean, *(lines.parameter(v) for v in (scale, slope, shift)), out)

    return into


def group_norm(spec: TensorSpec, groups: int, general: Callable[..., None]) -> Callable[..., None]:
    """Return the kernel of `channel_norm.group_norm`; `general` handles results that are not finite."""
    n, c, *spatial = spec.sizes
    m, each = math.prod(spatial), c // groups
    rows, lines = (Lines(1, *sizes, spec.np_dtype) for sizes in ((n * groups, each * m), (n * c, m)))
    zeros = np.zeros(n * c, lines.dtype)

    def into(
        out: Array, means: Array, rstds: Array, x: Array, weight: Array | None, bias: Array | None, eps: float
    ) -> None:
        found = rows.moments(x)
        if found is None:
            general(out, means, rstds, x, weight, bias, eps)
            return
        mean, variance = found
        rstd = 1 / np.sqrt(variance + eps)
        np.copyto(means, mean.reshape(means.shape), casting="unsafe")
        np.copyto(rstds, rstd.reshape(rstds.shape), casting="unsafe")
        scale = np.repeat(rstd, each)
        if weight is not None:
            scale *= lines.parameter(weight, n)
        shift = zeros if bias is None else lines.parameter(bias, n)
        lines.run("scaled", x, lines.parameter(np.repeat(mean, each)), lines.parameter(scale), shift, out)

    return into


def group_norm_backward(spec: TensorSpec, groups: int) -> Callable[..., None]:
    """Return the kernel of `channel_norm.group_norm_backward`."""
    n, c, *spatial = spec.sizes
    m, each = math.prod(spatial), c // groups
    count = each * m
    lines = Lines(1, n * c, m, spec.np_dtype)

    def into(
        out: Array | None,
        to_weight: Array | None,
        to_bias: Array | None,
        grad: Array,
        x: Array,
        means: Array,
        rstds: Array,
        weight: Array | None,
    ) -> None:
        mean = np.repeat(lines.parameter(means), each)
        rstd = np.repeat(rstds.reshape(-1).astype(np.float64), each)
        plain, scaled = np.empty(n * c), np.empty(n * c)
        lines.run("gradient_sums", grad, x, mean, plain, scaled)
        scaled *= rstd
        for target, sums in ((to_weight, scaled), (to_bias, plain)):
            if target is not None:
                np.copyto(target, sums.reshape(n, c).sum(0), casting="unsafe")
        if out is None:
            return
        factor = np.ones(n * c) if weight is None else lines.parameter(weight, n).astype(np.float64)
        of_plain, of_scaled = (
            np.repeat((sums * factor).reshape(n * groups, each).sum(1) / count, each)
            for sums in (plain, scaled)
        )
        given = (rstd * factor, rstd * of_scaled * rstd, rstd * of_plain)
        lines.run("gradient", grad, x, mean, *(lines.parameter(value) for value in given), out)

    return into
