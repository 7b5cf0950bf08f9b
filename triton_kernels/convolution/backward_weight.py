"""Gradient of a convolution's weight: split-K over pixels, and the sum of the parts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured import choices
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import BY_NAME
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..elementwise.factories import zero
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from ..tuning.choice import configuration
from .bulk_weight import lines_of_planes, plan_bulk_parts, reason_against
from .convolution import FLAT_BELOW, INTERPRETED_TILE
from .depthwise import plan_depthwise_parts
from .layout_copies import COPY_THRESHOLD, Operand, laid_out, plan_copies, unit_of_spec
from .strided import subsampled
from .volume import BYTES, Arguments, Sums, Window, as_volume, bounded, reach, sums_of, unit_of, window_of
from .weight_kernels import DOUBLE, EXACT, FEW, HALF, TF32, add_parts, convolve_backward_weight

MAX_SPLITS = 64
STEPS = 8
"""The fewest steps along pixels that a part is worth a program of its own."""
SUM_BYTES = 4096
"""Bytes of a part that a program of `add_parts` reads."""


def reciprocal(divisor: int) -> tuple[int, int]:
    """Return (magic, shift) with ``n * magic >> shift == n // divisor`` for every n below 2^31; see `quotient`.

    Example:
        >>> from triten.triton_kernels.convolution.backward_weight import reciprocal
        >>> magic, shift = reciprocal(7)
        >>> [n * magic >> shift for n in (6, 7, 2**31 - 1)] == [0, 1, (2**31 - 1) // 7]
        True
    """
    shift = 31 + (divisor - 1).bit_length()
    return (1 << shift) // divisor + 1, shift


def lies_evenly(spec: TensorSpec) -> bool:
    """Return True if the pixels of all images have one common stride."""
    n, _, d, h, w = spec.sizes
    expected = spec.strides[4] if w > 1 else None
    running = w
    for size, stride in ((h, spec.strides[3]), (d, spec.strides[2]), (n, spec.strides[0])):
        if size > 1:
            if expected is None or stride != expected * running:
                return False
            running *= size
    return expected is not None


def default_configuration(
    call: StructuredCall, spec: TensorSpec, sums: Sums, few: bool, outputs: int, columns: int, taps: int
) -> Configuration:
    """Return a configuration by dtype, vectors, and the GEMM's sizes."""
    properties = driver().properties(call.device.resolved_index)
    if spec.itemsize == 8:
        candidates = DOUBLE
    elif spec.itemsize == 4:
        candidates = EXACT if sums.precision == "ieee" else TF32
    elif few:
        candidates = FEW
    else:
        candidates = HALF[:2] if properties.design >= 90 else HALF[2:]
    is_large = outputs > candidates[-1].tile[0] and columns * (taps if few else 1) > candidates[-1].tile[1]
    return candidates[0] if is_large else candidates[-1]


def laid(
    call: StructuredCall, grad: TensorSpec, source: TensorSpec, out: TensorSpec, groups: int, window: Window
) -> tuple[Operand, Operand]:
    """Return the gradient and the source in the layouts that the kernel wants."""
    n, outputs, *spatial = grad.sizes
    products = n * math.prod(spatial) * outputs * math.prod(out.sizes[1:])
    if is_depthwise(out, groups) or products < COPY_THRESHOLD:
        return Operand(grad, grad), Operand(source, source)
    if (
        reason_against(call, grad, source, window) is None
        and lines_of_planes(grad, source, window) is not None
    ):
        choices.chosen(
            "planes as they lie", "there is one tap, so that tensor descriptors load pieces of them"
        )
        return Operand(grad, grad), Operand(source, source)
    return in_vectors(grad), in_vectors(source)


def in_vectors(spec: TensorSpec) -> Operand:
    """Return a channels-last volume; a copy pads channels with zeros to whole vectors, as tensor descriptors
    need.
    """
    operand, channels = laid_out(spec), spec.sizes[1]
    padded = cdiv(channels, BYTES // spec.itemsize) * (BYTES // spec.itemsize)
    if not operand.is_copied or spec.itemsize != 2 or 4 * padded > 5 * channels:
        return operand
    return laid_out(spec, padded)


def unpadded(operand: Operand) -> TensorSpec:
    """Return the copy without the padding channels."""
    return operand.laid.replace(sizes=operand.spec.sizes, strides=operand.laid.strides)


def plan_parts(
    call: StructuredCall,
    grad: TensorSpec,
    source: TensorSpec,
    out: TensorSpec,
    groups: int,
    window: Window,
) -> tuple[int, Callable[[Any, Any, Any], None]]:
    """Parts (splits, outputs, taps, channels), or the gradient itself where there is one: how many, and what writes
    them: ``run(parts, grad, source)`` over data."""
    sums = sums_of(call, grad)
    n, _, od, oh, ow = grad.sizes
    pixels, outputs, channels = n * od * oh * ow, out.sizes[0] // groups, out.sizes[1]
    taps = window.taps
    is_flat = channels < FLAT_BELOW and taps > 1
    few = is_flat or min(unit_of_spec(grad), unit_of_spec(source)) * grad.itemsize < BYTES
    columns = channels * taps if is_flat else channels
    kernel = convolve_backward_weight
    if interpreted():
        tile = tuple(
            bounded(n, limit) for n, limit in zip((outputs, columns, pixels), INTERPRETED_TILE, strict=True)
        )
        chosen = Configuration(tile, 4, 1)
    else:
        default = default_configuration(call, grad, sums, few, outputs, channels, taps)
        shape = (outputs, channels * taps, pixels)
        chosen = default
        if not sums.is_exact:
            chosen = configuration(kernel, call.device, grad.dtype.triton_name, shape, default)
        m, n_, k = chosen.tile
        tile = (bounded(outputs, m), bounded(columns, n_), bounded(pixels, k))
    programs = cdiv(outputs, tile[0]) * cdiv(columns, tile[1]) * (1 if is_flat else taps) * groups
    if interpreted():
        splits = min(2, cdiv(pixels, tile[2]))
    else:
        target = 2 * driver().properties(call.device.resolved_index).multi_processor_count
        splits = max(1, min(cdiv(pixels, STEPS * tile[2]), target // programs, MAX_SPLITS))
    chunk = cdiv(cdiv(pixels, splits), tile[2]) * tile[2]
    splits = cdiv(pixels, chunk)
    if splits == 1:
        target_spec, strides = out, dict(zip(("wo", "wc", "wt", "wr", "ws"), out.strides, strict=True))
    else:
        accumulator = BY_NAME["float64" if sums.type == tl.float64 else "float32"]
        t, r, s = window.kernel
        target_spec = out.replace(dtype=accumulator)
        strides = {"wo": taps * channels, "wc": 1, "wt": r * s * channels if t > 1 else 0}
        strides |= {"wr": s * channels, "ws": channels}
    kind = integer_type(
        reach(grad, source), splits * out.numel + tile[0] * out.numel, pixels + chunk + tile[2]
    )
    index = tl.int32 if kind == "i32" else tl.int64
    x_unit = unit_of_spec(source)
    rows = lies_evenly(grad)
    g_unit = unit_of_spec(grad)
    arguments = Arguments(kind)
    arguments.wide(kind, {"pixels": pixels, "chunk": chunk})
    output_unit, channel_unit = unit_of(outputs), unit_of(channels)
    arguments.sizes(output_unit, outputs=outputs)
    if is_flat:
        arguments.constants["channels"] = channels
    else:
        arguments.sizes(channel_unit, channels=channels)
    arguments.sizes(**dict(zip(("d", "h", "width"), source.sizes[2:], strict=True)))
    arguments.sizes(od=od, oh=oh, ow=ow)
    for letter, size in (("d", od), ("h", oh), ("w", ow)):
        magic, shift = reciprocal(size)
        arguments.wide("i64", {f"magic_{letter}": magic})
        arguments.wide("i32", {f"shift_{letter}": shift})
    for spec, letter, unit in ((grad, "g", g_unit), (source, "x", x_unit)):
        images, inner, *lines = spec.strides
        named = dict(zip((f"{letter}d", f"{letter}h", f"{letter}w"), lines, strict=True))
        arguments.strides(unit, f"{letter}c", {f"{letter}n": images, f"{letter}c": inner, **named})
    arguments.strides(1, "wc", strides)
    arguments.strides(1, None, {"part": 0 if splits == 1 else out.numel})
    every = {
        "g": f"*{grad.dtype.triton_name}",
        "x": f"*{source.dtype.triton_name}",
        "out": f"*{target_spec.dtype.triton_name}",
    } | arguments.signature
    launch = Launch(
        call.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **arguments.constants,
            **window.constants(),
            **sums.constants(),
            "G_UNIT": g_unit,
            "X_UNIT": x_unit,
            "OUTPUT_UNIT": output_unit,
            "CHANNEL_UNIT": channel_unit,
            "ROWS": rows,
            "FLAT": is_flat,
            "INDEX": index,
            **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True)),
        },
        divisible=[n for n in ("wo", "wt", "wr", "ws", "part") if arguments.values.get(n, 1) % 16 == 0],
        num_warps=chosen.warps,
        num_stages=chosen.stages,
    )
    grid, numbers = (programs, splits, 1), arguments.in_order(kernel.arg_names)

    def run(parts: Any, g: Any, x: Any) -> None:
        launch(grid, g.address, x.address, parts.address, *numbers)

    return splits, run


def plan_sum(
    call: StructuredCall, out: TensorSpec, splits: int, accumulator: str
) -> Callable[[Any, Any], None]:
    """Return ``run(out, parts)``: the sum over parts (splits, outputs, taps, channels), in their order."""
    _, channels, t, r, s = out.sizes
    triton_name = BY_NAME[accumulator].triton_name
    block = SUM_BYTES // BY_NAME[accumulator].itemsize
    if interpreted():
        block = min(next_power_of_2(out.numel), 1 << 16)
    kind = integer_type(splits * out.numel + block, reach(out))
    arguments = Arguments(kind)
    arguments.wide(kind, {"n": out.numel})
    arguments.sizes(splits=splits, channels=channels)
    arguments.strides(1, "wc", dict(zip(("wo", "wc", "wt", "wr", "ws"), out.strides, strict=True)))
    index = tl.int32 if kind == "i32" else tl.int64
    every = {"parts": f"*{triton_name}", "out": f"*{out.dtype.triton_name}"} | arguments.signature
    launch = Launch(
        call.device,
        add_parts,
        {name: every[name] for name in add_parts.arg_names if name in every},
        {**arguments.constants, "T": t, "R": r, "S": s, "INDEX": index, "BLOCK": block},
        divisible=["n"] if out.numel % 16 == 0 else [],
    )
    grid, numbers = (cdiv(out.numel, block), 1, 1), arguments.in_order(add_parts.arg_names)
    return lambda out_data, parts: launch(grid, parts.address, out_data.address, *numbers)


def is_depthwise(out: TensorSpec, groups: int) -> bool:
    """Return True for a depthwise convolution, from the weight gradient `out`."""
    return groups > 1 and min(out.sizes[0] // groups, out.sizes[1]) == 1


def plan_weight(
    call: StructuredCall,
    grad: TensorSpec,
    source: TensorSpec,
    out: TensorSpec,
    groups: int,
    window: Window,
) -> Callable[[Any, Any, Any], None]:
    """Return ``run(out, grad, source)`` over data as they lie, by descriptors where addresses allow."""
    if is_depthwise(out, groups):
        choices.chosen("depthwise", "each of the {} groups has a channel of its own", groups)
        splits, write = plan_depthwise_parts(call, grad, source, out, groups, window)
        return added_up(call, out, splits, write)

    def summed(splits: int, write: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
        if splits > 1:
            return added_up(call, out, splits, write)
        choices.chosen("one sum", "the pixels of {} gradients fill no more than one part", grad.numel)
        return write

    by_pointers = functools.cache(lambda: summed(*plan_parts(call, grad, source, out, groups, window)))
    bulk = plan_bulk_parts(call, grad, source, out, groups, window)
    if bulk is None:
        return by_pointers()
    by_descriptors = summed(*bulk)

    def run(out_data: Any, g: Any, x: Any) -> None:
        kernel = by_pointers() if (g.address | x.address) % ALIGNMENT else by_descriptors
        kernel(out_data, g, x)

    return run


def added_up(
    call: StructuredCall, out: TensorSpec, splits: int, write: Callable[[Any, Any, Any], None]
) -> Callable[[Any, Any, Any], None]:
    """Return ``run(out, grad, source)`` of what writes so many parts."""
    choices.chosen("parts that are added up", "the pixels are cut into {}", splits)
    accumulator = "float64" if out.dtype.name == "float64" else "float32"
    add_up = plan_sum(call, out, splits, accumulator)
    allocate, device = get_allocator("cuda").allocate, call.device
    nbytes = splits * out.numel * BY_NAME[accumulator].itemsize

    def run(out_data: Any, g: Any, x: Any) -> None:
        parts = allocate(nbytes, device)
        write(parts, g, x)
        add_up(out_data, parts)

    return run


def backward_weight(call: StructuredCall) -> PlannedKernel:
    """Multiply the gradient by the input, summed over all pixels; long sums use split-K with a second pass."""
    args = call.args
    grad, source = as_volume(args["grad_output"]), as_volume(args["input"])
    out, groups = as_volume(call.outputs[0]), args["groups"]
    sums_of(call, grad)
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    if grad.numel == 0:
        return zero(call)
    window = window_of(call, call.outputs[0].sizes[2:])
    if groups == 1:
        source, window = subsampled(source, window)
    gradient, data = laid(call, grad, source, out, groups, window)
    copied = plan_copies((gradient, data))
    run = plan_weight(call, unpadded(gradient), unpadded(data), out, groups, window)
    if copied is None:
        return PlannedKernel(run)
    return PlannedKernel(lambda out_data, g, x: run(out_data, *copied(g, x)))


register_stub("convolution_backward_weight_stub", "cuda", backward_weight)
