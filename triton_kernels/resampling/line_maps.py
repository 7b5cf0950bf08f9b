"""Padding and interpolation over any strides: which dimension is a tile's column, and the passes that are needed.

A complex tensor is moved, or added up, as its two parts in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dispatch.scalars import element_of
from ...dispatch.structured.choices import chosen
from ...dispatch.structured.meta.line_maps import Kernel, Kind, LineMap, by_factors
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.tensor_spec import TensorSpec
from ..contiguous import contiguous_copy
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..geometry import coalesced
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from .line_map_kernels import map_lines, map_lines_backward

COLUMNS = 256
INTERPRETED_ELEMENTS = 8192
IDENTITY = LineMap(Kind.KEEP, 1, 1)


class Mapped(NamedTuple):
    """A dimension with its map, and its strides in the input and in the output."""

    line: LineMap
    x: int
    y: int


class Plan(NamedTuple):
    """Dimensions as the programs have them."""

    outer: tuple[tuple[int, int, int], ...]
    """Two: size, stride in the input, in the output."""
    mapped: tuple[Mapped, ...]
    """Three."""
    channels: tuple[int, int, int] | None
    """The columns, where they are not the last mapped dimension's."""


def plan_of(dims: Sequence[Mapped], backward: bool) -> Plan | None:
    """Return the plan of all dimensions, or None if there are too many."""
    mapped = [dim for dim in dims if dim.line.kind is not Kind.KEEP]
    unmapped = [(dim.line.n, dim.x, dim.y) for dim in dims if dim.line.kind is Kind.KEEP and dim.line.n != 1]
    if len(mapped) > 3:
        return None
    channels = None
    fastest = [dim for dim in unmapped if dim[2] == 1]
    if fastest and not any(dim.y == 1 for dim in mapped if (dim.line.n if backward else dim.line.out) > 1):
        # Those side by side in the output; with them what follows on in both.
        channels = fastest[0]
        unmapped.remove(channels)
        rest = sorted(unmapped, key=lambda dim: dim[2])
        for dim in rest:
            size, x, y = channels
            if dim[1] == x * size and dim[2] == y * size:
                channels = (size * dim[0], x, y)
                unmapped.remove(dim)
    sizes = [dim[0] for dim in unmapped]
    merged = coalesced(sizes, [[dim[2] for dim in unmapped], [dim[1] for dim in unmapped]])
    if len(merged.sizes) > 2:
        return None
    outer = [(n, x, y) for n, y, x in zip(merged.sizes, *merged.strides, strict=True)][::-1]
    outer = [(1, 0, 0)] * (2 - len(outer)) + outer
    missing = 3 - len(mapped)
    return Plan(tuple(outer), (Mapped(IDENTITY, 0, 0),) * missing + tuple(mapped), channels)


def dims_of(source: TensorSpec, result: TensorSpec, maps: Sequence[LineMap]) -> list[Mapped]:
    """Return all dimensions of a tensor; `maps` are those of its last ones."""
    lead = source.ndim - len(maps)
    lines = [LineMap(Kind.KEEP, n, n) for n in source.sizes[:lead]] + list(maps)
    return [Mapped(*dim) for dim in zip(lines, source.strides, result.strides, strict=True)]


def launching(
    call: StructuredCall,
    source: TensorSpec,
    result: TensorSpec,
    plan: Plan,
    backward: bool,
    value: str | None,
) -> Callable[..., None]:
    """Return ``run(output address, input address, number)``; of both tensors the real parts' dtype counts.

    Args:
        value: the type of the number that stands in borders; None without one.
    """
    dtype = source.dtype
    lines = [dim.line for dim in plan.mapped]
    space = [line.n if backward else line.out for line in lines]
    width = plan.channels[0] if plan.channels else space[-1]
    n_lines = plan.outer[0][0] * plan.outer[1][0] * space[0] * space[1] * (space[2] if plan.channels else 1)
    moves = not backward and all(line.kind.moves for line in lines)
    block_l, block_c = tile_of(n_lines, width, dtype.itemsize, backward)
    column_blocks = cdiv(width, block_c)
    channel = plan.channels or (1, 0, 0)
    strides = {
        letter + dim: stride
        for letter, column in (("x", 1), ("y", 2))
        for dim, stride in (
            ("a", plan.outer[0][column]),
            ("b", plan.outer[1][column]),
            *((name, mapped_dim[column]) for name, mapped_dim in zip("dhw", plan.mapped, strict=True)),
            ("c", channel[column]),
        )
    }
    sizes = {
        "n_lines": n_lines,
        "columns": width,
        "column_blocks": column_blocks,
        "nb": plan.outer[1][0],
        **dict(zip("dhw", (line.n for line in lines), strict=True)),
        **dict(zip(("od", "oh", "ow"), (line.out for line in lines), strict=True)),
    }
    real = "fp64" if dtype.triton_name == "fp64" else "fp32"
    pads = {f"p{name}": line.pad for name, line in zip("dhw", lines, strict=True)}
    scales = {f"s{name}": float(line.scale) for name, line in zip("dhw", lines, strict=True)}
    taps = {f"k{name}": line.taps for name, line in zip("dhw", lines, strict=True)}
    outer = [plan.outer[0][0], plan.outer[1][0]]
    space_of_both = [*outer, *(max(line.n, line.out) for line in lines), channel[0]]
    steps = list(strides.values())
    reach = [
        sum((n + 2) * abs(step) for n, step in zip(space_of_both, own, strict=True))
        for own in (steps[:6], steps[6:])
    ]
    extent = max(4 * (line.n + line.out + abs(line.pad)) for line in lines)
    kind = integer_type(*reach, extent, (n_lines + block_l) * 2, 2 * (width + block_c))
    runtime: dict[str, float] = {**sizes, **strides, **pads, **taps}
    fixed = {
        name: value
        for name, value in runtime.items()
        if (name in strides or name == "nb") and value in (0, 1)
    }
    # The number of taps depends on the scale only if the map is antialiased.
    fixed |= {
        f"k{name}": line.taps for name, line in zip("dhw", lines, strict=True) if not line.kind.is_antialiased
    }
    for name, line in zip("dhw", lines, strict=True):
        if line.kind is Kind.KEEP and line.n == 1:
            fixed |= {name: 1, f"o{name}": 1}
        if line.kind not in (Kind.CONSTANT, Kind.REFLECT, Kind.REPLICATE):
            fixed[f"p{name}"] = 0
    integers = {name: value for name, value in runtime.items() if name not in fixed}
    kernel = map_lines_backward if backward else map_lines
    types = {
        ("g" if backward else "x"): f"*{dtype.triton_name}",
        "out": f"*{dtype.triton_name}",
        **dict.fromkeys(integers, kind),
        **dict.fromkeys(scales, real),
    }
    if value is not None:
        types["value"] = value
    constants: dict[str, object] = {
        **fixed,
        **{f"KIND_{name}": int(line.kind) for name, line in zip("DHW", lines, strict=True)},
        "ALIGN": any(line.align_corners for line in lines),
        "TYPE": tl.float32 if dtype.name == "uint8" and not moves else compute_type(dtype),
        "INDEX": tl.int32 if kind == "i32" else tl.int64,
        "LAST": plan.channels is not None,
        "BLOCK_L": block_l,
        "BLOCK_C": block_c,
    }
    if backward:
        constants["K"] = max(line.taps for line in lines if not line.kind.is_antialiased)
    else:
        constants["MOVES"] = moves
        if value is None:
            constants["value"] = 0
    order = [name for name in kernel.arg_names if name in types]
    launch = Launch(
        call.device,
        kernel,
        {name: types[name] for name in order},
        constants,
        divisible=[name for name, number in integers.items() if number % ALIGNMENT == 0],
    )
    grid = (cdiv(n_lines, block_l) * column_blocks, 1, 1)
    numbers = tuple({**integers, **scales}[name] for name in order if name in integers or name in scales)

    def run(out: int, x: int, *number: Any) -> None:
        launch(grid, x, out, *number, *numbers)

    return run


def tile_of(n_lines: int, width: int, itemsize: int, backward: bool) -> tuple[int, int]:
    """Return lines and columns of a program: 16 bytes of the output for a lane; backwards no more than 4 elements."""
    elements = 128 * min(ALIGNMENT // itemsize, 4 if backward else 8)
    if interpreted():
        elements = INTERPRETED_ELEMENTS
    columns = min(next_power_of_2(width), COLUMNS, elements)
    return min(next_power_of_2(n_lines), elements // columns), columns


def by_parts(spec: TensorSpec) -> tuple[TensorSpec, tuple[int, ...]]:
    """Return the spec of one part of a tensor's elements, and the parts' byte offsets."""
    if not spec.dtype.is_complex:
        return spec, (0,)
    real = spec.dtype.to_real()
    part = spec.replace(dtype=real, strides=tuple(2 * stride for stride in spec.strides))
    return part, (0, real.itemsize)


def mapped(
    call: StructuredCall,
    source: TensorSpec,
    result: TensorSpec,
    maps: tuple[LineMap, ...],
    backward: bool = False,
    value: str | None = None,
) -> Callable[..., None]:
    """``run(output, input, numbers)`` over data: one pass or, with more dimensions than programs have, several."""
    source_part, offsets = by_parts(source)
    result_part, _ = by_parts(result)
    check_dtypes(call, [source_part])
    plan = plan_of(dims_of(source_part, result_part, maps), backward)
    if plan is not None:
        chosen("one pass", "the programs of a launch have a dimension for each that is mapped, {}", len(maps))
        run = launching(call, source_part, result_part, plan, backward, value)

        def one_pass(out: Any, x: Any, *numbers: Any) -> None:
            for i, offset in enumerate(offsets):
                run(out.address + offset, x.address + offset, *numbers[i : i + 1])

        return one_pass
    chosen("several passes", "{} dimensions are mapped, more than a launch has", len(maps))
    if not source.is_contiguous:
        flat, copied = contiguous_copy(source)
        inner = mapped(call, flat, result, maps, backward, value)
        return lambda out, x, *numbers: inner(out, copied(x), *numbers)
    return in_passes(call, source, result, maps, value)


def in_passes(
    call: StructuredCall, source: TensorSpec, result: TensorSpec, maps: tuple[LineMap, ...], value: str | None
) -> Callable[..., None]:
    """Map the last mapped dimension to a buffer first, then the others."""
    last = max(i for i, line in enumerate(maps) if line.kind is not Kind.KEEP)
    first = tuple(line if i == last else LineMap(Kind.KEEP, line.n, line.n) for i, line in enumerate(maps))
    rest = tuple(LineMap(Kind.KEEP, line.out, line.out) if i == last else line for i, line in enumerate(maps))
    lead = source.ndim - len(maps)
    between = TensorSpec.contiguous(
        (*source.sizes[:lead], *(line.out for line in first)), source.dtype, source.device
    )
    inner = mapped(call, source, between, first, value=value)
    outer = mapped(call, between, result, rest, value=value)
    allocate = get_allocator("cuda").allocate

    def run(out: Any, x: Any, *numbers: Any) -> None:
        buffer = allocate(between.nbytes, between.device)
        inner(buffer, x, *numbers)
        outer(out, buffer, *numbers)

    return run


def check_dtype(call: StructuredCall, spec: TensorSpec) -> None:
    """Refuse dtypes that PyTorch's kernels have not."""
    kind, dtype = call.extra["maps"][0].kind, spec.dtype
    if kind in (Kind.REFLECT, Kind.REPLICATE):
        known = dtype.is_floating_point or dtype.is_complex
        known = known or ("self" in call.args and "grad_output" not in call.args and dtype.name != "bool")
    else:
        moves = kind.moves
        known = dtype.is_floating_point or (dtype.name == "uint8" and moves)
    if not known:
        raise call.refuse(spec)


def forward(call: StructuredCall) -> PlannedKernel:
    """Compute each result from its taps."""
    spec, out = call.args["self"], call.outputs[0]
    check_dtype(call, spec)
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    return PlannedKernel(by_factors(call, lambda maps: mapped(call, spec, out, maps)))


def backward(call: StructuredCall) -> PlannedKernel:
    """Sum for each element the gradients of the results that read it, in order."""
    spec, out = call.args["grad_output"], call.outputs[0]
    check_dtype(call, spec)
    if out.numel == 0:
        return PlannedKernel(launch_nothing)

    def make(maps: tuple[LineMap, ...]) -> Kernel:
        run = mapped(call, spec, out, maps, backward=True)
        return lambda out_data, grad, *_: run(out_data, grad)

    into = by_factors(call, make)
    if "self" in call.args:
        return PlannedKernel(lambda out_data, grad, _: into(out_data, grad))
    return PlannedKernel(into)


def constant_pad(call: StructuredCall) -> PlannedKernel:
    """Pad the elements with a number."""
    spec, out = call.args["self"], call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    maps: tuple[LineMap, ...] = call.extra["maps"]
    real = spec.dtype.to_real() if spec.dtype.is_complex else spec.dtype
    is_float = real.is_floating_point
    pads = any(line.kind is Kind.CONSTANT for line in maps)
    run = mapped(call, spec, out, maps, value=("fp64" if is_float else "i64") if pads else None)
    fixed = call.args["value"]
    has_value = "value" in call.runtime

    def into(out_data: Any, x: Any, *values: Any) -> None:
        value = values[0] if has_value else fixed
        if spec.dtype.is_complex:
            value = complex(value)
            numbers: tuple[Any, ...] = (value.real, value.imag)
        else:
            element = element_of(value, spec.dtype)
            numbers = (float(value) if is_float else wrapped(element),)
        run(out_data, x, *(numbers if pads else ()))

    return PlannedKernel(into)


def wrapped(value: Any) -> int:
    """Return a number as int64, in two's complement."""
    number = int(value)
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


NAMES = (
    *(f"{kind}_pad{rank}d" for kind in ("reflection", "replication") for rank in (1, 2, 3)),
    *(f"{kind}{rank}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for rank in (1, 2, 3)),
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_trilinear3d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)

register_stub("constant_pad_nd_stub", "cuda", constant_pad)
for _name in NAMES:
    register_stub(f"{_name}_stub", "cuda", forward)
    register_stub(f"{_name}_backward_stub", "cuda", backward)
