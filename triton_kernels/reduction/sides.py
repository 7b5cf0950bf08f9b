"""Kernels over [outer, reduced] tiles: the two sides' geometry, the tile of a program, and the launch.

A side has up to four coalesced dimensions of any stride. Tensors with more dimensions go through contiguous
copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_kernel import LazyKernel
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..elementwise.copy import copy_kernel
from ..geometry import Geometry, coalesced
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, next_power_of_2
from ..tuning.choice import configuration

MAX_DIMS = 4
TILE_BYTES = 16384
"""Bytes of a row: each lane of 8 warps loads 64 bytes at a time, in four independent accesses."""
MAX_ELEMENTS = 8192
"""Elements of a tile: 32 accumulators for each lane."""
INTERPRETED_TILE, INTERPRETED_REDUCED = 1 << 16, 4096
WARPS = 32
"""Warps of a multiprocessor, each with 64 bytes in flight for each lane, when parts are to fill the device."""
MAX_PARTS = 65535
"""CUDA's grids have no more programs in their second dimension."""
MAX_TILES = 64
"""Tiles of a part, which is the number of values that one lane adds sequentially. Longer lines are split, so that
the error of sums grows with the logarithm of their length.
"""


WARP_SIZE = 32
"""Threads of a warp."""

Ask = Callable[[tuple[int, ...], Configuration], Configuration]
"""The configuration for (outputs, reduced elements, whether those are the inner ones), given the default."""


@dataclass(frozen=True)
class Tile:
    """Outputs and reduced elements of a program, and the number of parts that share the reduced side.

    `ctas` blocks of `warps` each are a program's cluster.
    """

    outputs: int
    reduced: int
    splits: int
    chunk: int
    warps: int
    ctas: int = 1

    @property
    def parts(self) -> int:
        """Parts of each line that the last program reads at a time: 16 elements for a lane, or fewer."""
        return min(
            next_power_of_2(self.splits), self.reduced, max(16 * WARP_SIZE * self.warps // self.outputs, 1)
        )


def asking(kernel: LazyKernel, call: StructuredCall, dtype: ScalarType) -> Ask:
    """Return the lookup of a kernel's tuned configuration for this dtype, in the form that `tile_for` calls."""
    name = dtype.triton_name or ""
    return lambda shape, default: configuration(kernel, call.device, name, shape, default)


def tile_for(
    num_rows: int,
    n: int,
    reduced_is_inner: bool,
    may_split: bool,
    words: int = 1,
    itemsize: int = 4,
    grows: bool = True,
    ask: Ask | None = None,
) -> Tile:
    """Return tiles that read along the contiguous side, and enough programs to fill the device.

    `words` says how many 64-bit words of accumulators an element has: tiles are the smaller. `itemsize` is the
    input's: each lane is to have 64 bytes in flight. `grows` says that the error does with the number of a part's
    tiles, so that long lines are split for its sake. `ask` has the last word on a device, see `asking`.
    """
    max_outputs, max_reduced = next_power_of_2(num_rows), next_power_of_2(n)
    if interpreted():
        reduced = min(max_reduced, INTERPRETED_REDUCED)
        outputs = min(max_outputs, INTERPRETED_TILE // reduced)
        target, warps, longest = 4, 4, n
    else:
        size = min(TILE_BYTES // max(itemsize, 2), MAX_ELEMENTS // next_power_of_2(words))
        if itemsize == 1:
            size = min(size, 4096)
        processors = driver().properties(driver().current_device()).multi_processor_count
        if reduced_is_inner:
            reduced = min(max_reduced, size)
            # Very short lines are read one element at a time, each by an address of its own.
            max_elements = size // 2 if max_reduced * itemsize >= 64 else 1024
            outputs = min(max_outputs, max(1, max_elements // reduced))
        else:
            reduced = min(max_reduced, 32)
            outputs = min(max_outputs, max(1, size // 2 // reduced))
        while outputs > 1 and cdiv(num_rows, outputs) < processors and outputs * reduced > 512:
            # Few programs: rather more of them with less each, as long as nothing can be split.
            if n > 4 * reduced or (not reduced_is_inner and outputs <= 64):
                break
            outputs //= 2
        warps = 8 if outputs * reduced > size // 2 else 4
        if ask is not None:
            default = Configuration((outputs, reduced), warps)
            chosen = ask((num_rows, n, int(reduced_is_inner)), default)
            own, along = min(max_outputs, chosen.tile[0]), min(max_reduced, chosen.tile[1])
            # Tiles of one output are for lines that are read along, those of several for all other lines.
            if own * along >= WARP_SIZE * chosen.warps and (own == 1) == (outputs == 1):
                outputs, reduced, warps = own, along, chosen.warps
        target = processors * WARPS // warps
        longest = MAX_TILES * reduced
    programs = cdiv(num_rows, outputs)
    splits = 1
    if may_split:
        if programs * 2 <= target:
            splits = max(1, min(cdiv(n, 4 * reduced), target // programs))
        if grows or splits > 1:
            splits = min(max(splits, cdiv(n, longest)), MAX_PARTS) if n else 1
    chunk = cdiv(cdiv(n, splits), reduced) * reduced if n else reduced
    splits = max(1, cdiv(n, chunk))
    return Tile(outputs, reduced, splits, chunk, warps)


@dataclass(frozen=True)
class Sides:
    """The geometry of a reduction: outputs over both tensors' strides, reduced elements over the input's."""

    kept: Geometry
    reduced: Geometry

    @property
    def num_rows(self) -> int:
        return math.prod(self.kept.sizes)

    @property
    def n(self) -> int:
        return math.prod(self.reduced.sizes)

    @property
    def reduced_is_inner(self) -> bool:
        """True if the smallest stride of the input is among the reduced dimensions."""
        inner, outer = self.reduced.strides[0][:1], self.kept.strides[0][:1]
        return not outer or (bool(inner) and inner[0] <= outer[0])

    def fits(self) -> bool:
        """Return True if both sides fit the skeleton's parameters."""
        return len(self.kept.sizes) <= MAX_DIMS and len(self.reduced.sizes) <= MAX_DIMS


def sides_of(spec: TensorSpec, out: TensorSpec, dims: Sequence[int], keep_order: bool) -> Sides:
    """Return the two sides; `out` has the reduced dimensions as size 1 or not at all."""
    kept_dims = [i for i in range(spec.ndim) if i not in dims]
    if out.ndim == spec.ndim:
        out_strides = [out.strides[i] for i in kept_dims]
    else:
        out_strides = list(out.strides)
    kept_side = coalesced(
        [spec.sizes[i] for i in kept_dims], [[spec.strides[i] for i in kept_dims], out_strides]
    )
    sizes = [spec.sizes[i] for i in dims]
    if 0 in sizes:
        return Sides(kept_side, Geometry((0,), ((1,),)))
    return Sides(kept_side, coalesced(sizes, [[spec.strides[i] for i in dims]], keep_order))


def line_sides(specs: Sequence[TensorSpec], dim: int) -> Sides:
    """Return the lines of equally sized tensors along a dimension, and the positions in a line."""
    sizes = specs[0].sizes or (1,)
    strides = [spec.strides or (1,) for spec in specs]
    kept_dims = [i for i in range(len(sizes)) if i != dim]
    kept_side = coalesced([sizes[i] for i in kept_dims], [[own[i] for i in kept_dims] for own in strides])
    return Sides(kept_side, coalesced([sizes[dim]], [[own[dim]] for own in strides]))


def pairs_of(spec: TensorSpec) -> TensorSpec:
    """Return a complex tensor as real numbers, with a last dimension of size two."""
    real = spec.dtype.to_real()
    return spec.replace(
        sizes=(*(spec.sizes or (1,)), 2), strides=(*(2 * s for s in spec.strides or (1,)), 1), dtype=real
    )


def doubled(side: Geometry, which: Sequence[bool]) -> Geometry:
    """Return a side whose strides count real numbers for the complex operands."""
    strides = tuple(
        tuple(s * (2 if complex_ else 1) for s in own)
        for own, complex_ in zip(side.strides, which, strict=True)
    )
    return Geometry(side.sizes, strides)


def dimension_arguments(
    prefix: str, sizes: Sequence[int], strides: dict[str, Sequence[int]], kind: str
) -> tuple[dict[str, str], dict[str, object], dict[str, int]]:
    """Signature, constants and values of one side's sizes and strides; strides of 0 and 1 are constants."""
    signature: dict[str, str] = {}
    constants: dict[str, object] = {}
    values: dict[str, int] = {}
    every: dict[str, int | None] = {
        f"{prefix}{i}": sizes[i] if i < len(sizes) - 1 else None for i in range(MAX_DIMS - 1)
    }
    for name, own in strides.items():
        every |= {f"{name}{i}": own[i] if i < len(sizes) else None for i in range(MAX_DIMS)}
    for name, value in every.items():
        if value is None or (value in (0, 1) and not name.startswith(prefix)):
            constants[name] = value or 0
        else:
            signature[name] = kind
            values[name] = value
    return signature, constants, values


def plan_sides(
    call: StructuredCall,
    kernel: Any,
    sides: Sides,
    pointers: dict[str, str],
    constexprs: dict[str, object],
    tile: Tile,
    part_stride: int = 0,
    kept_names: Sequence[str] = ("x_kept_stride", "out_kept_stride"),
    reduced_names: Sequence[str] = ("x_reduced_stride",),
) -> tuple[Launch, tuple[int, int, int], tuple[int, ...]]:
    """Return one launch whose arguments are those of `pointers`, then the returned numbers.

    `kept_names` and `reduced_names` are the kernel's parameters for the strides of each operand over a side.
    """
    num_rows, n = sides.num_rows, sides.n
    kind = integer_type(
        sides.kept.extent() + sides.reduced.extent(),
        n + tile.chunk,
        num_rows + tile.outputs + tile.splits * part_stride,
    )
    signature = {**pointers, "num_rows": kind, "n": kind, "count": "i64", "chunk": kind}
    values = {"num_rows": num_rows, "n": n, "count": n, "chunk": tile.chunk}
    constants = dict(constexprs)
    if part_stride in (0, 1):
        constants["part_stride"] = part_stride
    else:
        signature["part_stride"], values["part_stride"] = kind, part_stride
    for prefix, side, names in (
        ("kept_size", sides.kept, kept_names),
        ("reduced_size", sides.reduced, reduced_names),
    ):
        strides = dict(zip(names, side.strides, strict=True))
        types, fixed, side_values = dimension_arguments(prefix, side.sizes, strides, kind)
        signature |= types
        constants |= fixed
        values |= side_values
    constants |= {
        "KEPT": len(sides.kept.sizes),
        "REDUCED": len(sides.reduced.sizes),
        "INDEX": tl.int32 if kind == "i32" else tl.int64,
        "BLOCK_O": tile.outputs,
        "BLOCK_R": tile.reduced,
    }
    order = [name for name in kernel.arg_names if name in signature]
    launch = Launch(
        call.device,
        kernel,
        {name: signature[name] for name in order},
        {name: value for name, value in constants.items() if name in kernel.arg_names},
        # Without these the bound of a row, or its start, may lie within a vector, and accesses are scalar.
        divisible=[
            name
            for name, value in values.items()
            if name in order and name != "count" and value % ALIGNMENT == 0
        ],
        num_warps=tile.warps,
        num_ctas=tile.ctas,
    )
    numbers = tuple(values[name] for name in order if name in values)
    return launch, (cdiv(num_rows, tile.outputs), tile.splits, 1), numbers


def gapless_strides(sizes: Sequence[int], step: int) -> tuple[int, ...]:
    """Return strides of a gapless array whose first dimension is the inner one, each element `step` wide."""
    strides = []
    for size in sizes:
        strides.append(step)
        step *= size
    return tuple(strides)


def through_contiguous(
    call: StructuredCall, factory: Callable[[StructuredCall], PlannedKernel], dims: Sequence[int]
) -> PlannedKernel:
    """`factory`'s kernel over a contiguous copy of ``self`` with `dims` last, and over contiguous outputs.

    For inputs whose dimensions do not coalesce to as few as the kernels have, and for outputs of different
    strides.
    """
    spec: TensorSpec = call.args["self"]
    kept_dims = [i for i in range(spec.ndim) if i not in dims]
    order = [*kept_dims, *dims]
    permuted = spec.replace(
        sizes=tuple(spec.sizes[i] for i in order), strides=tuple(spec.strides[i] for i in order)
    )
    flat = TensorSpec.contiguous(permuted.sizes, spec.dtype, spec.device)
    gather = None if permuted.is_contiguous else copy_kernel(flat, permuted)
    results = [TensorSpec.contiguous(out.sizes, out.dtype, out.device) for out in call.outputs]
    scatters = [
        None if out.is_contiguous else copy_kernel(out, result)
        for out, result in zip(call.outputs, results, strict=True)
    ]
    sizes = permuted.sizes[: len(kept_dims)]
    inner = factory(
        call._replace(
            args={**call.args, "self": flat},
            outputs=tuple(TensorSpec.contiguous(sizes, out.dtype, out.device) for out in call.outputs),
            extra={**call.extra, "dims": tuple(range(len(kept_dims), spec.ndim))},
        )
    ).into
    allocate = get_allocator("cuda").allocate

    def into(*arguments: Any) -> None:
        outs, x, rest = arguments[: len(results)], arguments[len(results)], arguments[len(results) + 1 :]
        if gather is not None:
            buffer = allocate(flat.nbytes, flat.device)
            gather(buffer, x)
            x = buffer
        targets = [
            out if scatter is None else allocate(result.nbytes, result.device)
            for out, scatter, result in zip(outs, scatters, results, strict=True)
        ]
        inner(*targets, x, *rest)
        for out, scatter, target in zip(outs, scatters, targets, strict=True):
            if scatter is not None:
                scatter(out, target)

    return PlannedKernel(into)
