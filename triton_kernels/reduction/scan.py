"""Prefix scans along one dimension, a table row for each: sums, products, sums of exponentials.

A program has whole lines. A few long lines are split: the total of each part first, then the scan of the
totals, and last the scan within each part. The order depends on sizes, strides and the device only.

Sums of float32 and 16-bit floats accumulate in float32. A tile's prefixes are a tree of its lanes. An element
goes through at most 23 roundings (at most 7 along the elements of a lane, 5 among the lanes, 7 among the
warps, 3 among the lanes' vectors, 1 with the carry). A program's carry between tiles is two floats, and
between parts a float64, which add 2 more, however long the line: |error| <= 25 * 2**-24 * (|x[0]| + ... +
|x[i]|). PyTorch's own sums are plain float32.

Products have no such order: prefix i has rounded i times in every order. They are multiplied in float64,
whose range also keeps a product of the later factors finite if an earlier one is zero. That is one
instruction and one 64-bit shuffle for each, while two floats would take four instructions and the same shuffle.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...dispatch.structured import choices
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.scalar_type import bool_
from ...runtime.scalar_type import dtype as ScalarType
from ..contiguous import through_contiguous_operands
from ..conversion import compute_type, type_name
from ..elementwise.elementwise import check_dtypes
from ..geometry import Geometry
from ..launch import launch_nothing
from .joint_reduction import JointReduction, one_pass, pairs_starting
from .joint_reduction_kernels import add_rounded, as_one, multiply_pairs, rounded_across, unrounded
from .pair_scan import PairScan, plan_pair_scan
from .reduction import UNSPLIT
from .reduction_kernels import identity, product, product_across, reduce, result_of, sum_across, sum_of
from .scan_kernels import (
    add_exponents,
    exponents_across,
    exponents_along,
    prefix_scan,
    products_along,
    products_of_pairs_across,
    products_of_pairs_along,
    sums_along,
)
from .sides import Sides, Tile, asking, doubled, gapless_strides, line_sides, pairs_of, plan_sides, tile_for


@dataclass(frozen=True)
class Scan:
    """A scan with one accumulator.

    Args:
        combine, across, along: a `@triton.jit` function of two accumulators, its reduction and its scan over axis 1.
        start: the accumulator of nothing.
        accumulate: the accumulator's type, from the output's dtype.
        takes_integers: If True, the scan also takes integers.
        weights: by how much tiles of four bytes, and of eight, are smaller than those of sums, for the registers
            that combining takes.
        is_sum: If True, the carry is added with its rounding error (compensated).
    """

    combine: Any
    across: Any
    along: Any
    start: float
    accumulate: Callable[[ScalarType], tl.dtype]
    takes_integers: bool = True
    weights: tuple[int, int] = (1, 1)
    is_sum: bool = False

    def itemsize(self, nbytes: int) -> int:
        """Return the element size that sets the tile; 16-bit floats count as float32."""
        return max(nbytes, 4) * self.weights[nbytes == 8]

    def grows(self, type_: tl.dtype) -> bool:
        """Return True if the error grows with the number of tiles that a program scans."""
        return type_.is_floating() and not self.is_sum


def sum_type(output: ScalarType) -> tl.dtype:
    """Return the accumulator type: int64 for integers, float32 for 16-bit floats."""
    return compute_type(output) if output.is_floating_point else tl.int64


def wide_type(output: ScalarType) -> tl.dtype:
    """Integers in int64; floats in float64, so that the error does not grow along a line of float32."""
    return tl.float64 if output.is_floating_point else tl.int64


def carry_type(row: Scan, type_: tl.dtype) -> tl.dtype:
    """Return the type of carries between parts: float64 for float32 sums, as wide as a program's two floats."""
    return tl.float64 if row.is_sum and type_ == tl.float32 else type_


SCANS: dict[str, Scan] = {
    "cumsum_stub": Scan(sum_of, sum_across, sums_along, 0, sum_type, is_sum=True),
    "cumprod_stub": Scan(product, product_across, products_along, 1, wide_type),
    "logcumsumexp_stub": Scan(
        add_exponents, exponents_across, exponents_along, -math.inf, compute_type, False, (2, 4)
    ),
}


def scan(row: Scan) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a scan along ``call.extra["dim"]``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out = call.args["self"], call.outputs[0]
        check_dtypes(call, [spec, out])
        if not (row.takes_integers or spec.dtype.is_floating_point):
            raise call.refuse(spec)
        if out.dtype is bool_:
            raise call.refuse(out)
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        sides = line_sides([spec, out], call.extra["dim"])
        if not sides.fits():
            return through_contiguous_operands(call, factory, ("self",))
        type_ = row.accumulate(out.dtype)
        pointers = {"x": f"*{spec.dtype.triton_name}", "out": f"*{out.dtype.triton_name}"}
        itemsize = row.itemsize(spec.dtype.itemsize)
        tile = tile_for(
            sides.num_rows,
            sides.n,
            sides.reduced_is_inner,
            True,
            itemsize=itemsize,
            grows=row.grows(type_),
            # The other declared tiles are for sums, and exceed the registers of other functions.
            ask=asking(prefix_scan, call, spec.dtype) if row.is_sum else None,
        )
        if tile.splits == 1:
            choices.chosen("one launch", "{} lines of {} leave nothing to split", sides.num_rows, sides.n)
            launch, grid, numbers = plan_scan(call, row, sides, tile, pointers, type_)
            return PlannedKernel(lambda out_data, x, *_: launch(grid, x.address, out_data.address, *numbers))
        why = "{} lines of {} are too few programs, or too long sums"
        choices.chosen(f"{tile.splits} parts of each line, with carries", why, sides.num_rows, sides.n)
        return split_scan(call, row, sides, tile, pointers, type_)

    return factory


def plan_scan(
    call: StructuredCall,
    row: Scan,
    sides: Sides,
    tile: Tile,
    pointers: dict[str, str],
    type_: tl.dtype,
    carried: bool = False,
) -> Any:
    """Return the launch of `prefix_scan`; `carried` adds each part's carry and the number of parts."""
    constexprs: dict[str, object] = {
        "COMBINE": row.combine,
        "ACROSS": row.across,
        "ALONG": row.along,
        "START": row.start,
        "ACCUMULATOR": type_,
        "SINGLE": tile.chunk <= tile.reduced,
        "COMPENSATED": row.is_sum and type_.is_floating(),
    }
    if carried:
        pointers = {**pointers, "carry": f"*{type_name(carry_type(row, type_))}", "splits": "i64"}
    else:
        constexprs |= {"carry": None, "splits": 1}
    return plan_sides(
        call,
        prefix_scan,
        sides,
        pointers,
        constexprs,
        tile,
        kept_names=("x_kept_stride", "out_kept_stride"),
        reduced_names=("x_reduced_stride", "out_reduced_stride"),
    )


def split_scan(
    call: StructuredCall, row: Scan, sides: Sides, tile: Tile, pointers: dict[str, str], type_: tl.dtype
) -> PlannedKernel:
    """Return three launches over parts of each line: totals, their prefixes, and the scan within parts."""
    num_rows, splits = sides.num_rows, tile.splits
    carried = carry_type(row, type_)
    name = f"*{type_name(carried)}"
    kept_side = sides.kept
    parts = gapless_strides(kept_side.sizes, splits)
    totals = plan_totals(call, row, sides, parts, tile, pointers["x"], type_)
    prefixes, prefixes_grid, prefixes_numbers = plan_scan(
        call,
        row,
        Sides(Geometry(kept_side.sizes, (parts, parts)), Geometry((splits,), ((1,), (1,)))),
        tile_for(num_rows, splits, True, False, itemsize=row.itemsize(8)),
        {"x": name, "out": name},
        carried,
    )
    within, within_grid, within_numbers = plan_scan(call, row, sides, tile, pointers, type_, carried=True)
    allocate = get_allocator("cuda").allocate
    nbytes, device = num_rows * splits * carried.primitive_bitwidth // 8, call.device

    def into(out: Any, x: Any, *_: Any) -> None:
        carry = allocate(nbytes, device)
        totals(x.address, carry.address)
        prefixes(prefixes_grid, carry.address, carry.address, *prefixes_numbers)
        within(within_grid, x.address, out.address, carry.address, splits, *within_numbers)

    return PlannedKernel(into)


ROUNDED = JointReduction(add_rounded, rounded_across, unrounded, as_one, pairs_starting(0))
"""A sum in two floats: the rounded one, and what rounding left over."""


def plan_totals(
    call: StructuredCall,
    row: Scan,
    sides: Sides,
    parts: tuple[int, ...],
    tile: Tile,
    source: str,
    type_: tl.dtype,
) -> Callable[[int, int], None]:
    """Return the launch that computes each part's total, [lines, parts], from the addresses of input and totals."""
    partly = Sides(
        Geometry(sides.kept.sizes, (sides.kept.strides[0], parts)),
        Geometry(sides.reduced.sizes, sides.reduced.strides[:1]),
    )
    if row.is_sum and type_ == tl.float32:
        accumulators = (type_, 0), (type_, 0)
        run = one_pass(call, ROUNDED, partly, tile, accumulators, [source], ["*fp64"], part_stride=1)
        return lambda x, out: run([x], [out], 0.0)
    launch, grid, numbers = plan_sides(
        call,
        reduce,
        partly,
        {"x": source, "out": f"*{type_name(type_)}"},
        {
            "COMBINE": row.combine,
            "ACROSS": row.across,
            "LOAD": identity,
            "FINISH": result_of,
            "START": row.start,
            "ACCUMULATOR": type_,
            "VECTOR": 0,
            **UNSPLIT,
        },
        tile,
        1,
    )
    return lambda x, out: launch(grid, x, out, *numbers)


def cumsum(call: StructuredCall) -> PlannedKernel:
    """Compute prefix sums; complex numbers are summed part by part."""
    spec, out = call.args["self"], call.outputs[0]
    if spec.dtype.is_complex and out.dtype.is_complex:
        pairs = call._replace(args={**call.args, "self": pairs_of(spec)}, outputs=(pairs_of(out),))
        return sums(pairs)
    return sums(call)


def cumprod(call: StructuredCall) -> PlannedKernel:
    """Products of prefixes; those of complex numbers as pairs, in float64 as the others."""
    spec, out = call.args["self"], call.outputs[0]
    if not (spec.dtype.is_complex and out.dtype.is_complex):
        return products(call)
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    sides = line_sides([spec, out], call.extra["dim"])
    if not sides.fits():
        return through_contiguous_operands(call, cumprod, ("self",))
    pairs = Sides(*(doubled(side, (True, True)) for side in (sides.kept, sides.reduced)))
    types = [[f"*{operand.dtype.to_real().triton_name}"] * 2 for operand in (spec, out)]
    run = plan_pair_scan(call, PRODUCTS_OF_PAIRS, pairs, *types)
    half, half_out = spec.dtype.itemsize // 2, out.dtype.itemsize // 2
    return PlannedKernel(
        lambda out_data, x, *_: run(
            [x.address, x.address + half], [out_data.address, out_data.address + half_out]
        )
    )


PRODUCTS_OF_PAIRS = PairScan(
    multiply_pairs, products_of_pairs_across, products_of_pairs_along, 1, tl.float64, tl.float64
)
sums, products = scan(SCANS["cumsum_stub"]), scan(SCANS["cumprod_stub"])
register_stub("cumsum_stub", "cuda", cumsum)
register_stub("cumprod_stub", "cuda", cumprod)
