"""Cross entropy of scores: one launch forward, which reduces too, and one for the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.meta.loss import MEAN, NONE
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.cuda.faults import FaultFlags
from ...runtime.memory_format import contiguous_strides
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..contiguous import contiguous_copy
from ..conversion import compute_type
from ..geometry import Geometry, coalesced
from ..launch import Launch, cdiv, interpreted, launch_nothing, next_power_of_2
from ..normalization.clusters import WARPS
from ..normalization.operands import resident_programs
from ..normalization.softmax import CLUSTER_LANE, chosen_tiling, cut_of, row_tile
from ..normalization.vectors import Cut
from ..reduction.sides import Sides, Tile, plan_sides
from ..reduction.stream_counters import counters_of
from .cross_entropy_kernels import cross_entropy, cross_entropy_backward
from .nll_loss import (
    check_losses,
    plan_examination,
    sample_sizes,
    sample_strides,
    target_flags,
    target_strides,
)

PARTIALS_BLOCK = 1024
"""Partial sums that the last program reads at a time."""


class Scores(NamedTuple):
    """The operands of a call: scores and targets where they lie, or copies, and what is known of both."""

    spec: TensorSpec
    target: TensorSpec
    weight: TensorSpec | None
    of_scores: Callable[[Any], Any]
    of_target: Callable[[Any], Any]

    @property
    def has_probabilities(self) -> bool:
        """True if targets are probabilities of all classes."""
        return self.target.dtype.is_floating_point

    @property
    def axis(self) -> int:
        """Return the dimension of the classes."""
        return 0 if self.spec.ndim == 1 else 1

    def sides(self, first: list[TensorSpec], samples: list[tuple[int, ...]]) -> Sides:
        """Return the sides of samples and classes; `samples` are further strides over samples.

        Strides over samples are those of `first`, scores, targets and `samples`.
        """
        sizes = sample_sizes(self.spec)
        spread = [*first, self.spec]
        along = [[each.strides[self.axis]] for each in spread]
        if self.has_probabilities:
            own = sample_strides(self.target)
            along.append([self.target.strides[self.axis]])
        else:
            own = target_strides(self.target, sizes)
            along.append([0])
        samples_side = coalesced(sizes, [*map(sample_strides, spread), own, *samples])
        n = self.spec.sizes[self.axis]
        return Sides(samples_side, Geometry((n,), tuple(tuple(each) for each in along)))

    def cut(self, sides: Sides, spread: list[TensorSpec]) -> Cut:
        """Return how rows are split, if all tensors with rows are contiguous along them."""
        specs = [*spread, *([self.target] if self.has_probabilities else [])]
        count = len(specs)
        return cut_of(
            Sides(
                Geometry(sides.kept.sizes, sides.kept.strides[:count]),
                Geometry(sides.reduced.sizes, sides.reduced.strides[:count]),
            ),
            specs,
        )


def scores_of(call: StructuredCall, fits: Callable[[Scores], bool]) -> Scores:
    """Return the operands, copied to contiguous memory if their dimensions exceed the kernels' parameters."""
    spec, target, weight = check_losses(call)
    result = Scores(spec, target, weight, lambda data: data, lambda data: data)
    if fits(result):
        return result
    chosen("contiguous copies first", "the strides leave more dimensions than the kernel has parameters for")
    flat, copied = contiguous_copy(spec)
    flat_target, copied_target = contiguous_copy(target)
    return Scores(flat, flat_target, weight, copied, copied_target)


class Planned(NamedTuple):
    """A launch, its grid, and the numbers that follow its pointers and the smoothing share."""

    launch: Launch
    grid: tuple[int, int, int]
    numbers: tuple[int, ...]


def plan_launch(
    call: StructuredCall,
    kernel: Any,
    sides: Sides,
    pointers: dict[str, str | None],
    constexprs: dict[str, object],
    tile: Tile,
    fixed: tuple[int, ...],
    smoothing: str | None,
    kept_names: tuple[str, ...],
    reduced_names: tuple[str, ...],
) -> Planned:
    """Return a launch; `pointers` without a type are None in the kernel, like `smoothing`, which follows them.

    `fixed` are the numbers before those of the geometry.
    """
    every = {**pointers, "smoothing": smoothing, "weight_stride": "i64", "ignore_index": "i64"}
    every |= {"programs": "i32", "samples": "i64"}
    types = {name: type_ for name, type_ in every.items() if type_ is not None and name in kernel.arg_names}
    missing: dict[str, object] = {name: None for name, type_ in every.items() if type_ is None}
    launch, grid, numbers = plan_sides(
        call,
        kernel,
        sides,
        types,
        {**constexprs, **missing},
        tile,
        kept_names=kept_names,
        reduced_names=reduced_names,
    )
    return Planned(launch, grid, (*fixed, *numbers))


def with_masses(tiling: Configuration, one_block: Configuration) -> Configuration:
    """Return the tile of rows whose masses are kept beside their scores.

    A thread of the widest clusters has 64 registers, which are filled by its scores.
    """
    return one_block if tiling.ctas > 1 and tiling.warps > WARPS else tiling


def pointer(spec: TensorSpec | None) -> str | None:
    """Return the type of a pointer to a tensor's elements, or None for no tensor."""
    return None if spec is None else f"*{spec.dtype.triton_name}"


def forward(call: StructuredCall) -> PlannedKernel:
    """Compute the losses or their sum or mean, three statistics of each sample, and the divisor of the mean.

    The kernel reports a target that is no class, and ignores it.
    """
    loss, statistics, total = call.outputs
    reduction, ignore_index = call.args["reduction"], call.args["ignore_index"]
    sizes = statistics.sizes[1:]
    of_samples = contiguous_strides(sizes)
    operands = scores_of(call, lambda scores: scores.sides([], [of_samples]).fits())
    sides = operands.sides([], [of_samples])
    num_rows, n, inner = sides.num_rows, sides.n, sides.reduced_is_inner
    cut = operands.cut(sides, [operands.spec])
    body = cut.body(n)
    type_ = compute_type(operands.spec.dtype)
    one_block = row_tile(1 if cut.edges else num_rows, body, type_.primitive_bitwidth // 8, inner)
    tiling = chosen_tiling(call, cross_entropy, operands.spec, sides, cut, one_block, CLUSTER_LANE)
    is_reduced = reduction != NONE
    weight_stride = 0 if operands.weight is None else operands.weight.strides[0]

    def planned(tiling: Configuration, smoothing: str | None) -> Planned:
        outputs, reduced = tiling.tile
        programs = max(cdiv(num_rows, outputs), 1)
        if is_reduced:
            blocks = resident_programs(call, max(32 // tiling.warps, 1))
            programs = min(programs, cdiv(blocks, tiling.ctas))
        chunk = max(cdiv(cdiv(num_rows, programs), outputs), 1) * outputs
        programs = max(cdiv(num_rows, chunk), 1)
        if is_reduced and smoothing is None:
            chosen("one launch", "the last of {} programs adds up the losses of all", programs)
        result = plan_launch(
            call,
            cross_entropy,
            sides,
            {
                "x": pointer(operands.spec),
                "target": pointer(operands.target),
                "weight": pointer(operands.weight),
                "loss": pointer(loss),
                "statistics": pointer(statistics),
                "total_weight": pointer(total),
                "partials": "*fp64" if is_reduced else None,
                "counter": "*i32" if is_reduced else None,
                "flag": None if operands.has_probabilities else "*i32",
            },
            {
                "MEAN": reduction == MEAN,
                "PROBABILITIES": operands.has_probabilities,
                "ACCUMULATOR": type_,
                "WHOLE": body <= reduced,
                "BLOCK_P": PARTIALS_BLOCK,
                **cut.constants(),
            },
            Tile(outputs, reduced, 1, chunk, tiling.warps, tiling.ctas),
            (weight_stride, ignore_index, programs, num_rows),
            smoothing,
            ("x_kept_stride", "target_kept_stride", "out_kept_stride"),
            ("x_reduced_stride", "target_reduced_stride"),
        )
        return result._replace(grid=(programs, 1, 1))

    spread = with_masses(tiling, one_block)
    plain = planned(spread if operands.has_probabilities else tiling, None)
    smoothed = planned(spread, "fp64")
    allocate, device = get_allocator("cuda").allocate, call.device
    classes = operands.spec.sizes[operands.axis]
    flags: FaultFlags | None = None
    if not operands.has_probabilities:
        flags = target_flags(call, classes)
        examine = plan_examination(operands.target, classes, ignore_index)
    counters = counters_of(driver(), device)

    def into(
        out: Any,
        statistics_data: Any,
        total_weight: Any,
        scores: Any,
        target: Any,
        weight: Any,
        smoothing: float,
    ) -> None:
        scores, target = operands.of_scores(scores), operands.of_target(target)
        addresses = [scores.address, target.address]
        if weight is not None:
            addresses.append(weight.address)
        addresses += [out.address, statistics_data.address, total_weight.address]
        launch, grid, numbers = smoothed if smoothing > 0 else plain
        if is_reduced:
            partials, counter = allocate(16 * grid[0], device), counters.current()
            addresses += [partials.address, counter.address]
        if flags is not None:
            addresses.append(flags.begin())
        if smoothing > 0:
            launch(grid, *addresses, float(smoothing), *numbers)
        else:
            launch(grid, *addresses, *numbers)
        if flags is not None and flags.driver.launch_blocking:
            examine(flags, target)

    return PlannedKernel(into)


def backward(call: StructuredCall) -> PlannedKernel:
    """Compute (probability * masses' sum - mass) * grad, over the divisor for the mean."""
    grad, statistics, total = (call.args[name] for name in ("grad_output", "statistics", "total_weight"))
    out = call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    sizes = statistics.sizes[1:]
    of_statistics, copied = contiguous_copy(statistics)
    of_grad = grad.strides if grad.sizes == sizes else (0,) * len(sizes)
    sample_strides_of = [of_statistics.strides[1:], of_grad]
    scores_and_targets = scores_of(call, lambda scores: scores.sides([out], sample_strides_of).fits())
    sides = scores_and_targets.sides([out], sample_strides_of)
    num_rows, n, inner = sides.num_rows, sides.n, sides.reduced_is_inner
    cut = scores_and_targets.cut(sides, [out, scores_and_targets.spec])
    body = cut.body(n)
    type_ = compute_type(scores_and_targets.spec.dtype)
    max_elements = 1 << 14 if interpreted() else 8192 // (type_.primitive_bitwidth // 4)
    reduced = min(next_power_of_2(body), max_elements if inner or interpreted() else 16)
    outputs = 1 if cut.edges else min(next_power_of_2(num_rows), max(max_elements // reduced, 1))
    mean = call.args["reduction"] == MEAN
    weight = scores_and_targets.weight
    fixed = (0 if weight is None else weight.strides[0], call.args["ignore_index"], num_rows)
    plain, smoothed = (
        plan_launch(
            call,
            cross_entropy_backward,
            sides,
            {
                "grad": pointer(grad),
                "x": pointer(scores_and_targets.spec),
                "target": pointer(scores_and_targets.target),
                "weight": pointer(weight),
                "statistics": pointer(statistics),
                "total_weight": pointer(total) if mean else None,
                "out": pointer(out),
            },
            {
                "MEAN": mean,
                "PROBABILITIES": scores_and_targets.has_probabilities,
                "ACCUMULATOR": type_,
                **cut.constants(),
            },
            Tile(outputs, reduced, cdiv(body, reduced), n, 4),
            fixed,
            smoothing,
            (
                "out_kept_stride",
                "x_kept_stride",
                "target_kept_stride",
                "stats_kept_stride",
                "grad_kept_stride",
            ),
            ("out_reduced_stride", "x_reduced_stride", "target_reduced_stride"),
        )
        for smoothing in (None, "fp64")
    )

    def into(
        out_data: Any,
        grad: Any,
        scores: Any,
        target: Any,
        weight: Any,
        statistics_data: Any,
        total: Any,
        smoothing: float,
    ) -> None:
        divisor = total if mean else None
        tensors = (
            grad,
            scores_and_targets.of_scores(scores),
            scores_and_targets.of_target(target),
            weight,
            copied(statistics_data),
            divisor,
            out_data,
        )
        addresses = [data.address for data in tensors if data is not None]
        if smoothing > 0:
            launch, grid, numbers = smoothed
            launch(grid, *addresses, float(smoothing), *numbers)
        else:
            launch, grid, numbers = plain
            launch(grid, *addresses, *numbers)

    return PlannedKernel(into)


register_stub("cross_entropy_forward_stub", "cuda", forward)
register_stub("cross_entropy_backward_stub", "cuda", backward)
