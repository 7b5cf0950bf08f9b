"""How convolutions whose groups have one channel become launches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..elementwise.copy import copy_kernel
from ..launch import Launch, cdiv, integer_type, interpreted, next_power_of_2
from .depthwise_kernels import LAST, PLANES, convolve_depthwise, convolve_depthwise_backward_weight
from .layout_copies import COPY_THRESHOLD, unit_of_spec
from .problem import Problem
from .volume import Arguments, Window, reach, sums_of, unit_of

MAX_INTERPRETED = 1 << 13
"""Elements of a program's tile in the interpreter."""
LOOPS = 8
"""The fewest tiles that a part of the pixels is worth a program of its own."""


def is_depthwise(problem: Problem) -> bool:
    """Return True for a depthwise convolution: one channel for each group on some side."""
    return problem.groups > 1 and min(problem.channels, problem.columns) == 1


def chosen_tile(dtype: str, positions: int, outputs: int, last: bool) -> Configuration:
    """Return the pixels and channels of a program; `last` if the operands are channels-last."""
    if interpreted():
        rows = min(next_power_of_2(positions), MAX_INTERPRETED)
        return Configuration((rows, min(next_power_of_2(outputs), MAX_INTERPRETED // rows)), 4, 1)
    # The layout decides: a tile of the other one would access single elements.
    chosen = (LAST if last else PLANES)[dtype]
    rows, channels = chosen.tile
    tile = (min(rows, next_power_of_2(positions)), min(channels, next_power_of_2(outputs)))
    return dataclasses.replace(chosen, tile=tile)


def taps_outermost(spec: TensorSpec) -> TensorSpec:
    """Return a weight's spec in (tap, input, output) order, so that the outputs form whole vectors."""
    o, i, _, r, s = spec.sizes
    return spec.replace(sizes=spec.sizes, strides=(1, o, i * o * r * s, i * o * s, i * o))


def relay_weight(problem: Problem, is_last: bool) -> tuple[TensorSpec, Callable[[Any], Any]]:
    """Return the weight in the kernel's layout, and the function that makes it."""
    weight = problem.weight
    if not is_last or problem.products < COPY_THRESHOLD or problem.window.taps == 1:
        return weight, lambda data: data
    layout = taps_outermost(weight)
    copy, allocate = copy_kernel(layout, weight), get_allocator("cuda").allocate
    nbytes, device = weight.numel * weight.itemsize, weight.device

    def copied(data: Any) -> Any:
        buffer = allocate(nbytes, device)
        copy(buffer, data)
        return buffer

    return layout, copied


def plan_depthwise(call: StructuredCall, problem: Problem) -> Callable[..., None]:
    """``run(out, source, weight, bias or None, *addresses)`` over data; addresses are those of a fused epilogue."""
    source, out, window = problem.source, problem.out, problem.window
    sums = sums_of(call, source)
    outputs, dtype = out.sizes[1], source.dtype.triton_name
    assert dtype is not None
    is_last = source.strides[1] == 1 and out.strides[1] == 1
    weight, gather = relay_weight(problem, is_last)
    chosen = chosen_tile(dtype, problem.positions, outputs, is_last)
    unit = min(unit_of_spec(source), unit_of_spec(out)) if is_last else 1
    w_unit = unit_of(*weight.strides[2:]) if weight.strides[0] == 1 else 1
    kind = integer_type(reach(source, out, weight), problem.positions + chosen.tile[0])
    arguments = Arguments(kind)
    arguments.sizes(images=out.sizes[0])
    output_unit = unit_of(outputs)
    arguments.sizes(output_unit, outputs=outputs)
    arguments.sizes(**dict(zip(("d", "h", "width"), source.sizes[2:], strict=True)))
    arguments.sizes(**dict(zip(("od", "oh", "ow"), out.sizes[2:], strict=True)))
    for spec, letter in ((source, "x"), (out, "y")):
        n, c, *spatial = spec.strides
        named = dict(zip((f"{letter}d", f"{letter}h", f"{letter}w"), spatial, strict=True))
        inner = f"{letter}c" if is_last else f"{letter}w"
        arguments.strides(unit, inner, {f"{letter}n": n, f"{letter}c": c, **named})
    arguments.strides(w_unit, None, dict(zip(("wt", "wr", "ws"), weight.strides[2:], strict=True)))
    for name, stride in zip(("wo", "wi"), weight.strides[:2], strict=True):
        arguments.strides(1, name, {name: stride})
    bias = problem.bias
    arguments.strides(1, "bs", {"bs": 0 if bias is None else bias.strides[0]})
    pointers = {"x": source, "w": weight, "out": out} | ({} if bias is None else {"bias": bias})
    every = {name: f"*{spec.dtype.triton_name}" for name, spec in pointers.items()} | arguments.signature
    fused = problem.fused
    kernel = convolve_depthwise if fused is None else fused.kernel("convolve_depthwise")
    every |= dict({} if fused is None else fused.pointers)
    launch = Launch(
        call.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **({"bias": None} if bias is None else {}),
            **arguments.constants,
            **window.constants(),
            "UNIT": unit,
            "W_UNIT": w_unit,
            "OUTPUT_UNIT": output_unit,
            "PIXELS_INNER": not is_last,
            "TRANSPOSED": problem.transposed,
            "CHANNELS": problem.channels,
            "COLUMNS": problem.columns,
            "INDEX": tl.int32 if kind == "i32" else tl.int64,
            "ACCUMULATOR": sums.type,
            "BLOCK_P": chosen.tile[0],
            "BLOCK_C": chosen.tile[1],
        },
        elements=() if fused is None else fused.elements,
        num_warps=chosen.warps,
        num_stages=chosen.stages,
    )
    grid = (cdiv(problem.positions, chosen.tile[0]) * cdiv(outputs, chosen.tile[1]), 1, 1)
    numbers = arguments.in_order(convolve_depthwise.arg_names)

    def run(out_data: Any, data: Any, filters: Any, offset: Any = None, *rest: int) -> None:
        filters = gather(filters)
        if offset is None:
            launch(grid, data.address, filters.address, out_data.address, *rest, *numbers)
        else:
            launch(grid, data.address, filters.address, offset.address, out_data.address, *rest, *numbers)

    return run


def plan_depthwise_parts(
    call: StructuredCall, grad: TensorSpec, source: TensorSpec, out: TensorSpec, groups: int, window: Window
) -> tuple[int, Callable[[Any, Any, Any], None]]:
    """Parts (splits, outputs, taps, channels) of a weight's gradient, in the accumulator's dtype: how many, and what
    writes them: ``run(parts, grad, source)`` over data."""
    sums = sums_of(call, grad)
    n, _, *spatial = grad.sizes
    pixels = n * spatial[0] * spatial[1] * spatial[2]
    outputs, channels = out.sizes[:2]
    pairs, dtype = outputs * channels, grad.dtype.triton_name
    assert dtype is not None
    is_last = grad.strides[1] == 1 and source.strides[1] == 1
    kernel = convolve_depthwise_backward_weight
    chosen = chosen_tile(dtype, pixels, pairs, is_last)
    rows, columns = chosen.tile
    programs = cdiv(pairs, columns) * window.taps
    if interpreted():
        splits = min(2, cdiv(pixels, rows))
    else:
        count = driver().properties(call.device.resolved_index).multi_processor_count
        splits = max(1, min(cdiv(pixels, LOOPS * rows), 16 * count // programs))
    chunk = cdiv(cdiv(pixels, splits), rows) * rows
    splits = cdiv(pixels, chunk)
    unit = min(unit_of_spec(grad), unit_of_spec(source)) if is_last else 1
    kind = integer_type(reach(grad, source), pixels + chunk + rows)
    arguments = Arguments(kind)
    arguments.wide("i32" if kind == "i32" else "i64", {"pixels": pixels, "chunk": chunk})
    pair_unit = unit_of(pairs)
    arguments.sizes(pair_unit, pairs=pairs)
    arguments.sizes(**dict(zip(("d", "h", "width"), source.sizes[2:], strict=True)))
    arguments.sizes(**dict(zip(("od", "oh", "ow"), spatial, strict=True)))
    for spec, letter in ((grad, "g"), (source, "x")):
        images, inner, *lines = spec.strides
        named = dict(zip((f"{letter}d", f"{letter}h", f"{letter}w"), lines, strict=True))
        name = f"{letter}c" if is_last else f"{letter}w"
        arguments.strides(unit, name, {f"{letter}n": images, f"{letter}c": inner, **named})
    accumulator = "fp64" if sums.type == tl.float64 else "fp32"
    every = {"g": f"*{dtype}", "x": f"*{dtype}", "out": f"*{accumulator}"} | arguments.signature
    launch = Launch(
        call.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **arguments.constants,
            **window.constants(),
            "UNIT": unit,
            "PAIR_UNIT": pair_unit,
            "CHANNELS": channels,
            "COLUMNS": outputs // groups,
            "INDEX": tl.int32 if kind == "i32" else tl.int64,
            "ACCUMULATOR": sums.type,
            "BLOCK_P": rows,
            "BLOCK_C": columns,
        },
        num_warps=chosen.warps,
        num_stages=chosen.stages,
        enable_fp_fusion=True,
    )
    grid, numbers = (programs, splits, 1), arguments.in_order(kernel.arg_names)

    def run(parts: Any, g: Any, x: Any) -> None:
        launch(grid, g.address, x.address, parts.address, *numbers)

    return splits, run
