"""Convolutions, transposed convolutions and input gradients as launches of one kernel.

Columns are never written to memory. A 1x1 convolution is a matmul and uses those kernels. Depthwise
convolutions have kernels of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ...dispatch.structured import choices
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_triton import tl
from ..budget import Configuration
from ..folded_grid import folded
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, launch_nothing
from ..products.problem import CannotFuse, FusedEpilogue
from ..products.repacked import Bytes
from ..tuning.choice import configuration
from .bulk import plan_bulk
from .convolution_kernels import DOUBLE, EXACT, FEW, HALF, TF32, WIDE, convolve
from .depthwise import is_depthwise, plan_depthwise
from .layout_copies import (
    COPY_THRESHOLD,
    Operand,
    laid_out,
    plan_computed_copies,
    plan_copies,
    transposed,
    unit_of_spec,
)
from .pointwise import is_product, plan_product
from .problem import Problem
from .strided import over_view
from .volume import BYTES, Arguments, Sums, as_volume, bounded, reach, sums_of, unit_of, window_of

FLAT_BELOW = 32
"""Channels of a group below which the K dimension combines channels and taps: a single tap would leave most of a
block empty.
"""
INTERPRETED_TILE = (512, 128, 128)
"""Tile in the interpreter, where a program costs far more than its elements."""


def laid(problem: Problem, sums: Sums) -> tuple[Problem, Operand, Operand]:
    """Return the problem over operands in the kernel's layouts, and how source and weight get there."""
    source, weight = problem.source, problem.weight
    if problem.products < COPY_THRESHOLD:
        return problem, Operand(source, source), Operand(weight, weight)
    vector = BYTES // source.itemsize
    channels = problem.channels
    if problem.groups > 1 or channels % vector == 0:
        padded = channels
    else:
        padded = min(n for n in (4, 8, 16, cdiv(channels, vector) * vector) if n >= channels)
    data = laid_out(source, padded * problem.groups)
    if not problem.transposed:
        filters = laid_out(weight, padded)
        read = filters.laid
    else:
        filters = laid_out(weight, padded * problem.groups, dim=0)
        read = filters.laid
        is_plain = problem.groups == problem.phases == 1
        if sums.precision == "tf32" or (filters.is_copied and source.itemsize == 2 and is_plain):
            # Tensor cores take TF32 only with what is summed innermost: else elements are loaded one by one. A copy of
            # 16-bit floats for tensor descriptors is such too: whole vectors, whatever the number of columns.
            filters = laid_out(transposed(weight), padded * problem.groups)
            read = transposed(filters.laid)
    return dataclasses.replace(problem, source=data.laid, weight=read), data, filters


def default_configuration(problem: Problem, sums: Sums, is_flat: bool) -> Configuration:
    """Return a configuration by dtype, vectors, and whether large tiles fill the device."""
    m, columns = problem.positions, problem.columns
    properties = driver().properties(problem.out.device.resolved_index)
    count, phases = properties.multi_processor_count, problem.phases
    itemsize = problem.source.itemsize

    def fills(configuration: Configuration) -> bool:
        tiles = (
            cdiv(cdiv(m, phases), configuration.tile[0])
            * cdiv(columns, configuration.tile[1])
            * phases
            * problem.groups
        )
        return tiles >= count

    if itemsize == 8:
        candidates = DOUBLE
    elif itemsize == 4:
        candidates = EXACT if sums.precision == "ieee" else TF32
    elif is_flat or unit_of_spec(problem.source) * itemsize < BYTES:
        candidates = FEW
    else:
        design = properties.design
        candidates = tuple(candidate for candidate in HALF if candidate.is_for(design))
        if columns > 128 and columns % 256 == 0 and WIDE.is_for(design) and fills(WIDE):
            return WIDE
        if columns <= 64:
            candidates = tuple(candidate for candidate in candidates if candidate.tile[1] <= 64)
    return next((candidate for candidate in candidates if fills(candidate)), candidates[-1])


def plan_convolution(call: StructuredCall, requested: Problem) -> Callable[..., None]:
    """Return ``run(out, source, weight, bias or None)`` over data, which it copies to a better layout if
    worthwhile.

    The `run` of this plan and of those below also takes addresses for a fused epilogue's pointers.
    """
    sums = sums_of(call, requested.source)
    problem, source, weight = laid(requested, sums)
    fused = requested.fused
    if fused is not None and fused.sums is not None:
        return plan_computed(call, problem, sums, (source, weight), fused)
    copied = plan_copies((source, weight))
    multiply = plan_laid(call, problem, sums)
    if copied is None:
        return multiply

    def run(out: Any, data: Any, filters: Any, offset: Any = None, *rest: int) -> None:
        multiply(out, *copied(data, filters), offset, *rest)

    return run


def plan_computed(
    call: StructuredCall,
    problem: Problem,
    sums: Sums,
    operands: tuple[Operand, Operand],
    fused: FusedEpilogue,
) -> Callable[..., None]:
    """`plan_convolution` where operands are computed as they are laid out. The addresses for that come last."""
    assert fused.sums is not None
    copied = plan_computed_copies(operands, fused.sums)
    inner = dataclasses.replace(fused, sources=(None, None), sums=None) if fused.computes_elements else None
    multiply = plan_laid(call, dataclasses.replace(problem, fused=inner), sums)
    count = len(fused.sums.pointers)

    def run(out: Any, data: Any, filters: Any, offset: Any = None, *rest: int) -> None:
        addresses = rest[len(rest) - count :]
        multiply(out, *copied(addresses, data, filters), offset, *(rest if inner is not None else ()))

    return run


def plan_laid(call: StructuredCall, problem: Problem, sums: Sums) -> Callable[..., None]:
    """Return ``run(out, source, weight, bias or None)`` over data in place, by descriptors where addresses allow."""
    bulk = plan_bulk(call, problem, sums)
    if bulk is None:
        choices.chosen("implicit GEMM, through pointers", "no tensor descriptors serve it")
        return plan_pointers(call, problem, sums)
    choices.chosen(
        "implicit GEMM, by tensor descriptors",
        "there is one group, and the channels ({}) lie innermost in whole vectors; the output is stored as {}",
        problem.channels,
        "pixels of channels" if problem.out.strides[1] == 1 else "planes",
    )
    made: list[Callable[..., None]] = []

    def run(out: Any, data: Any, filters: Any, offset: Any = None, *rest: int) -> None:
        if (out.address | data.address | filters.address) % ALIGNMENT == 0:
            bulk(out, data, filters, offset, *rest)
            return
        if not made:
            made.append(plan_pointers(call, problem, sums))
        made[0](out, data, filters, offset, *rest)

    return run


def plan_pointers(call: StructuredCall, problem: Problem, sums: Sums) -> Callable[..., None]:
    """Return ``run(out, source, weight, bias or None)`` over data, which lie in any way."""
    source, weight, out, window = problem.source, problem.weight, problem.out, problem.window
    channels, columns, groups = problem.channels, problem.columns, problem.groups
    is_flat = channels < FLAT_BELOW or source.strides[1] != 1
    inner = channels * window.taps if is_flat else channels
    if interpreted():
        tile = tuple(
            bounded(n, limit)
            for n, limit in zip((problem.positions, columns, inner), INTERPRETED_TILE, strict=True)
        )
        chosen = Configuration(tile, 4, 1)
    else:
        default = default_configuration(problem, sums, is_flat)
        shape = (problem.positions, columns, channels * window.taps)
        # Exact tiles of float32 and those of TF32 are declared for one dtype, and are no alternatives of each other.
        chosen = default
        if not sums.is_exact:
            chosen = configuration(convolve, call.device, source.dtype.triton_name, shape, default)
        m, n, k = chosen.tile
        if not is_flat and channels % k and channels % (k // 2) == 0:
            k //= 2
        tile = (bounded(problem.positions, m), bounded(columns, n), bounded(inner, k))
    k_stride, n_stride, group_stride = problem.weight_strides(weight)
    w_inner = n_stride != 1 or k_stride == 1
    letters = dict(zip(("wt", "wr", "ws"), weight.strides[2:], strict=True))
    along = {"wg": group_stride if groups > 1 else 0, "wk": k_stride, "wn": n_stride, **letters}
    w_name = "wk" if w_inner else "wn"
    is_inner = along[w_name] == 1
    w_unit = unit_of(*(s for name, s in along.items() if name != w_name)) if is_inner else 1
    x_unit = unit_of_spec(source)
    pixels_inner = out.strides[1] != 1 and out.sizes[1] > 1
    y_unit = 1 if pixels_inner or out.strides[1] != 1 else unit_of(out.strides[0], *out.strides[2:])
    column_unit, channel_unit = unit_of(columns), unit_of(channels)
    extent = reach(source, weight, out) + tile[0] * max(out.strides)
    kind = integer_type(extent, problem.positions + problem.phases * tile[0])
    arguments = Arguments(kind)
    arguments.sizes(images=out.sizes[0])
    arguments.sizes(column_unit, columns=columns)
    if is_flat:
        arguments.constants["channels"] = channels
    else:
        arguments.sizes(channel_unit, channels=channels)
    arguments.sizes(**dict(zip(("d", "h", "width"), source.sizes[2:], strict=True)))
    arguments.sizes(**dict(zip(("od", "oh", "ow"), out.sizes[2:], strict=True)))
    xn, xc, xd, xh, xw = source.strides
    arguments.strides(x_unit, "xc", {"xn": xn, "xd": xd, "xh": xh, "xw": xw, "xc": xc})
    arguments.strides(w_unit, w_name, along)
    yn, yc, yd, yh, yw = out.strides
    fused = problem.fused
    if fused is not None and fused.is_channels_last:
        # Its epilogue counts pixels of all lines, also of lines of one pixel.
        yw = out.sizes[1]
    arguments.strides(
        y_unit, "yw" if pixels_inner else "yc", {"yn": yn, "yd": yd, "yh": yh, "yw": yw, "yc": yc}
    )
    arguments.strides(1, "bs", {"bs": 0 if problem.bias is None else problem.bias.strides[0]})
    pointers = {"x": source, "w": weight, "out": out} | (
        {} if problem.bias is None else {"bias": problem.bias}
    )
    every = {name: f"*{spec.dtype.triton_name}" for name, spec in pointers.items()} | arguments.signature
    kernel = convolve if fused is None else fused.kernel("convolve")
    every |= dict({} if fused is None else fused.pointers)
    launch = Launch(
        call.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **({"bias": None} if problem.bias is None else {}),
            **arguments.constants,
            **window.constants(),
            **sums.constants(),
            **dict(zip(("LEAP_D", "LEAP_H", "LEAP_W"), problem.leaps, strict=True)),
            "X_UNIT": x_unit,
            "W_UNIT": w_unit,
            "Y_UNIT": y_unit,
            "CHANNEL_UNIT": channel_unit,
            "COLUMN_UNIT": column_unit,
            "W_INNER": w_inner,
            "PIXELS_INNER": pixels_inner,
            "TRANSPOSED": problem.transposed,
            "FLAT": is_flat,
            "WHOLE": is_flat or channels % tile[2] == 0,
            **dict(zip(("CHECK_D", "CHECK_H", "CHECK_W"), problem.may_lie_outside, strict=True)),
            "INDEX": tl.int32 if kind == "i32" else tl.int64,
            **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True)),
        },
        elements=() if fused is None else fused.elements,
        num_warps=chosen.warps,
        num_stages=chosen.stages,
    )
    tiles = cdiv(problem.positions_of_phase, tile[0]) * cdiv(columns, tile[1]) * groups
    grid, numbers = folded(tiles, problem.phases), arguments.in_order(convolve.arg_names)

    def run(out_data: Any, data: Any, filters: Any, offset: Any = None, *rest: int) -> None:
        if offset is None:
            launch(grid, data.address, filters.address, out_data.address, *rest, *numbers)
        else:
            launch(grid, data.address, filters.address, offset.address, out_data.address, *rest, *numbers)

    return run


def check_sources(problem: Problem) -> None:
    """Raise CannotFuse where another kernel than the convolution's would compute its operands."""
    fused = problem.fused
    if fused is None or not fused.has_prologue:
        return
    kinds = {operand.is_volume for operand in fused.sources if operand is not None}
    if is_depthwise(problem) or kinds != {not is_product(problem)}:
        raise CannotFuse("no kernel that serves it computes an operand")


def plan_of(call: StructuredCall, problem: Problem) -> Callable[..., None]:
    """Return ``run(out, source, weight, bias or None)`` over data, by the kernel that fits."""
    sums_of(call, problem.source)
    if problem.out.numel == 0:
        return launch_nothing
    check_sources(problem)
    if is_depthwise(problem):
        choices.chosen("depthwise", "each of the {} groups has a channel of its own", problem.groups)
        return plan_depthwise(call, problem)
    if is_product(problem):
        choices.chosen("one product", "the kernel has one element, and pixels lie evenly")
        return plan_product(call, problem)
    return plan_convolution(call, problem)


def copies_input(call: StructuredCall) -> bool:
    """Return True if a call of `convolution` copies its input to another layout."""
    problem = problem_of(call)
    if not problem.out.numel or is_depthwise(problem) or is_product(problem):
        return False
    _, source, _ = laid(problem, sums_of(call, problem.source))
    return source.is_copied


def problem_of(call: StructuredCall, fused: FusedEpilogue | None = None) -> Problem:
    """Return the kernels' problem of a `convolution` call."""
    args = call.args
    weight = args["weight"]
    problem = Problem(
        as_volume(args["input"]),
        as_volume(weight),
        args["bias"],
        as_volume(call.outputs[0]),
        args["groups"],
        window_of(call, weight.sizes[2:]),
        args["transposed"],
        fused,
    )
    return over_view(problem)


def convolution(call: StructuredCall) -> PlannedKernel:
    """(N, C, *spatial) by (O, C / groups, *kernel), or transposed by (C, O / groups, *kernel), with a bias of (O)."""
    return PlannedKernel(plan_of(call, problem_of(call)))


def plan_fused(call: StructuredCall, fused: FusedEpilogue) -> tuple[Callable[..., None], tuple[str, ...]]:
    """Return a convolution's launch with a fused epilogue, and the names of the arguments whose addresses come
    first.

    The calling convention is that of `products.fused.plan_fused`. Raise CannotFuse if the kernel that serves
    the convolution takes no epilogue.
    """
    out = call.outputs[0]
    if out.numel == 0 or out.ndim != call.args["weight"].ndim:
        raise CannotFuse("it has no elements, or no batch")
    run = plan_of(call, problem_of(call, fused))
    has_bias = call.args["bias"] is not None

    def launch(data: int, filters: int, *rest: int) -> None:
        offset = Bytes(rest[0]) if has_bias else None
        out_data, *pointers = rest[1:] if has_bias else rest
        run(Bytes(out_data), Bytes(data), Bytes(filters), offset, *pointers)

    return launch, ("input", "weight", "bias") if has_bias else ("input", "weight")


def backward_input(call: StructuredCall) -> PlannedKernel:
    """Compute the input's gradient: each input pixel gathers from its outputs, without scatter or atomics."""
    args = call.args
    weight = args["weight"]
    problem = Problem(
        as_volume(args["grad_output"]),
        as_volume(weight),
        None,
        as_volume(call.outputs[0]),
        args["groups"],
        window_of(call, weight.sizes[2:]),
        True,
    )
    return PlannedKernel(plan_of(call, problem))


register_stub("convolution_stub", "cuda", convolution)
register_stub("convolution_backward_input_stub", "cuda", backward_input)
