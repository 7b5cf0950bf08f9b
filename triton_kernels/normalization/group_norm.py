"""group_norm: one pass where a group fits in registers, else the stages of `channel_norm.py`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ...dispatch.structured import choices
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_kernel import LazyKernel
from ...runtime.scalar_type import float64
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..conversion import compute_type
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import check_dtypes
from ..geometry import coalesced
from ..launch import interpreted, launch_nothing, next_power_of_2
from ..tuning.choice import configuration
from .channel_norm import ChannelNorm, Family, Lines, laid_out, lines_of, zeros
from .group_norm_kernels import group_gradients, normalise_groups
from .operands import accumulator_dtype, as_row, prepare, sum_parts

MAX_ELEMENTS, MAX_BACKWARD, MAX_DOUBLE = 16384, 8192, 4096
"""Elements of a group: 16 for each lane of 32 warps, and of 16 where they are gradient and input, or 64 bits wide."""
MIN_ELEMENTS = 256
"""Smaller groups would leave lanes of a program without an element; the stages have several of them in a block."""
INTERPRETED_GROUP = 1 << 14


class Planes(NamedTuple):
    """Strides between a tensor's samples, channels, and positions."""

    sample: int
    line: int
    step: int

    def sizes(self, letter: str) -> dict[str, int]:
        """Return the sizes under the kernels' argument names."""
        return {f"{letter}_sample": self.sample, f"{letter}_line": self.line, f"{letter}_step": self.step}


def planes_of(spec: TensorSpec) -> Planes | None:
    """Return the strides of (N, C, ...) if positions have one stride, and they or channels are contiguous, else
    None.
    """
    spatial = coalesced(spec.sizes[2:], [spec.strides[2:]], keep_order=True)
    if len(spatial.sizes) > 1:
        return None
    step = spatial.strides[0][0] if spatial.sizes else 1
    sample, line = spec.strides[:2]
    if spec.sizes[1] == 1 or step == 1 or line == 1:
        return Planes(sample, line, step)
    return None


def group_tile(
    call: StructuredCall, kernel: LazyKernel, x: TensorSpec, group: int, max_elements: int
) -> Configuration | None:
    """Return the block of one group, as [channels, positions], or None if it does not fit."""
    each, positions = x.sizes[1] // group, math.prod(x.sizes[2:])
    tile = (next_power_of_2(each), next_power_of_2(positions))
    elements = tile[0] * tile[1]
    if interpreted():
        return Configuration(tile) if elements <= INTERPRETED_GROUP else None
    double = x.dtype is float64
    if not MIN_ELEMENTS <= elements <= (MAX_DOUBLE if double else max_elements):
        return None
    warps = min(max(next_power_of_2(elements // (256 if double else 512)), 4), 32)
    if not double and elements <= 2048 and x.strides[1] == 1:
        # Channels side by side: four warps' addresses and masks of 16 elements a lane spill on sm_100.
        warps = 8
    default = Configuration(tile, warps)
    groups = x.sizes[0] * group
    tuned = configuration(kernel, call.device, str(x.dtype.triton_name), (groups, each, positions), default)
    return tuned if tuned.tile[0] >= each and tuned.tile[1] >= positions else default


def prepared(
    call: StructuredCall,
    kernel: LazyKernel,
    pointers: dict[str, TensorSpec | None],
    planes: dict[str, Planes],
    tile: Configuration,
    numbers: dict[str, str],
) -> tuple[Any, tuple[int, ...]]:
    """Return the launch over groups, and its sizes; strides of 1 are constexprs."""
    x = call.args["input"]
    group = call.args["group"] if "group" in call.args else call.extra["group"]
    each, positions = x.sizes[1] // group, math.prod(x.sizes[2:])
    sizes = {"groups": group, "each": each, "positions": positions}
    for letter, own in planes.items():
        sizes |= own.sizes(letter)
    fixed = {name: size for name, size in sizes.items() if size == 1 and name.endswith(("_line", "_step"))}
    extent = max(
        abs(own.sample) * x.sizes[0]
        + (x.sizes[1] + tile.tile[0]) * abs(own.line)
        + tile.tile[1] * max(abs(own.step), 1)
        for own in planes.values()
    )
    names = [letter + each for letter in "gxo" for each in ("_sample", "_line", "_step")]
    missing = {name: 0 for name in names if name in kernel.arg_names and name not in sizes}
    return prepare(
        call,
        kernel,
        pointers,
        {name: size for name, size in sizes.items() if name not in fixed},
        {
            **fixed,
            **missing,
            "ACCUMULATOR": compute_type(x.dtype),
            "BLOCK_O": tile.tile[0],
            "BLOCK_R": tile.tile[1],
        },
        tile.warps,
        extent,
        numbers,
    )


def in_one_pass(call: StructuredCall, planes: tuple[Any, ...], tile: Configuration) -> PlannedKernel:
    """Return the kernel with a program for each group, which reads it once."""
    x, weight, bias = (call.args[k] for k in ("input", "weight", "bias"))
    out, mean, rstd = call.outputs[:3]
    launch, numbers = prepared(
        call,
        normalise_groups,
        {"x": x, "weight": weight, "bias": bias, "out": out, "mean": mean, "rstd": rstd},
        {"x": planes[0], "o": planes[1]},
        tile,
        {"eps": "fp64"},
    )
    grid = (x.sizes[0] * call.args["group"], 1, 1)
    rows = (as_row(weight), as_row(bias))

    def into(out_data: Any, means: Any, rstds: Any, data: Any, weights: Any, biases: Any, eps: Any) -> None:
        operands = (data, rows[0](weights), rows[1](biases), out_data, means, rstds)
        launch(grid, *[each.address for each in operands if each is not None], *numbers, float(eps))

    return PlannedKernel(into)


def gradients_in_one_pass(
    call: StructuredCall, planes: tuple[Any, ...], tile: Configuration
) -> PlannedKernel:
    """Return the kernel with a program for each group, which reads gradient and input once; then sum over
    samples.
    """
    grad, x, mean, rstd, weight = (call.args[k] for k in ("grad_out", "input", "mean", "rstd", "weight"))
    grad_input, grad_weight, grad_bias = call.extra["outputs"]
    n, c = x.sizes[:2]
    table = TensorSpec.contiguous((n, c), accumulator_dtype(x.dtype), call.device)
    finish = [
        None if spec is None else sum_parts(call, table, spec, (0,)) for spec in (grad_bias, grad_weight)
    ]
    summed = any(add_up is not None for add_up in finish)
    parts = table if summed else None
    launch, numbers = prepared(
        call,
        group_gradients,
        {
            "grad": grad,
            "x": x,
            "mean": mean,
            "rstd": rstd,
            "weight": weight,
            "grad_input": grad_input,
            "plain": parts,
            "scaled": parts,
        },
        {"g": planes[0], "x": planes[1]} | ({} if grad_input is None else {"o": planes[2]}),
        tile,
        {},
    )
    grid = (n * call.extra["group"], 1, 1)
    rows = [as_row(spec) for spec in (mean, rstd, weight)]
    allocate = get_allocator("cuda").allocate

    def into(to_x: Any, to_w: Any, to_b: Any, g: Any, data: Any, m: Any, r: Any, weights: Any) -> None:
        m, r, weights = (row(value) for row, value in zip(rows, (m, r, weights), strict=True))
        made = [allocate(table.nbytes, call.device) if summed else None for _ in range(2)]
        operands = (g, data, m, r, weights, to_x, *made)
        launch(grid, *[each.address for each in operands if each is not None], *numbers)
        for add_up, out, part in zip(finish, (to_b, to_w), made, strict=True):
            if add_up is not None:
                add_up(out, part)

    return PlannedKernel(into)


def group_norm(call: StructuredCall) -> PlannedKernel:
    """Normalize (N, C, ...) over each group of channels."""
    args, group = call.args, call.args["group"]
    x, weight, bias = (args[k] for k in ("input", "weight", "bias"))
    out, save_mean = call.outputs[:2]
    check_dtypes(call, [x, *(spec for spec in (weight, bias) if spec is not None)])
    n, c = x.sizes[:2]
    if n == 0 or c == 0:
        return PlannedKernel(launch_nothing)
    if x.numel:
        planes = (planes_of(x), planes_of(out))
        tile = None if None in planes else group_tile(call, normalise_groups, x, group, MAX_ELEMENTS)
        if tile is not None:
            choices.chosen(
                "groups in registers, one pass", "groups of {} elements fit a block", x.numel // (n * group)
            )
            return in_one_pass(call, planes, tile)
        choices.chosen(
            "statistics, then normalisation", "groups of {} elements fit no block", x.numel // (n * group)
        )
    own = TensorSpec.contiguous(x.sizes, x.dtype, x.device)
    norm = ChannelNorm(call, own)
    gather = laid_out(x, own)
    scatter = None if out.is_contiguous else copy_kernel(out, own)
    row = norm.scratch(n * group)
    narrow = save_mean if save_mean.dtype is not row.dtype else None
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

    def into(out_data: Any, means: Any, rstds: Any, data: Any, weights: Any, biases: Any, eps: Any) -> None:
        data = gather(data)
        eps = float(eps)
        mean, rstd = (norm.room(row), norm.room(row)) if narrow is not None else (means, rstds)
        also = (means, rstds) if narrow is not None else (None, None)
        moments(data, mean, rstd, *also, None, None, 0.0, eps, math.inf)
        if normalise is not None:
            target = out_data if scatter is None else norm.room(own)
            normalise((data, target, mean, rstd, rows[0](weights), rows[1](biases)), eps)
            if scatter is not None:
                scatter(out_data, target)

    return PlannedKernel(into)


def group_norm_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of input, weight and bias from sums over each channel of each sample."""
    args, group = call.args, call.extra["group"]
    grad, x, mean, rstd, weight = (args[k] for k in ("grad_out", "input", "mean", "rstd", "weight"))
    grad_input, grad_weight, grad_bias = call.extra["outputs"]
    check_dtypes(call, [x, grad, mean, rstd, *(spec for spec in (weight,) if spec is not None)])
    if x.numel == 0:
        return zeros(call)
    planes = (planes_of(grad), planes_of(x), None if grad_input is None else planes_of(grad_input))
    if None not in planes[: 2 if grad_input is None else 3]:
        tile = group_tile(call, group_gradients, x, group, MAX_BACKWARD)
        if tile is not None:
            choices.chosen(
                "groups in registers, one pass", "the elements of a group fit a block of {}", tile.elements
            )
            return gradients_in_one_pass(call, planes, tile)
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
    finish = [None if spec is None else norm.sums(table, (0,), spec) for spec in (grad_bias, grad_weight)]
    shift = norm.scratch(n * group)
    groups = norm.over_groups(n * group, c // group, c, weight)
    gradients = norm.gradients(lines, family, (mean, rstd), weight, shift, False, True)
    scatter = None if grad_input is None or grad_input.is_contiguous else copy_kernel(grad_input, own)
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


register_stub("native_group_norm_stub", "cuda", group_norm)
register_stub("native_group_norm_backward_stub", "cuda", group_norm_backward)
