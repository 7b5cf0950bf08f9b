"""Normalisations over rows, groups and channels, in blocks that stay in the cache.

Narrow floats are computed in float32. Sums run pairwise along rows and in float64 across them. The variance is the
mean of squared deviations from the mean, never a difference of two sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.tensor_spec import TensorSpec
from .error_state import quiet
from .widen import compute_np

BLOCK = 1 << 16
"""Elements of a block."""


def epsilon(dtype: Any) -> float:
    """What `rms_norm` adds where it is told nothing: the precision of the dtype that is computed in."""
    return float(np.finfo(dtype).eps)


def blocks(rows: int, n: int) -> Iterator[slice]:
    """Rows in blocks."""
    step = max(1, BLOCK // max(n, 1))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def row_mean(a: Any, n: int) -> Any:
    """The mean of each row of (rows, n), (rows, 1)."""
    return np.add.reduce(a, 1, keepdims=True) / a.dtype.type(n)


def deviations(a: Any, n: int, centred: bool) -> tuple[Any, Any, Any]:
    """Rows less their mean, that mean, and the mean of the squares of what is left."""
    mean = None
    if centred:
        mean = row_mean(a, n)
        a = np.subtract(a, mean)
    return a, mean, row_mean(np.square(a), n)


def reciprocal_root(variance: Any, eps: float) -> Any:
    """1 / sqrt(variance + eps)."""
    return 1 / np.sqrt(variance + variance.dtype.type(eps))


def _flat(array: Any, dtype: Any) -> Any:
    """A parameter as one row of the dtype computed in; None stays."""
    return None if array is None else array.reshape(1, -1).astype(dtype, copy=False)


def _rows_of(spec: TensorSpec, lead: int) -> tuple[int, int]:
    return math.prod(spec.sizes[:lead]), math.prod(spec.sizes[lead:])


def rows_forward(centred: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """layer_norm, or rms_norm, which subtracts no mean and has no bias."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec = call.args["input"]
        rows, n = _rows_of(spec, call.extra["lead"])
        dtype = compute_np(spec.dtype)
        default = epsilon(dtype)

        def compute(out: Any, means: Any, rstds: Any, x: Any, weight: Any, bias: Any, eps: Any) -> None:
            eps = default if eps is None else eps
            weight, bias = _flat(weight, dtype), _flat(bias, dtype)
            x, out, rstds = x.reshape(rows, n), out.reshape(rows, n), rstds.reshape(rows, 1)
            if means is not None:
                means = means.reshape(rows, 1)
            if n == 0:
                rstds.fill(np.nan)
                if means is not None:
                    means.fill(0)
                return
            for part in blocks(rows, n):
                made, mean, variance = deviations(x[part].astype(dtype, copy=False), n, centred)
                rstd = reciprocal_root(variance, eps)
                made = np.multiply(made, rstd, made if centred else None)
                if weight is not None:
                    made *= weight
                if bias is not None:
                    made += bias
                np.copyto(out[part], made, casting="unsafe")
                np.copyto(rstds[part], rstd, casting="unsafe")
                if means is not None:
                    np.copyto(means[part], mean, casting="unsafe")

        if centred:
            return PlannedKernel(quiet(compute))
        return PlannedKernel(quiet(lambda out, rstd, x, w, eps: compute(out, None, rstd, x, w, None, eps)))

    return factory


def rows_backward(centred: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """The gradients of input, weight and bias; those of weight and bias are summed over rows in float64."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec = call.args["input"]
        rows, n = _rows_of(spec, call.extra["lead"])
        dtype = compute_np(spec.dtype)

        def compute(
            to: Any, to_weight: Any, to_bias: Any, grad: Any, x: Any, means: Any, rstds: Any, weight: Any
        ) -> None:
            weight = _flat(weight, dtype)
            grad, x, rstds = grad.reshape(rows, n), x.reshape(rows, n), rstds.reshape(rows, 1)
            means = None if means is None else means.reshape(rows, 1)
            if to is not None:
                to = to.reshape(rows, n)
            sums = [None if t is None else np.zeros(n) for t in (to_weight, to_bias)]
            for part in blocks(rows, n):
                g = grad[part].astype(dtype, copy=False)
                rstd = rstds[part].astype(dtype, copy=False)
                hat = x[part].astype(dtype, copy=False)
                if means is not None:
                    hat = hat - means[part].astype(dtype, copy=False)
                hat = hat * rstd
                if sums[0] is not None:
                    sums[0] += np.add.reduce(g * hat, 0, np.float64)
                if sums[1] is not None:
                    sums[1] += np.add.reduce(g, 0, np.float64)
                if to is None or n == 0:
                    continue
                if weight is not None:
                    g = g * weight
                made = g - hat * row_mean(g * hat, n)
                if centred:
                    made -= row_mean(g, n)
                made *= rstd
                np.copyto(to[part], made, casting="unsafe")
            for target, total in zip((to_weight, to_bias), sums, strict=True):
                if target is not None:
                    np.copyto(target, total.reshape(target.shape), casting="unsafe")

        return PlannedKernel(quiet(masked(call, compute, centred)))

    return factory


def masked(call: StructuredCall, compute: Callable[..., None], centred: bool = True) -> Callable[..., None]:
    """`compute`, with None for the outputs and statistics that the operator does not have."""
    if centred:
        return compute
    return lambda to, to_weight, grad, x, rstd, weight: compute(
        to, to_weight, None, grad, x, None, rstd, weight
    )


class Channels:
    """(samples, groups, channels of a group, positions) of an array of (N, C, ...), in its own order of strides."""

    def __init__(self, spec: TensorSpec, group: int) -> None:
        n, c, *spatial = spec.sizes
        self.shape = (n, group, c // group, math.prod(spatial))
        self.dtype = compute_np(spec.dtype)

    def __call__(self, array: Any) -> Any:
        """The array as these four dimensions; what is channels-last is viewed, not moved."""
        n, group, each, _ = self.shape
        last = np.moveaxis(array, 1, -1)
        if last.flags.c_contiguous and not array.flags.c_contiguous:
            return last.reshape(n, -1, group, each).transpose(0, 2, 3, 1)
        return array.reshape(self.shape)

    def parameter(self, array: Any) -> Any:
        """A value for each channel, such that it broadcasts."""
        _, group, each, _ = self.shape
        return None if array is None else array.astype(self.dtype, copy=False).reshape(1, group, each, 1)


def total(a: Any, axes: tuple[int, ...]) -> Any:
    """A sum over some of four axes, in float64, kept as size 1."""
    return np.add.reduce(a, axes, np.float64, keepdims=True)


def moments(x: Any, dtype: Any, axes: tuple[int, ...], each: int) -> tuple[Any, Any]:
    """Mean and biased variance over some axes of four, both in float64; `each` samples at a time."""
    count = math.prod(x.shape[axis] for axis in axes)
    parts = [slice(start, start + each) for start in range(0, len(x), each)]
    if 0 not in axes:
        means, variances = zip(*[_moments_of(x[p], dtype, axes, count) for p in parts], strict=True)
        return np.concatenate(means), np.concatenate(variances)
    mean = sum(total(x[p], axes) for p in parts) / count
    pivot = mean.astype(dtype)
    gaps = [(x[p].astype(dtype, copy=False) - pivot) for p in parts[:1]]
    squares = total(np.square(gaps[0]), axes)
    for p in parts[1:]:
        squares = squares + total(np.square(x[p].astype(dtype, copy=False) - pivot), axes)
    # What the pivot's rounding left.
    return mean, np.maximum(squares / count - np.square(mean - pivot), 0)


def _moments_of(x: Any, dtype: Any, axes: tuple[int, ...], count: int) -> tuple[Any, Any]:
    if count == 0:
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        return np.zeros(shape), np.full(shape, np.nan)
    mean = total(x, axes) / count
    pivot = mean.astype(dtype)
    squares = total(np.square(x.astype(dtype, copy=False) - pivot), axes)
    return mean, np.maximum(squares / count - np.square(mean - pivot), 0)


def _samples(shape: tuple[int, ...]) -> int:
    return max(1, BLOCK // max(math.prod(shape[1:]), 1))


def _apply(out: Any, x: Any, view: Channels, mean: Any, rstd: Any, weight: Any, bias: Any, each: int) -> None:
    """(x - mean) * rstd * weight + bias; statistics may differ from sample to sample."""
    for start in range(0, len(x), each):
        part = slice(start, start + each)
        made = x[part].astype(view.dtype, copy=False) - _of(mean, part)
        made *= _of(rstd, part)
        if weight is not None:
            made *= weight
        if bias is not None:
            made += bias
        np.copyto(out[part], made, casting="unsafe")


def _of(statistic: Any, part: slice) -> Any:
    return statistic if len(statistic) == 1 else statistic[part]


def group_norm(call: StructuredCall) -> PlannedKernel:
    """Statistics of each sample's groups, then one pass that normalises."""
    spec, group = call.args["input"], call.args["group"]
    view = Channels(spec, group)
    each = _samples(view.shape)

    def into(out: Any, means: Any, rstds: Any, x: Any, weight: Any, bias: Any, eps: Any) -> None:
        x, out = view(x), view(out)
        if not len(x):
            return
        mean, variance = moments(x, view.dtype, (2, 3), each)
        rstd = 1 / np.sqrt(variance + eps)
        np.copyto(means, mean.reshape(means.shape), casting="unsafe")
        np.copyto(rstds, rstd.reshape(rstds.shape), casting="unsafe")
        mean, rstd = mean.astype(view.dtype), rstd.astype(view.dtype)
        _apply(out, x, view, mean, rstd, view.parameter(weight), view.parameter(bias), each)

    return PlannedKernel(quiet(into))


def _gradient(
    to: Any, grad: Any, x: Any, view: Channels, mean: Any, rstd: Any, weight: Any, shifts: Any, each: int
) -> None:
    """rstd * (grad * weight - shifts[0] - x^ * shifts[1]); without shifts the statistics were constants."""
    for start in range(0, len(x), each):
        part = slice(start, start + each)
        made = grad[part].astype(view.dtype, copy=False)
        made = made * (1 if weight is None else weight)
        scale = _of(rstd, part)
        if shifts is not None:
            hat = (x[part].astype(view.dtype, copy=False) - _of(mean, part)) * scale
            hat *= _of(shifts[1], part)
            made = made - _of(shifts[0], part)
            made -= hat
        np.copyto(to[part], made * scale, casting="unsafe")


def _channel_sums(grad: Any, x: Any, view: Channels, mean: Any, rstd: Any, each: int) -> tuple[Any, Any]:
    """The sums over positions of grad and of grad * x^, of each sample and channel, in float64."""
    plain, scaled = [np.zeros((0, *view.shape[1:3], 1))], [np.zeros((0, *view.shape[1:3], 1))]
    for start in range(0, len(x), each):
        part = slice(start, start + each)
        g = grad[part].astype(view.dtype, copy=False)
        hat = (x[part].astype(view.dtype, copy=False) - _of(mean, part)) * _of(rstd, part)
        plain.append(total(g, (3,)))
        scaled.append(total(g * hat, (3,)))
    return np.concatenate(plain), np.concatenate(scaled)


def _store_sums(targets: tuple[Any, Any], sums: tuple[Any, Any]) -> None:
    """Gradients of weight and bias from the sums of all samples."""
    for target, each in zip(targets, sums, strict=True):
        if target is not None:
            np.copyto(target, np.add.reduce(each, 0).reshape(target.shape), casting="unsafe")


def group_norm_backward(call: StructuredCall) -> PlannedKernel:
    """Sums of each sample's channels first, from which everything follows."""
    spec, group = call.args["input"], call.extra["group"]
    view = Channels(spec, group)
    each = _samples(view.shape)
    count = view.shape[2] * view.shape[3]

    def into(
        to: Any, to_weight: Any, to_bias: Any, grad: Any, x: Any, means: Any, rstds: Any, weight: Any
    ) -> None:
        x, grad, weight = view(x), view(grad), view.parameter(weight)
        mean, rstd = (s.astype(view.dtype, copy=False).reshape(-1, group, 1, 1) for s in (means, rstds))
        sums = _channel_sums(grad, x, view, mean, rstd, each)
        _store_sums((to_weight, to_bias), (sums[1], sums[0]))
        if to is not None and to.size:
            scale = 1 if weight is None else weight
            shifts = [(total(s * scale, (2,)) / count).astype(view.dtype) for s in sums]
            _gradient(view(to), grad, x, view, mean, rstd, weight, shifts, each)

    return PlannedKernel(quiet(into))


def batch_norm(call: StructuredCall) -> PlannedKernel:
    """Statistics over all samples and positions, or the running ones; those are brought up to date in training."""
    spec, training = call.args["input"], call.extra["training"]
    view = Channels(spec, 1)
    each = _samples(view.shape)
    count = view.shape[0] * view.shape[3]

    def into(
        out: Any,
        save_mean: Any,
        save_invstd: Any,
        x: Any,
        weight: Any,
        bias: Any,
        running_mean: Any,
        running_var: Any,
        momentum: float,
        eps: float,
    ) -> None:
        x, out = view(x), view(out)
        if training:
            mean, variance = moments(x, view.dtype, (0, 3), each)
            invstd = 1 / np.sqrt(variance + eps)
            np.copyto(save_mean, mean.reshape(-1), casting="unsafe")
            np.copyto(save_invstd, invstd.reshape(-1), casting="unsafe")
            if running_mean is not None:
                unbiased = variance * (count / np.float64(count - 1))
                for running, new in ((running_mean, mean), (running_var, unbiased)):
                    old = running.astype(np.float64)
                    moved = momentum * new.reshape(old.shape) + (1 - momentum) * old
                    np.copyto(running, moved, casting="unsafe")
            mean, invstd = mean.astype(view.dtype), invstd.astype(view.dtype)
        else:
            mean, invstd = view.parameter(running_mean), reciprocal_root(view.parameter(running_var), eps)
        _apply(out, x, view, mean, invstd, view.parameter(weight), view.parameter(bias), each)

    return PlannedKernel(quiet(into))


def batch_norm_backward(call: StructuredCall) -> PlannedKernel:
    """As `group_norm_backward`, with sums over all samples; in evaluation the statistics were constants."""
    spec, train = call.args["input"], call.extra["train"]
    view = Channels(spec, 1)
    each = _samples(view.shape)
    count = view.shape[0] * view.shape[3]

    def into(
        to: Any,
        to_weight: Any,
        to_bias: Any,
        grad: Any,
        x: Any,
        mean: Any,
        spread: Any,
        weight: Any,
        eps: Any,
    ) -> None:
        x, grad, weight, mean = view(x), view(grad), view.parameter(weight), view.parameter(mean)
        rstd = view.parameter(spread)
        if not train:
            rstd = reciprocal_root(rstd, eps)
        sums = None
        if train or to_weight is not None or to_bias is not None:
            sums = _channel_sums(grad, x, view, mean, rstd, each)
            _store_sums((to_weight, to_bias), (sums[1], sums[0]))
        if to is not None and to.size:
            shifts = None
            if train:
                scale = 1 if weight is None else weight
                shifts = [(total(s, (0,)) * scale / count).astype(view.dtype) for s in sums]
            _gradient(view(to), grad, x, view, mean, rstd, weight, shifts, each)

    return PlannedKernel(quiet(into))


FACTORIES = {
    "native_layer_norm_stub": rows_forward(True),
    "native_layer_norm_backward_stub": rows_backward(True),
    "fused_rms_norm_stub": rows_forward(False),
    "fused_rms_norm_backward_stub": rows_backward(False),
    "native_group_norm_stub": group_norm,
    "native_group_norm_backward_stub": group_norm_backward,
    "native_batch_norm_stub": batch_norm,
    "native_batch_norm_backward_stub": batch_norm_backward,
}

for _stub, _factory in FACTORIES.items():
    register_stub(_stub, "cpu", _factory)
