"""batch_norm and group_norm: statistics in two stages, then one launch that normalises; no atomics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.memory_format import channels_last_strides
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float64
from ...runtime.tensor_spec import TensorSpec
from ..conversion import compute_type
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import check_dtypes
from ..launch import ALIGNMENT, cdiv, interpreted, launch_nothing, next_power_of_2
from .channel_norm_kernels import (
    channel_gradient_sums,
    channel_gradients,
    channel_moments,
    combine_moments,
    group_sums,
    normalise_channels,
)
from .operands import accumulator_dtype, as_row, prepare, resident_programs, sum_parts

INTERPRETED_BLOCK = 1 << 14
UNIT_STRIDES = ("line", "step", "x_line", "x_step")
"""Strides that are constants where they are 1, without which no access is wider than an element."""


class Lines(NamedTuple):
    """A tensor's lines: how many, their length, the strides between them and along them."""

    lines: int
    n: int
    line: int
    step: int

    @property
    def extent(self) -> int:
        return (self.lines + 64) * self.line + (self.n + 2048) * self.step

    def block(self, double: bool) -> tuple[int, int]:
        """[lines, positions] of a block, along the inner dimension; fewer where each element has its own access."""
        inner = self.n if self.step == 1 else self.lines
        size = INTERPRETED_BLOCK if interpreted() else 1024 if double or inner % ALIGNMENT else 2048
        if self.step == 1:
            inner = min(next_power_of_2(self.n), size)
            return min(next_power_of_2(self.lines), size // inner), inner
        outer = min(next_power_of_2(self.lines), size if interpreted() else 64)
        return outer, min(next_power_of_2(self.n), size // outer)


def lines_of(spec: TensorSpec, group: int) -> Lines:
    """The lines of (N, C, ...), contiguous or channels-last, with `group` channels each."""
    n, c, *spatial = spec.sizes
    positions = math.prod(spatial)
    if positions == 1 and group == 1:
        return Lines(c, n, 1, c)
    if spec.is_contiguous:
        return Lines(n * c // group, positions * group, positions * group, 1)
    return Lines(c, n * positions, 1, c)


def laid_out(spec: TensorSpec, like: TensorSpec) -> Callable[[Any], Any]:
    """A function from a tensor's data to data in the strides of `like`."""
    wanted = TensorSpec.of(spec.sizes, like.strides, spec.dtype, spec.device)
    if wanted.strides == spec.strides or (wanted.is_contiguous and spec.is_contiguous):
        return lambda data: data
    gather = copy_kernel(wanted, spec)
    allocate = get_allocator("cuda").allocate

    def copied(data: Any) -> Any:
        buffer = allocate(wanted.nbytes, wanted.device)
        gather(buffer, data)
        return buffer

    return copied


class Family(NamedTuple):
    """How lines belong to statistics and channels: ``line // each % statistics`` and ``line % channels``."""

    channels: int
    each: int
    statistics: int

    def sizes(self, lines: Lines) -> dict[str, int]:
        """What kernels are told about it."""
        return {
            "lines": lines.lines,
            "n": lines.n,
            "channels": self.channels,
            "each": self.each,
            "statistics": self.statistics,
            "line": lines.line,
            "step": lines.step,
        }


Step = Callable[..., None]


class ChannelNorm:
    """The launches of one call, over a tensor whose layout is `layout`'s."""

    def __init__(self, call: StructuredCall, layout: TensorSpec) -> None:
        self.call, self.layout = call, layout
        self.double = layout.dtype is float64
        self.dtype: ScalarType = accumulator_dtype(layout.dtype)
        self.accumulator = compute_type(layout.dtype)
        self.allocate = get_allocator("cuda").allocate

    def scratch(self, *sizes: int) -> TensorSpec:
        """Room for numbers of the accumulator's type."""
        return TensorSpec.contiguous(sizes, self.dtype, self.call.device)

    def room(self, spec: TensorSpec) -> Any:
        return self.allocate(spec.nbytes, self.call.device)

    def _launch(
        self,
        kernel: Any,
        pointers: dict[str, Any],
        sizes: dict[str, int],
        block: tuple[int, int],
        grid: tuple[int, int, int],
        extent: int,
        constants: dict[str, object] | None = None,
        numbers: dict[str, str] | None = None,
    ) -> Step:
        """A function of data, None among it, and of the numbers that come last."""
        fixed = {name: value for name, value in sizes.items() if value == 1 and name in UNIT_STRIDES}
        launch, values = prepare(
            self.call,
            kernel,
            pointers,
            {name: value for name, value in sizes.items() if name in kernel.arg_names and name not in fixed},
            {
                **(constants or {}),
                **fixed,
                "ACCUMULATOR": self.accumulator,
                "BLOCK_O": block[0],
                "BLOCK_R": block[1],
            },
            4,
            extent,
            numbers,
        )
        return lambda data, *rest: launch(grid, *[d.address for d in data if d is not None], *values, *rest)

    def _parts(self, lines: Lines) -> tuple[tuple[int, int], int, int]:
        """The block of a two-stage reduction, how many parts a line has, and the length of one."""
        block = lines.block(self.double)
        programs = cdiv(lines.lines, block[0])
        splits = 1
        most = resident_programs(self.call, 8)
        if 2 * programs <= most:
            splits = max(1, min(cdiv(lines.n, 4 * block[1]), most // programs))
        chunk = cdiv(cdiv(lines.n, splits), block[1]) * block[1]
        return block, cdiv(lines.n, chunk), chunk

    def moments(self, lines: Lines, statistics: int, outer: int, kept: Any, running: Any) -> Step:
        """``(x, mean, rstd, kept_mean, kept_rstd, running_mean, running_var, momentum, eps)`` from data to statistics.

        A statistic's parts are those of `outer` lines that lie `statistics` apart.
        """
        block, splits, chunk = self._parts(lines)
        parts = self.scratch(lines.lines, splits)
        first = self._launch(
            channel_moments,
            {"x": self.layout, "means": parts, "squares": parts},
            {
                "lines": lines.lines,
                "n": lines.n,
                "chunk": chunk,
                "x_line": lines.line,
                "x_step": lines.step,
                "splits": splits,
            },
            block,
            (cdiv(lines.lines, block[0]), splits, 1),
            lines.extent + chunk * max(lines.step, 1) + parts.numel,
        )
        count = outer * splits
        least = min(next_power_of_2(count), 64)
        outputs = min(next_power_of_2(statistics), max(512 // least, 1))
        row = self.scratch(statistics)
        second = self._launch(
            combine_moments,
            {
                "means": parts,
                "squares": parts,
                "mean": row,
                "rstd": row,
                "kept_mean": kept,
                "kept_rstd": kept,
                "running_mean": running,
                "running_var": running,
            },
            {
                "statistics": statistics,
                "parts": count,
                "splits": splits,
                "n": lines.n,
                "chunk": chunk,
                "statistic_step": splits,
                "outer_step": statistics * splits,
            },
            (outputs, least),
            (cdiv(statistics, outputs), 1, 1),
            parts.numel + chunk * splits + outputs * splits + statistics * splits,
            numbers={"momentum": "fp64", "eps": "fp64"},
        )

        def step(x: Any, *rest: Any) -> None:
            means, squares = self.room(parts), self.room(parts)
            first((x, means, squares))
            second((means, squares, *rest[:-2]), *rest[-2:])

        return step

    def normalise(
        self, lines: Lines, family: Family, statistic: TensorSpec, weight: Any, bias: Any, variance: bool
    ) -> Step:
        """``((x, out, mean, spread, weight, bias), eps)``."""
        block = lines.block(self.double)
        return self._launch(
            normalise_channels,
            {
                "x": self.layout,
                "out": self.layout,
                "mean": statistic,
                "spread": statistic,
                "weight": weight,
                "bias": bias,
            },
            family.sizes(lines),
            block,
            (cdiv(lines.lines, block[0]), cdiv(lines.n, block[1]), 1),
            lines.extent,
            {"VARIANCE": variance},
            {"eps": "fp64"},
        )

    def gradient_sums(
        self, lines: Lines, family: Family, statistics: tuple[TensorSpec, TensorSpec], variance: bool
    ) -> tuple[Step, TensorSpec]:
        """``((grad, x, mean, spread, plain, scaled), eps)``, and the spec of both results: [lines, parts]."""
        block, splits, chunk = self._parts(lines)
        parts = self.scratch(lines.lines, splits)
        step = self._launch(
            channel_gradient_sums,
            {
                "grad": self.layout,
                "x": self.layout,
                "mean": statistics[0],
                "spread": statistics[1],
                "plain": parts,
                "scaled": parts,
            },
            {**family.sizes(lines), "chunk": chunk, "splits": splits},
            block,
            (cdiv(lines.lines, block[0]), splits, 1),
            lines.extent + chunk * max(lines.step, 1) + parts.numel,
            {"VARIANCE": variance},
            {"eps": "fp64"},
        )
        return step, parts

    def gradients(
        self,
        lines: Lines,
        family: Family,
        statistics: tuple[TensorSpec, TensorSpec],
        weight: Any,
        shift: Any,
        variance: bool,
        weighted: bool,
    ) -> Step:
        """``((grad, x, mean, spread, weight, plain_shift, scaled_shift, to), scale, eps)``."""
        block = lines.block(self.double)
        return self._launch(
            channel_gradients,
            {
                "grad": self.layout,
                "x": self.layout,
                "mean": statistics[0],
                "spread": statistics[1],
                "weight": weight,
                "plain_shift": shift,
                "scaled_shift": shift,
                "to": self.layout,
            },
            family.sizes(lines),
            block,
            (cdiv(lines.lines, block[0]), cdiv(lines.n, block[1]), 1),
            lines.extent,
            {"VARIANCE": variance, "SHIFTS_WEIGHTED": weighted},
            {"scale": "fp64", "eps": "fp64"},
        )

    def over_groups(self, groups: int, each: int, channels: int, weight: Any) -> Step:
        """``((plain, scaled, weight, plain_shift, scaled_shift), scale)``."""
        inner = min(next_power_of_2(each), 512)
        outer = min(next_power_of_2(groups), 512 // inner)
        row, result = self.scratch(groups * each), self.scratch(groups)
        return self._launch(
            group_sums,
            {
                "plain": row,
                "scaled": row,
                "weight": weight,
                "plain_shift": result,
                "scaled_shift": result,
            },
            {"groups": groups, "each": each, "channels": channels},
            (outer, inner),
            (cdiv(groups, outer), 1, 1),
            (groups + outer) * each + inner,
            numbers={"scale": "fp64"},
        )

    def sums(self, parts: TensorSpec, dims: tuple[int, ...], out: TensorSpec) -> Callable[[Any, Any], Any]:
        """``add_up(out, parts)`` over some dimensions."""
        return sum_parts(self.call, parts, out, dims)


def layout_of(spec: TensorSpec) -> TensorSpec:
    """The input's spec as contiguous or channels-last, which its results are laid out as."""
    strides = TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device).strides
    if spec.ndim in (4, 5) and not spec.is_contiguous and spec.strides == channels_last_strides(spec.sizes):
        strides = spec.strides
    return TensorSpec.of(spec.sizes, strides, spec.dtype, spec.device)


def batch_norm(call: StructuredCall) -> PlannedKernel:
    """(N, C, ...) normalised over all but channels, by its own statistics or by the running ones."""
    args, training = call.args, call.extra["training"]
    x, weight, bias, running = (args[k] for k in ("input", "weight", "bias", "running_mean"))
    out, kept = call.outputs[:2]
    check_dtypes(call, [x, *(spec for spec in (weight, bias, running) if spec is not None)])
    own = TensorSpec.of(out.sizes, out.strides, x.dtype, x.device)
    norm = ChannelNorm(call, own)
    c = x.sizes[1]
    lines = lines_of(own, 1)
    family = Family(c, 1, c)
    gather = laid_out(x, own)
    rows = [as_row(args[name]) for name in ("weight", "bias", "running_mean", "running_var")]
    statistic = kept if training else running
    normalise = norm.normalise(lines, family, statistic, weight, bias, not training)
    if training:
        writes = running is not None and all(args[k].is_contiguous for k in ("running_mean", "running_var"))
        moments = norm.moments(lines, c, lines.lines // c, None, running)
        back = None
        if running is not None and not writes:
            back = [
                copy_kernel(args[k], TensorSpec.contiguous(args[k].sizes, args[k].dtype, x.device))
                for k in ("running_mean", "running_var")
            ]

    def into(
        to: Any,
        mean: Any,
        rstd: Any,
        data: Any,
        weights: Any,
        biases: Any,
        run_mean: Any,
        run_var: Any,
        momentum: Any,
        eps: Any,
    ) -> None:
        data = gather(data)
        given = (weights, biases, run_mean, run_var)
        w, b, m, v = (row(each) for row, each in zip(rows, given, strict=True))
        eps = float(eps)
        if training:
            moments(data, mean, rstd, None, None, m, v, float(momentum), eps)
            if back is not None:
                back[0](run_mean, m)
                back[1](run_var, v)
            m, v = mean, rstd
        normalise((data, to, m, v, w, b), eps)

    return PlannedKernel(into)


def batch_norm_backward(call: StructuredCall) -> PlannedKernel:
    """The gradients of input, weight and bias; in evaluation the statistics were constants."""
    args, train = call.args, call.extra["train"]
    grad, x, mean, spread, weight = (args[k] for k in ("grad_out", "input", "mean", "spread", "weight"))
    to, to_weight, to_bias = call.extra["outputs"]
    check_dtypes(call, [x, grad, mean, spread, *(spec for spec in (weight,) if spec is not None)])
    if x.numel == 0:
        return zeros(call)
    own = to if to is not None else layout_of(x)
    own = TensorSpec.of(own.sizes, own.strides, x.dtype, x.device)
    norm = ChannelNorm(call, own)
    c = x.sizes[1]
    lines = lines_of(own, 1)
    family = Family(c, 1, c)
    gather = (laid_out(grad, own), laid_out(x, own))
    rows = [as_row(spec) for spec in (mean, spread, weight)]
    total = norm.scratch(c)
    wanted = (to_bias, to_weight)
    summed = (train and to is not None) or any(spec is not None for spec in wanted)
    if summed:
        sums, parts = norm.gradient_sums(lines, family, (mean, spread), not train)
        shaped = norm.scratch(lines.lines // c, c, parts.sizes[1])
        results = [spec if spec is not None and spec.dtype is total.dtype else total for spec in wanted]
        add_up = norm.sums(shaped, (0, 2), total)
        casts = [
            None if spec is None or spec is result else copy_kernel(spec, total)
            for spec, result in zip(wanted, results, strict=True)
        ]
    shift = total if train else None
    if to is not None:
        gradients = norm.gradients(lines, family, (mean, spread), weight, shift, not train, False)
    scale = c / x.numel

    def into(
        to_x: Any, to_w: Any, to_b: Any, g: Any, data: Any, m: Any, r: Any, weights: Any, eps: Any
    ) -> None:
        g, data = gather[0](g), gather[1](data)
        m, r, weights = (row(each) for row, each in zip(rows, (m, r, weights), strict=True))
        eps = float(eps)
        totals: list[Any] = [None, None]
        if summed:
            made = [norm.room(parts), norm.room(parts)]
            sums((g, data, m, r, *made), eps)
            for i, (out, cast) in enumerate(zip((to_b, to_w), casts, strict=True)):
                direct = out is not None and cast is None
                totals[i] = out if direct else norm.room(total)
                add_up(totals[i], made[i])
                if cast is not None:
                    cast(out, totals[i])
        if to_x is not None:
            shifts = totals if train else (None, None)
            gradients((g, data, m, r, weights, *shifts, to_x), scale, eps)

    return PlannedKernel(into)


def zeros(call: StructuredCall) -> PlannedKernel:
    """The gradients of nothing: sums are 0."""
    specs = call.extra["outputs"]
    fills = [None if spec is None else zero_filled(spec) for spec in specs]

    def into(*data: Any) -> None:
        for fill, target in zip(fills, data, strict=False):
            if fill is not None:
                fill(target)

    return PlannedKernel(into)


def zero_filled(spec: TensorSpec) -> Callable[[Any], Any]:
    """A function that fills such a tensor with zeros."""
    from ..elementwise.factories import zero

    if spec.numel == 0:
        return lambda data: None
    call = StructuredCall("zero", {"self": spec}, (), (spec,), None, spec.device, {})
    return zero(call).into


def group_norm(call: StructuredCall) -> PlannedKernel:
    """(N, C, ...) normalised over each group of channels."""
    args, group = call.args, call.args["group"]
    x, weight, bias = (args[k] for k in ("input", "weight", "bias"))
    out, kept = call.outputs[:2]
    check_dtypes(call, [x, *(spec for spec in (weight, bias) if spec is not None)])
    n, c = x.sizes[:2]
    if n == 0 or c == 0:
        return PlannedKernel(launch_nothing)
    own = TensorSpec.contiguous(x.sizes, x.dtype, x.device)
    norm = ChannelNorm(call, own)
    gather = laid_out(x, own)
    scatter = None if out.is_contiguous else copy_kernel(out, own)
    row = norm.scratch(n * group)
    narrow = kept if kept.dtype is not row.dtype else None
    whole = lines_of(own, c // group) if x.numel else Lines(n * group, 0, 0, 1)
    if c // group == 1:
        whole = Lines(n * c, x.numel // (n * c), x.numel // (n * c), 1)
    moments = norm.moments(whole, n * group, 1, narrow, None)
    each = x.numel // (n * c)
    lines = Lines(n * c, each, each, 1)
    normalise = None
    if x.numel:
        normalise = norm.normalise(lines, Family(c, c // group, n * group), row, weight, bias, False)
    rows = [as_row(weight), as_row(bias)]

    def into(to: Any, means: Any, rstds: Any, data: Any, weights: Any, biases: Any, eps: Any) -> None:
        data = gather(data)
        eps = float(eps)
        mean, rstd = (norm.room(row), norm.room(row)) if narrow is not None else (means, rstds)
        also = (means, rstds) if narrow is not None else (None, None)
        moments(data, mean, rstd, *also, None, None, 0.0, eps)
        if normalise is not None:
            target = to if scatter is None else norm.room(own)
            normalise((data, target, mean, rstd, rows[0](weights), rows[1](biases)), eps)
            if scatter is not None:
                scatter(to, target)

    return PlannedKernel(into)


def group_norm_backward(call: StructuredCall) -> PlannedKernel:
    """The gradients of input, weight and bias from sums over each channel of each sample."""
    args, group = call.args, call.extra["group"]
    grad, x, mean, rstd, weight = (args[k] for k in ("grad_out", "input", "mean", "rstd", "weight"))
    to, to_weight, to_bias = call.extra["outputs"]
    check_dtypes(call, [x, grad, mean, rstd, *(spec for spec in (weight,) if spec is not None)])
    if x.numel == 0:
        return zeros(call)
    own = TensorSpec.contiguous(x.sizes, x.dtype, x.device)
    norm = ChannelNorm(call, own)
    gather = (laid_out(grad, own), laid_out(x, own))
    n, c = x.sizes[:2]
    each = x.numel // (n * c)
    lines = Lines(n * c, each, each, 1)
    family = Family(c, c // group, n * group)
    sums, parts = norm.gradient_sums(lines, family, (mean, rstd), False)
    rows = [as_row(spec) for spec in (mean, rstd, weight)]
    by_line = norm.scratch(n * c)
    fold = norm.sums(parts, (1,), by_line) if parts.sizes[1] > 1 else None
    table = norm.scratch(n, c)
    finish = [None if spec is None else norm.sums(table, (0,), spec) for spec in (to_bias, to_weight)]
    shift = norm.scratch(n * group)
    groups = norm.over_groups(n * group, c // group, c, weight)
    gradients = norm.gradients(lines, family, (mean, rstd), weight, shift, False, True)
    scatter = None if to is None or to.is_contiguous else copy_kernel(to, own)
    scale = group * n / x.numel

    def into(to_x: Any, to_w: Any, to_b: Any, g: Any, data: Any, m: Any, r: Any, weights: Any) -> None:
        g, data = gather[0](g), gather[1](data)
        m, r, weights = (row(value) for row, value in zip(rows, (m, r, weights), strict=True))
        made = [norm.room(parts), norm.room(parts)]
        sums((g, data, m, r, *made), 0.0)
        if fold is not None:
            folded = [norm.room(by_line), norm.room(by_line)]
            for target, part in zip(folded, made, strict=True):
                fold(target, part)
            made = folded
        for add_up, out, part in zip(finish, (to_b, to_w), made, strict=True):
            if add_up is not None:
                add_up(out, part)
        if to_x is not None:
            shifts = [norm.room(shift), norm.room(shift)]
            groups((*made, weights, *shifts), scale)
            target = to_x if scatter is None else norm.room(own)
            gradients((g, data, m, r, weights, *shifts, target), 0.0, 0.0)
            if scatter is not None:
                scatter(to_x, target)

    return PlannedKernel(into)


FACTORIES = {
    "native_batch_norm_stub": batch_norm,
    "native_batch_norm_backward_stub": batch_norm_backward,
    "native_group_norm_stub": group_norm,
    "native_group_norm_backward_stub": group_norm_backward,
}

for _stub, _factory in FACTORIES.items():
    register_stub(_stub, "cuda", _factory)
