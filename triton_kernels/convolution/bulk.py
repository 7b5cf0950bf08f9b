"""Plans of convolutions by tensor descriptors: which can be described, the tile and its picture, the launch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from ...dispatch.structured import choices
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.driver import driver
from ...runtime.cuda.tensor_map import DescribedTensor
from ..budget import Configuration
from ..launch import ALIGNMENT, INT32_MAX, Launch, cdiv, integer_type, interpreted
from ..products.bulk import FIRST_DESIGN, in_halves
from ..products.problem import CannotFuse, FusedEpilogue, multiprocessors
from ..products.tile_cost import cost, resident
from ..tuning.choice import configuration
from . import strided_kernels
from .bulk_kernels import CROWDED, NARROW, TF32, convolve_bulk
from .bulk_parts import parts_for, plan_parts
from .maps import Maps, block_of, block_types, described, picture, tap_constants, tiles_over
from .problem import Problem
from .strided import folded, folded_wholly
from .strided_kernels import convolve_bulk_phases, convolve_bulk_strided
from .tile_time import tile_time
from .volume import SMALLEST_SIDE, Sums, Triple, bounded, unit_of

INTERPRETED_TILE = (512, 128, 128)
"""Tile in the interpreter, where a program costs far more than its elements."""


def filters(problem: Problem) -> tuple[DescribedTensor | None, bool]:
    """Return the weight as (columns, taps, channels), or (channels, taps, columns), and True for the first form."""
    weight = problem.weight
    k_stride, n_stride, _ = problem.weight_strides(weight)
    rows, taps = weight.sizes[3:]
    row, tap = weight.strides[3:]
    if taps == 1:
        tap = row
    elif rows > 1 and row != taps * tap:
        return None, False
    inner = k_stride == 1 or problem.channels == 1
    sizes = (problem.columns, rows * taps, problem.channels)
    strides = (n_stride, tap, k_stride)
    if not inner:
        sizes, strides = sizes[::-1], strides[::-1]
    return described(sizes, strides, weight.itemsize), inner


def is_crowded(problem: Problem, fused: FusedEpilogue) -> bool:
    """Return True if an epilogue needs so many registers that a large tile's accumulators do not fit beside it.

    This happens if it holds a second tile, or an address for each element.
    """
    has_vectors = unit_of(problem.columns) * problem.out.itemsize >= ALIGNMENT
    return fused.tiles > 1 or (fused.is_channels_last and not has_vectors)


class Form(NamedTuple):
    """Kernel by the convolution's strides: its configurations, by the dtype, and what divides into whole blocks."""

    kernel: Any
    narrow: tuple[Configuration, ...]
    tf32: tuple[Configuration, ...]
    whole_columns: bool = False
    whole_channels: bool = False

    def candidates(self, problem: Problem, is_narrow: bool) -> tuple[Configuration, ...]:
        """Return the configurations whose blocks divide the problem's sides."""
        return tuple(
            each for each in (self.narrow if is_narrow else self.tf32) if self.takes(problem, each.tile)
        )

    def takes(self, problem: Problem, tile: tuple[int, ...]) -> bool:
        """Return True if a tile's blocks divide the sides that need it: past the last one is another phase."""
        columns = not self.whole_columns or problem.columns % tile[1] == 0
        return columns and (not self.whole_channels or problem.channels % tile[2] == 0)


def form_of(problem: Problem) -> Form:
    """Return the form of a convolution: with strides of one, strided, or transposed in phases."""
    _, down, right = problem.window.stride
    if down == right == 1:
        return Form(convolve_bulk, NARROW, TF32)
    if problem.transposed:
        return Form(
            convolve_bulk_phases, strided_kernels.NARROW, strided_kernels.TF32, whole_columns=right > 1
        )
    return Form(convolve_bulk_strided, strided_kernels.NARROW, strided_kernels.TF32, whole_channels=right > 1)


def for_interpreter(problem: Problem, form: Form) -> Configuration | None:
    """Return a tile that covers small problems, since a program costs far more than its elements, or None."""
    sides = (problem.positions, problem.columns, problem.channels)
    rows, columns, depth = (bounded(n, limit) for n, limit in zip(sides, INTERPRETED_TILE, strict=True))
    if form.whole_columns:
        columns = min(columns, problem.columns & -problem.columns)
    if form.whole_channels:
        depth = min(depth, problem.channels & -problem.channels)
    return None if min(columns, depth) < SMALLEST_SIDE else Configuration((rows, columns, depth), 4, 1, 1)


def choose(problem: Problem, positions: Triple, is_narrow: bool, form: Form) -> Configuration | None:
    """Return the tuned configuration, or the one whose tiles cost least; None if no block divides the sides."""
    device, columns = problem.out.device, problem.columns
    inner = problem.channels * problem.window.taps
    if interpreted():
        return for_interpreter(problem, form)
    candidates, num_multiprocessors = form.candidates(problem, is_narrow), multiprocessors(device)
    if not candidates:
        return None
    crowds = problem.fused is not None and is_crowded(problem, problem.fused)
    if crowds:
        crowded = Form(form.kernel, CROWDED, TF32[1:], form.whole_columns, form.whole_channels)
        candidates = crowded.candidates(problem, is_narrow) or candidates[-1:]

    def over(candidate: Configuration) -> int:
        return tiles_over(positions, columns, candidate) * problem.phases

    def spent(candidate: Configuration) -> float:
        if form.kernel is convolve_bulk:
            return cost(candidate, over(candidate), inner, num_multiprocessors)
        steps = cdiv(problem.channels, candidate.tile[2]) * problem.window.taps
        return tile_time(candidate, over(candidate), steps, problem.source.itemsize, num_multiprocessors)

    chosen = min(candidates, key=spent)
    name = problem.source.dtype.triton_name
    assert name is not None
    if crowds:
        return chosen
    tuned = configuration(form.kernel, device, name, (problem.positions, columns, inner), chosen)
    return tuned if form.takes(problem, tuned.tile) else chosen


def refused(why: str) -> None:
    """Tell why tensor descriptors do not serve a convolution."""
    choices.chosen("no tensor descriptors", why)


def maps_of(problem: Problem, sums: Sums) -> Maps | None:
    """Return the maps of a convolution, or None if tensor descriptors do not serve it."""
    source, out, window = problem.source, problem.out, problem.window
    if not (source.itemsize == 2 or sums.precision == "tf32") or problem.groups > 1:
        return refused("its dtype is exact, or it has several groups")
    if driver().properties(out.device.resolved_index).design < FIRST_DESIGN:
        return refused("the device has none")
    if window.kernel[0] > 1 or window.padding[0] or source.sizes[2] > 1 or problem.channels == 0:
        return refused("it is over volumes, or there are no channels")
    if window.stride[0] > 1:
        return refused("it is over volumes")
    if max(*source.sizes, problem.positions, problem.columns, problem.channels * window.taps) > INT32_MAX:
        return refused("a side is longer than 32 bits count")
    weights, inner = filters(problem)
    positions = (out.sizes[0], *out.sizes[3:])
    if window.stride == (1, 1, 1):
        pixels, results = picture(source), picture(out)
    elif problem.transposed:
        pixels, results = picture(source), folded_wholly(out, window)
        if results is None:
            return refused("the output is planes, or strides do not divide its lines and pixels")
        if problem.fused is not None:
            raise CannotFuse(
                "its phases are stored by tensor maps alone, and an epilogue stores by addresses"
            )
        positions = (out.sizes[0], results.sizes[1], results.sizes[3])
    else:
        pixels, results = folded(source, window), picture(out)
    if weights is None or pixels is None:
        return refused(
            "channels do not lie innermost in whole vectors of 16 bytes, or lines are not whole strides"
        )
    # A compiled graph's fused kernels store by address, but accumulate in the eager call's order.
    if results is None and out.strides[4] != 1 and out.sizes[4] != 1:
        return refused("neither channels nor pixels of the output lie side by side")
    return Maps(pixels, weights, inner, results, positions)


def plan_bulk(call: StructuredCall, problem: Problem, sums: Sums) -> Callable[..., None] | None:
    """Return ``run(out, source, weight, bias or None)`` over addresses that are multiples of 16, or None.

    It takes planes of one group with channels-last source and weight; of float32, those that round to TF32.
    If the output's pixels are contiguous, the kernel transposes a tile and stores it by address.
    """
    maps = maps_of(problem, sums)
    if maps is None:
        return None
    form = form_of(problem)
    chosen = choose(problem, maps.positions, problem.source.itemsize == 2, form)
    if chosen is None:
        return refused("channels are no whole blocks, past which is another phase of a stride")
    whole = chosen
    if problem.fused is not None:
        # Sums accumulate in the eager call's order, so the epilogue has no say in the number of parts.
        eager = choose(
            dataclasses.replace(problem, fused=None), maps.positions, problem.source.itemsize == 2, form
        )
        assert eager is not None
        whole = eager
    if parts := parts_for(problem, maps, whole):
        return plan_parts(call, problem, maps, parts)
    return plan_tiles(call, problem, sums, maps, form, chosen)


def phase_constants(problem: Problem) -> dict[str, object]:
    """Return the constants by which `convolve_bulk_phases` finds the taps of a phase."""
    every = problem.window.constants()
    leaps = dict(zip(("LEAP_H", "LEAP_W"), problem.leaps[1:], strict=True))
    return {name: every[name] for name in ("R", "S", "SH", "SW", "PH", "PW", "DH", "DW")} | leaps


def plan_tiles(
    call: StructuredCall, problem: Problem, sums: Sums, maps: Maps, form: Form, chosen: Configuration
) -> Callable[..., None]:
    """Return ``run(out, source, weight, bias or None)`` of a form's kernel with a configuration."""
    out, fused, positions = problem.out, problem.fused, maps.positions
    planes = maps.results is None if fused is None else not fused.is_channels_last
    block_n = chosen.tile[1]
    block = block_of(positions, chosen.tile[0])
    halves = block_n >= 32 if interpreted() else in_halves(chosen)
    width = block_n // 2 if halves else block_n
    out_element = out.dtype.triton_name
    yn, yc, _, yh, _ = out.strides
    strides = {"yn": yn, "yc": yc, "yh": yh} if planes else {} if fused is None else {"yc": problem.columns}
    y_unit, width_unit = unit_of(*strides.values()), unit_of(positions[2]) if planes else 1
    numbers = {
        "images": positions[0],
        "lines": positions[1],
        "pixels": positions[2] // width_unit,
        "columns": problem.columns,
        "channels": problem.channels,
    }
    if form.kernel is not convolve_bulk:
        numbers["pitch"] = (out if problem.transposed else problem.source).strides[4]
    kinds = dict.fromkeys(numbers, "i32")
    strides = {name: stride // y_unit for name, stride in strides.items()}
    numbers |= strides
    kinds |= {name: integer_type(stride) for name, stride in strides.items()}
    bias = problem.bias
    # An epilogue stores by addresses.
    by_address = planes or fused is not None
    kernel = form.kernel if fused is None else fused.kernel(form.kernel.__name__)
    box = (*block[:2], 1, block[2]) if form.kernel is convolve_bulk_phases else block
    stored = ", ".join(map(str, (*box, width)))
    signature = {
        **block_types(problem, maps, chosen, block),
        **({} if bias is None else {"bias": f"*{bias.dtype.triton_name}"}),
        "out": f"*{out_element}" if by_address else f"tensordesc<{out_element}[{stored}]>",
        **({} if fused is None else fused.pointers),
        **kinds,
    }
    constants: dict[str, object] = {
        "INNER": maps.inner,
        "PRECISION": sums.precision,
        **dict(zip(("BLOCK_I", "BLOCK_H", "BLOCK_W"), block, strict=True)),
        **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), chosen.tile, strict=True)),
        "HALVES": halves,
    }
    if form.kernel is convolve_bulk_phases:
        constants |= phase_constants(problem)
    else:
        constants |= tap_constants(problem.window, problem.transposed)
        constants |= {"PLANES": planes, "Y_UNIT": y_unit, "WIDTH_UNIT": width_unit}
        constants |= {name: None for name in ("yn", "yc", "yh") if name not in strides}
    launch = Launch(
        call.device,
        kernel,
        signature,
        {
            **({"bias": None} if bias is None else {}),
            "bs": 0 if bias is None else bias.strides[0],
            **{name: value for name, value in constants.items() if name in kernel.arg_names},
        },
        elements=() if fused is None else fused.elements,
        tensors=(maps.pixels, maps.weights)
        if by_address or maps.results is None
        else (maps.pixels, maps.weights, maps.results),
        num_warps=chosen.warps,
        num_stages=chosen.stages,
    )
    tiles = tiles_over(positions, problem.columns, chosen) * problem.phases
    grid = (min(tiles, multiprocessors(out.device) * resident(chosen)), 1, 1)
    values = tuple(numbers.values())

    def run(out_data: Any, data: Any, weight: Any, offset: Any, *rest: int) -> None:
        if offset is None:
            launch(grid, data.address, weight.address, out_data.address, *rest, *values)
        else:
            launch(grid, data.address, weight.address, offset.address, out_data.address, *rest, *values)

    return run
