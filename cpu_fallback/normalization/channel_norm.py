"""group_norm and batch_norm: each channel in cache-sized blocks, on several threads.

16-bit floats compute in float32. Mean and variance of each block are computed together, around the block's
own mean, and combined in float64. The kernel reads an array in its memory order: contiguous as a row for each
sample and channel, channels-last as a row for each position. Arrays of another layout are copied to that
order block by block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import compute_np
from . import batch_rows, compiled_lines, small_norm
from .moments import BLOCK, GRAIN, column_sums, combined, ones, row_dots

Array = np.ndarray[Any, Any]


NEAR = 4.0
"""Limit, in standard deviations from zero, up to which a mean is multiplied out, which saves a pass: the error is a
few roundings of it.
"""
SMALL = 1 << 14
"""Limit below which a pass takes less time than the check."""


class Part(NamedTuple):
    """A block: samples, channels and positions."""

    samples: slice
    channels: slice
    positions: slice


def reciprocal_root(variance: Any, eps: float) -> Any:
    """Compute 1 / sqrt(variance + eps)."""
    return 1 / np.sqrt(variance + variance.dtype.type(eps))


class Channels:
    """(samples, channels, positions) in blocks, with the channels' values to go with them.

    A value for each sample and channel is an array (samples or 1, channels).
    """

    def __init__(self, spec: TensorSpec, merged: bool = False) -> None:
        """Set up the blocks; `merged` if all samples share their statistics, in channels-last order."""
        n, c, *spatial = spec.sizes
        self.sizes = (n, c, math.prod(spatial))
        self.dtype = compute_np(spec.dtype)
        order = (0, *range(2, spec.ndim), 1)
        strides = [spec.strides[d] for d in order if spec.sizes[d] != 1]
        gapless = [math.prod(spec.sizes[d] for d in order[i + 1 :]) for i in range(spec.ndim)]
        self.last = strides == [s for s, d in zip(gapless, order, strict=True) if spec.sizes[d] != 1] and (
            not spec.is_contiguous or self.sizes[2] == 1
        )
        if self.last and merged:
            self.sizes = (1, c, n * self.sizes[2])
        self.line = c if self.last else self.sizes[2]
        self.parts = list(self._parts()) if spec.numel else []
        largest = max((math.prod(s.stop - s.start for s in part) for part in self.parts), default=1)
        self.grain = max(1, GRAIN // largest)
        self.units = ones(self.sizes[2], self.dtype)

    def _parts(self) -> Any:
        n, c, m = self.sizes
        inner, outer = (c, m) if self.last else (m, c)
        line = min(inner, BLOCK)
        lines = min(outer, max(1, BLOCK // line))
        samples = min(n, max(1, BLOCK // (line * lines))) if (line, lines) == (inner, outer) else 1
        for sample in range(0, n, samples):
            for at in range(0, outer, lines):
                for start in range(0, inner, line):
                    along = slice(start, min(start + line, inner))
                    across = slice(at, min(at + lines, outer))
                    channels, positions = (along, across) if self.last else (across, along)
                    yield Part(slice(sample, min(sample + samples, n)), channels, positions)

    def whole(self, array: Array) -> Array:
        """(N, C, ...) as (samples, positions, channels) or (samples, channels, positions), a view where it can be."""
        n, c, m = self.sizes
        if self.last:
            return np.moveaxis(array, 1, -1).reshape(n, m, c)
        return array.reshape(n, c, m)

    def block(self, array: Array, part: Part) -> Array:
        """Return a block of the result of `whole`, in the order in which it is read."""
        if self.last:
            return array[part.samples, part.positions, part.channels]
        return array[part.samples, part.channels, part.positions]

    def read(self, array: Array, part: Part) -> Array:
        """Return a block in the compute dtype."""
        return np.ascontiguousarray(self.block(array, part), self.dtype)

    def of(self, values: Array, part: Part) -> Array:
        """Return values of (samples or 1, channels), such that they broadcast with a block."""
        some = values[part.samples if len(values) > 1 else slice(None), part.channels]
        return some[:, None, :] if self.last else some[:, :, None]

    def sums(self, block: Array, other: Array | None = None) -> Array:
        """Sum a block over its positions, times `other` if given: (samples, channels) in float64."""
        shape = block.shape
        if not self.last:
            flat = block.reshape(-1, shape[2])
            rows = row_dots(flat, self.units if other is None else other.reshape(flat.shape))
            return rows.reshape(shape[:2])
        product = block if other is None else np.multiply(block, other)
        return np.stack([column_sums(np.ascontiguousarray(sample)) for sample in product])

    def each(self, run: Callable[[Part], None]) -> None:
        """Call `run` on every block."""

        def some(first: int, last: int) -> None:
            for part in self.parts[first:last]:
                run(part)

        parallel_for(0, len(self.parts), self.grain, some)

    def parameter(self, array: Any) -> Any:
        """Return a parameter as values for each channel."""
        return None if array is None else array.astype(self.dtype, copy=False).reshape(1, -1)

    def gathered(self, make: Callable[[Part], Sequence[Array]], count: int) -> list[Array]:
        """Collect `make`'s results for each block, (samples, channels), as (samples, channels, blocks of
        positions).
        """
        n, c, m = self.sizes
        if not self.parts:
            return [np.zeros((n, c, 1)) for _ in range(count)]
        step = self.parts[0].positions.stop
        made = [np.empty((n, c, -(-m // step))) for _ in range(count)]

        def run(part: Part) -> None:
            at = (part.samples, part.channels, part.positions.start // step)
            for target, value in zip(made, make(part), strict=True):
                target[at] = value

        self.each(run)
        return made

    def counts(self) -> Array:
        """Return the number of positions in each block of positions."""
        m = self.sizes[2]
        step = self.parts[0].positions.stop if self.parts else max(m, 1)
        return np.array([min(step, m - start) for start in range(0, max(m, 1), step)], np.float64)

    def moments(self, x: Array, groups: int | None) -> tuple[Array, Array]:
        """Mean and biased variance of each sample's groups, (samples, groups), or of each channel, (1, channels)."""
        n, c, m = self.sizes
        if not self.parts:
            shape = (1, c) if groups is None else (n, groups)
            return np.zeros(shape) if groups is not None else np.full(shape, np.nan), np.full(shape, np.nan)

        def make(part: Part) -> tuple[Array, Array]:
            block = self.read(x, part)
            result = self._moments_of(block, part)
            if not np.isfinite(result).all() and self.dtype != np.float64:
                # Sums or squares may have overflowed.
                result = self._moments_of(block.astype(np.float64), part)
            return result

        means, squares = self.gathered(make, 2)
        counts: Any = self.counts()
        if groups is None:
            mean, square = combined(counts, means, squares, (0, 2))
            return mean[:, :, 0], square[:, :, 0] / (n * m)
        shape = (n, groups, c // groups, len(counts))
        mean, square = combined(counts, means.reshape(shape), squares.reshape(shape), (2, 3))
        return mean[:, :, 0, 0], square[:, :, 0, 0] / (c // groups * m)

    def _moments_of(self, block: Array, part: Part) -> tuple[Array, Array]:
        count = part.positions.stop - part.positions.start
        mean = self.sums(block) / count
        pivot = mean.astype(block.dtype)
        gaps = np.subtract(block, pivot[:, None, :] if self.last else pivot[:, :, None])
        # The remainder that the pivot's rounding left.
        return mean, np.maximum(self.sums(gaps, gaps) - count * np.square(mean - pivot), 0)

    def normalise(self, out: Array, x: Array, mean: Array, rstd: Array, weight: Any, bias: Any) -> None:
        """Compute (x - mean) * rstd * weight + bias, each (samples or 1, channels) or None."""
        target = self.whole(out)
        direct = out.dtype == self.dtype
        scale = rstd if weight is None else rstd * weight
        shift = bias
        centred = out.size <= SMALL or not (np.abs(mean * rstd) <= NEAR).all()
        if not centred:
            wide = mean.astype(np.float64) * scale
            shift = -wide if bias is None else bias - wide
        mean, scale = mean.astype(self.dtype, copy=False), scale.astype(self.dtype, copy=False)
        shift = None if shift is None else shift.astype(self.dtype, copy=False)

        def run(part: Part) -> None:
            block = self.read(x, part)
            there = self.block(target, part)
            made = there if direct else None
            if centred:
                block = made = np.subtract(block, self.of(mean, part), made)
            made = np.multiply(block, self.of(scale, part), made)
            if shift is not None:
                made += self.of(shift, part)
            if not direct:
                np.copyto(there, made, casting="unsafe")

        self.each(run)
        self.settle(out, target)

    def settle(self, out: Array, target: Array) -> None:
        """Have `out` hold what was written to `whole` of it, where that is no view."""
        if not np.may_share_memory(out, target):
            n, c, *spatial = out.shape
            order = (0, out.ndim - 1, *range(1, out.ndim - 1))
            made = target.reshape(n, *spatial, c).transpose(order) if self.last else target.reshape(out.shape)
            np.copyto(out, made)

    def gradient_sums(self, grad: Array, x: Array, mean: Array) -> list[Array]:
        """Sum grad and grad * (x - mean) over positions: (samples, channels) each, in float64."""

        def make(part: Part) -> tuple[Array, Array]:
            g = self.read(grad, part)
            return self.sums(g), self.sums(g, np.subtract(self.read(x, part), self.of(mean, part)))

        return [sums.sum(2) for sums in self.gathered(make, 2)]

    def differentiate(
        self,
        out: Array,
        grad: Array,
        x: Array,
        mean: Array,
        scale: Array,
        shifts: Sequence[Array] | None,
        weight: Array | None = None,
    ) -> None:
        """Compute scale * (grad * weight - shifts[0] - (x - mean) * shifts[1]); without shifts, scale * grad."""
        target = self.whole(out)
        direct = out.dtype == self.dtype
        scale = scale.astype(self.dtype)
        plain, slope = (None, None) if shifts is None else [s.astype(self.dtype) for s in shifts]

        def run(part: Part) -> None:
            there = self.block(target, part)
            made = there if direct else None
            g = self.read(grad, part)
            if weight is not None:
                g = made = np.multiply(g, self.of(weight, part), made)
            if slope is not None:
                gaps = np.subtract(self.read(x, part), self.of(mean, part))
                gaps *= self.of(slope, part)
                made = np.subtract(g, gaps, made)
                made -= self.of(plain, part)
                made *= self.of(scale, part)
            else:
                made = np.multiply(g, self.of(scale, part), made)
            if not direct:
                np.copyto(there, made, casting="unsafe")

        self.each(run)
        self.settle(out, target)


def group_norm(call: StructuredCall) -> PlannedKernel:
    """Compute the statistics of each sample's groups, then normalize in one pass."""
    spec, group = call.args["input"], call.args["group"]
    if 0 < spec.numel <= small_norm.SMALL:
        chosen("one pass over a small tensor", "{} elements are at most {}", spec.numel, small_norm.SMALL)
        return PlannedKernel(quietly(small_norm.small_group_norm(spec, group)))
    kernel = _group_norm_by_passes(call)
    if compiled_lines.are_lines(spec, call.outputs[0]):
        chosen("compiled lines", "llvmlite is installed, and {} elements are many", spec.numel)
        return PlannedKernel(quietly(compiled_lines.group_norm(spec, group, kernel.into)))
    return kernel


def _group_norm_by_passes(call: StructuredCall) -> PlannedKernel:
    spec, group = call.args["input"], call.args["group"]
    view = Channels(spec)
    each = spec.sizes[1] // group
    if spec.is_contiguous and call.outputs[0].is_contiguous and 0 < each * view.sizes[2] <= BLOCK:
        why = "everything is contiguous, and the {} elements of a group are at most {}"
        chosen("groups as rows", why, each * view.sizes[2], BLOCK)
        return PlannedKernel(quietly(_group_rows(view, group), line=view.line))
    why = "something is not contiguous, or the {} elements of a group are more than {}"
    chosen("statistics, then one pass", why, each * view.sizes[2], BLOCK)

    def into(out: Any, means: Any, rstds: Any, x: Any, weight: Any, bias: Any, eps: Any) -> None:
        if not len(x):
            return
        x = view.whole(x)
        mean, variance = view.moments(x, group)
        rstd = 1 / np.sqrt(variance + eps)
        np.copyto(means, mean.reshape(means.shape), casting="unsafe")
        np.copyto(rstds, rstd.reshape(rstds.shape), casting="unsafe")
        mean, rstd = np.repeat(mean, each, 1), np.repeat(rstd, each, 1)
        view.normalise(out, x, mean, rstd, view.parameter(weight), view.parameter(bias))

    return PlannedKernel(quietly(into, line=view.line))


def _group_rows(view: Channels, groups: int) -> Callable[..., None]:
    """Compute group_norm of contiguous tensors whose groups are rows of at most a block."""
    n, c, m = view.sizes
    rows, each, count = n * groups, c // groups, c // groups * m
    units = ones(count, view.dtype)
    step, grain = max(1, BLOCK // count), max(1, GRAIN // count)
    lines = (-1, m)

    def moments(a: Array, target: Array) -> tuple[Array, Array]:
        """Return the mean and variance of rows; `target` becomes a - mean."""
        mean = row_dots(a, units) / count
        pivot = mean.astype(a.dtype)
        np.subtract(a, pivot[:, None], target)
        squares = row_dots(target, target) - count * np.square(mean - pivot)
        return mean, np.maximum(squares, 0) / count

    def into(out: Any, means: Any, rstds: Any, x: Any, weight: Any, bias: Any, eps: Any) -> None:
        x, target = x.reshape(rows, count), out.reshape(rows, count)
        means, rstds = means.reshape(rows), rstds.reshape(rows)
        direct = out.dtype == view.dtype
        scales, shifts = (
            None if p is None else np.tile(p.reshape(groups, each).astype(view.dtype, copy=False), (n, 1))
            for p in (weight, bias)
        )

        def some(first: int, last: int) -> None:
            for start in range(first, last, step):
                part = slice(start, min(start + step, last))
                a = x[part].astype(view.dtype, copy=False)
                made = target[part] if direct else np.empty(a.shape, view.dtype)
                mean, variance = moments(a, made)
                if view.dtype != np.float64 and not np.isfinite(variance).all():
                    # Sums or squares may have overflowed.
                    wide = np.empty(a.shape, np.float64)
                    mean, variance = moments(a.astype(np.float64), wide)
                    np.copyto(made, wide, casting="same_kind")
                rstd = 1 / np.sqrt(variance + eps)
                means[part], rstds[part] = mean, rstd
                rstd = rstd[:, None]
                if scales is None:
                    made *= rstd.astype(view.dtype)
                else:
                    by_channel = made.reshape(lines)
                    by_channel *= (scales[part] * rstd).astype(view.dtype).reshape(-1, 1)
                if shifts is not None:
                    by_channel = made.reshape(lines)
                    by_channel += shifts[part].reshape(-1, 1)
                if not direct:
                    np.copyto(target[part], made, casting="unsafe")

        parallel_for(0, rows, grain, some)

    return into


def _store(target: Any, sums: Array) -> None:
    if target is not None:
        np.copyto(target, sums.sum(0).reshape(target.shape), casting="unsafe")


def group_norm_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the sums of each sample's channels, then the gradients from them."""
    spec, group = call.args["input"], call.extra["group"]
    if compiled_lines.are_lines(spec, call.args["grad_out"], call.outputs[0]):
        return PlannedKernel(quietly(compiled_lines.group_norm_backward(spec, group)))
    view = Channels(spec)
    n, c, positions = view.sizes
    each = c // group
    count = each * positions

    def into(
        out: Any, to_weight: Any, to_bias: Any, grad: Any, x: Any, means: Any, rstds: Any, weight: Any
    ) -> None:
        x, grad = view.whole(x), view.whole(grad)
        mean = np.repeat(means.reshape(n, group).astype(view.dtype, copy=False), each, 1)
        rstd = np.repeat(rstds.reshape(n, group).astype(np.float64), each, 1)
        plain, scaled = view.gradient_sums(grad, x, mean)
        scaled *= rstd
        _store(to_weight, scaled)
        _store(to_bias, plain)
        if out is None or not out.size:
            return
        factor = np.ones(()) if weight is None else weight.reshape(1, c).astype(np.float64)
        means_of = [
            np.repeat((s * factor).reshape(n, group, each).sum(2) / count, each, 1) for s in (plain, scaled)
        ]
        view.differentiate(
            out, grad, x, mean, rstd, (means_of[0], means_of[1] * rstd), view.parameter(weight)
        )

    return PlannedKernel(quietly(into, line=view.line))


def batch_norm(call: StructuredCall) -> PlannedKernel:
    """Normalize by statistics over all samples and positions, or by the running ones, which training updates."""
    spec, training = call.args["input"], call.extra["training"]
    if 0 < spec.numel <= small_norm.SMALL:
        chosen("one pass over a small tensor", "{} elements are at most {}", spec.numel, small_norm.SMALL)
        return PlannedKernel(quietly(small_norm.small_batch_norm(spec, training)))
    view = Channels(spec, merged=True)
    count = view.sizes[0] * view.sizes[2]

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
        x = view.whole(x)
        if training:
            mean, variance = view.moments(x, None)
            invstd = small_norm.without_spread(1 / np.sqrt(variance + eps), eps)
            np.copyto(save_mean, mean.reshape(-1), casting="unsafe")
            np.copyto(save_invstd, invstd.reshape(-1), casting="unsafe")
            if running_mean is not None:
                unbiased = variance * (count / np.float64(count - 1))
                for running, new in ((running_mean, mean), (running_var, unbiased)):
                    small_norm.move_running(running, new, momentum)
        else:
            mean, invstd = view.parameter(running_mean), reciprocal_root(view.parameter(running_var), eps)
        view.normalise(out, x, mean, invstd, view.parameter(weight), view.parameter(bias))

    if training and compiled_lines.are_lines(spec, call.outputs[0]):
        chosen("compiled lines", "llvmlite is installed, and {} elements are many", spec.numel)
        return PlannedKernel(quietly(compiled_lines.batch_norm(spec, into)))
    if training and batch_rows.are_rows(spec, call.outputs[0]):
        chosen(
            "one block of lines",
            "{} contiguous elements are at most {}",
            spec.numel,
            batch_rows.MAX_SINGLE_THREAD_ELEMENTS,
        )
        return PlannedKernel(quietly(batch_rows.batch_norm(spec, into), line=view.line))
    chosen("statistics, then one pass", "{} elements are more than {}", spec.numel, small_norm.SMALL)
    return PlannedKernel(quietly(into, line=view.line))


def batch_norm_statistics(call: StructuredCall) -> PlannedKernel:
    """Compute the statistics that `batch_norm` saves in training, without its normalized result."""
    spec, args = call.args["input"], call.args
    out = TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device)
    given = {
        "input": spec,
        "weight": None,
        "bias": None,
        **{name: args[name] for name in ("running_mean", "running_var", "momentum", "eps")},
    }
    outputs = (out, *call.outputs)
    extra = {"training": True, "outputs": outputs}
    whole = StructuredCall(call.name, given, tuple(given), outputs, None, call.device, extra)
    run = batch_norm(whole).into

    def into(mean: Any, invstd: Any, x: Any, *running_and_numbers: Any) -> None:
        run(np.empty(out.sizes, out.np_dtype), mean, invstd, x, None, None, *running_and_numbers)

    return PlannedKernel(into)


def batch_norm_backward(call: StructuredCall) -> PlannedKernel:
    """Compute gradients as `group_norm_backward` does, summed over all samples; in evaluation, statistics are
    constants.
    """
    spec, train = call.args["input"], call.extra["train"]
    if train and compiled_lines.are_lines(spec, call.args["grad_out"], call.outputs[0]):
        return PlannedKernel(quietly(compiled_lines.batch_norm_backward(spec)))
    if train and batch_rows.are_rows(spec, call.args["grad_out"], call.outputs[0]):
        line = math.prod(spec.sizes[2:])
        return PlannedKernel(quietly(batch_rows.batch_norm_backward(spec), line=line))
    view = Channels(spec, merged=True)
    count = view.sizes[0] * view.sizes[2]

    def into(
        out: Any,
        to_weight: Any,
        to_bias: Any,
        grad: Any,
        x: Any,
        mean: Any,
        spread: Any,
        weight: Any,
        eps: Any,
    ) -> None:
        x, grad, mean, rstd = view.whole(x), view.whole(grad), view.parameter(mean), view.parameter(spread)
        if not train:
            rstd = reciprocal_root(rstd, eps)
        rstd = rstd.astype(np.float64)
        shifts = None
        if train or to_weight is not None or to_bias is not None:
            plain, scaled = view.gradient_sums(grad, x, mean)
            scaled *= rstd
            _store(to_weight, scaled)
            _store(to_bias, plain)
            if train:
                shifts = [plain.sum(0, keepdims=True) / count, scaled.sum(0, keepdims=True) * rstd / count]
        if out is not None and out.size:
            scale = rstd if weight is None else rstd * weight.reshape(1, -1)
            view.differentiate(out, grad, x, mean, scale, shifts)

    return PlannedKernel(quietly(into, line=view.line))


FACTORIES = {
    "native_group_norm_stub": group_norm,
    "native_group_norm_backward_stub": group_norm_backward,
    "native_batch_norm_stub": batch_norm,
    "native_batch_norm_backward_stub": batch_norm_backward,
    "batch_norm_statistics_stub": batch_norm_statistics,
}

for _stub, _factory in FACTORIES.items():
    register_stub(_stub, "cpu", _factory)
