"""Channels normalised in stages: statistics of parts, their union, one launch over everything; no atomics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_kernel import LazyKernel
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float64
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..conversion import compute_type
from ..elementwise.copy import copy_kernel
from ..folded_grid import folded
from ..launch import ALIGNMENT, cdiv, interpreted, next_power_of_2
from ..tuning.choice import configuration
from .channel_norm_kernels import (
    channel_gradient_sums,
    channel_gradients,
    channel_moments,
    combine_moments,
    group_sums,
    normalise_channels,
)
from .operands import accumulator_dtype, prepare, resident_programs, sum_parts

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

    @property
    def sizes(self) -> tuple[int, ...]:
        """Key of a configuration."""
        return self.lines, self.n, min(self.step, 2)

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
    """Return the lines of (N, C, ...), contiguous or channels-last, with `group` channels each."""
    n, c, *spatial = spec.sizes
    positions = math.prod(spatial)
    if positions == 1 and group == 1:
        return Lines(c, n, 1, c)
    if spec.is_contiguous:
        return Lines(n * c // group, positions * group, positions * group, 1)
    return Lines(c, n * positions, 1, c)


def laid_out(spec: TensorSpec, like: TensorSpec) -> Callable[[Any], Any]:
    """Return a function from a tensor's data to data in the strides of `like`."""
    target = TensorSpec.of(spec.sizes, like.strides, spec.dtype, spec.device)
    if target.strides == spec.strides or (target.is_contiguous and spec.is_contiguous):
        return lambda data: data
    gather = copy_kernel(target, spec)
    allocate = get_allocator("cuda").allocate

    def copied(data: Any) -> Any:
        buffer = allocate(target.nbytes, target.device)
        gather(buffer, data)
        return buffer

    return copied


class Family(NamedTuple):
    """How lines belong to statistics and channels: ``line // each % statistics`` and ``line % channels``."""

    channels: int
    each: int
    statistics: int

    def sizes(self, lines: Lines) -> dict[str, int]:
        """Return the kernels' arguments for it."""
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

    def chosen(
        self, kernel: LazyKernel, dtype: ScalarType, shape: tuple[int, ...], block: tuple[int, int]
    ) -> Configuration:
        """Return the configuration of a launch: that of `block`, unless a faster one was measured.

        The longer side of a block is the contiguous one: it gets no shorter.
        """
        default = Configuration(block)
        if interpreted():
            return default
        tuned = configuration(kernel, self.call.device, str(dtype.triton_name), shape, default)
        side = block.index(max(block))
        return tuned if tuned.tile[side] >= block[side] else default

    def _launch(
        self,
        kernel: Any,
        pointers: dict[str, Any],
        sizes: dict[str, int],
        chosen: Configuration,
        grid: tuple[int, int, int],
        extent: int,
        constants: dict[str, object] | None = None,
        numbers: dict[str, str] | None = None,
    ) -> Step:
        """Return a function of data, which may be None, and of the numbers that come last."""
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
                "BLOCK_O": chosen.tile[0],
                "BLOCK_R": chosen.tile[1],
            },
            chosen.warps,
            extent,
            numbers,
        )
        return lambda data, *rest: launch(grid, *[d.address for d in data if d is not None], *values, *rest)

    def _over_lines(self, kernel: LazyKernel, lines: Lines) -> Configuration:
        return self.chosen(kernel, self.layout.dtype, lines.sizes, lines.block(self.double))

    def _parts(self, kernel: LazyKernel, lines: Lines) -> tuple[Configuration, int, int]:
        """Return the block of a two-stage reduction, the number of parts of a line, and the length of a part."""
        chosen = self._over_lines(kernel, lines)
        block = chosen.tile
        programs = cdiv(lines.lines, block[0])
        splits = 1
        max_programs = resident_programs(self.call, 8)
        if 2 * programs <= max_programs:
            splits = max(1, min(cdiv(lines.n, 4 * block[1]), max_programs // programs))
        chunk = cdiv(cdiv(lines.n, splits), block[1]) * block[1]
        return chosen, cdiv(lines.n, chunk), chunk

    def moments(self, lines: Lines, statistics: int, outer: int, saved: Any, running: Any) -> Step:
        """From data to statistics.

        ``(x, mean, rstd, kept_mean, kept_rstd, running_mean, running_var, momentum, eps, of_constant)``.
        A statistic's parts are those of `outer` lines that lie `statistics` apart.
        """
        chosen, splits, chunk = self._parts(channel_moments, lines)
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
            chosen,
            (cdiv(lines.lines, chosen.tile[0]), splits, 1),
            lines.extent + chunk * max(lines.step, 1) + parts.numel,
        )
        count = outer * splits
        least = min(next_power_of_2(count), 64)
        outputs = min(next_power_of_2(statistics), max(512 // least, 1))
        merging = self.chosen(combine_moments, self.dtype, (statistics, count), (outputs, least))
        row = self.scratch(statistics)
        second = self._launch(
            combine_moments,
            {
                "means": parts,
                "squares": parts,
                "mean": row,
                "rstd": row,
                "kept_mean": saved,
                "kept_rstd": saved,
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
            merging,
            (cdiv(statistics, merging.tile[0]), 1, 1),
            parts.numel + (chunk + merging.tile[0] + statistics) * splits,
            numbers={"momentum": "fp64", "eps": "fp64", "of_constant": "fp64"},
        )

        def step(x: Any, *rest: Any) -> None:
            means, squares = self.room(parts), self.room(parts)
            first((x, means, squares))
            second((means, squares, *rest[:-3]), *rest[-3:])

        return step

    def normalise(
        self, lines: Lines, family: Family, statistic: TensorSpec, weight: Any, bias: Any, variance: bool
    ) -> Step:
        """``((x, out, mean, spread, weight, bias), eps)``."""
        chosen = self._over_lines(normalise_channels, lines)
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
            chosen,
            folded(cdiv(lines.lines, chosen.tile[0]), cdiv(lines.n, chosen.tile[1])),
            lines.extent,
            {"VARIANCE": variance},
            {"eps": "fp64"},
        )

    def gradient_sums(
        self, lines: Lines, family: Family, statistics: tuple[TensorSpec, TensorSpec], variance: bool
    ) -> tuple[Step, TensorSpec]:
        """``((grad, x, mean, spread, plain, scaled), eps)``, and the spec of both results: [lines, parts]."""
        chosen, splits, chunk = self._parts(channel_gradient_sums, lines)
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
            chosen,
            (cdiv(lines.lines, chosen.tile[0]), splits, 1),
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
        chosen = self._over_lines(channel_gradients, lines)
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
                "grad_input": self.layout,
            },
            family.sizes(lines),
            chosen,
            folded(cdiv(lines.lines, chosen.tile[0]), cdiv(lines.n, chosen.tile[1])),
            lines.extent,
            {"VARIANCE": variance, "SHIFTS_WEIGHTED": weighted},
            {"scale": "fp64", "eps": "fp64"},
        )

    def over_groups(self, groups: int, each: int, channels: int, weight: Any) -> Step:
        """``((plain, scaled, weight, plain_shift, scaled_shift), scale)``."""
        inner = min(next_power_of_2(each), 512)
        outer = min(next_power_of_2(groups), 512 // inner)
        chosen = self.chosen(group_sums, self.dtype, (groups, each), (outer, inner))
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
            chosen,
            (cdiv(groups, chosen.tile[0]), 1, 1),
            (groups + chosen.tile[0]) * each + chosen.tile[1],
            numbers={"scale": "fp64"},
        )

    def sums(self, parts: TensorSpec, dims: tuple[int, ...], out: TensorSpec) -> Callable[[Any, Any], Any]:
        """Return ``add_up(out, parts)`` over some dimensions."""
        return sum_parts(self.call, parts, out, dims)


def zeros(call: StructuredCall) -> PlannedKernel:
    """Return zero gradients for an input without elements."""
    specs = call.extra["outputs"]
    fills = [None if spec is None else zero_filled(spec) for spec in specs]

    def into(*data: Any) -> None:
        for fill, target in zip(fills, data, strict=False):
            if fill is not None:
                fill(target)

    return PlannedKernel(into)


def zero_filled(spec: TensorSpec) -> Callable[[Any], Any]:
    """Return a function that fills a tensor of this spec with zeros."""
    from ..elementwise.factories import zero

    if spec.numel == 0:
        return lambda data: None
    call = StructuredCall("zero", {"self": spec}, (), (spec,), None, spec.device, {})
    return zero(call).into
