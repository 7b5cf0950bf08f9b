"""Scans of pairs: an element and its index, or the two parts of a complex number.

Few long lines are split as those of `scan.py` are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.allocator import get_allocator
from ...runtime.cuda.triton.lazy_triton import tl
from ..conversion import type_name
from ..geometry import Geometry
from ..launch import interpreted
from .scan_kernels import pair_scan
from .sides import Sides, Tile, gapless_strides, plan_sides, tile_for

INTERPRETED_TILE = 128
"""Elements of a line: the interpreter combines one element after another."""

Run = Callable[[Sequence[int], Sequence[int]], None]
"""Launches from the addresses of the inputs, of which there are one or two, to those of both results."""


@dataclass(frozen=True)
class PairScan:
    """A scan whose accumulator is a pair.

    Args:
        combine, across, along: a `@triton.jit` function of two pairs, its reduction and its scan over axis 1.
        start: the first of the pair of nothing, whose other is 0.
        type_, type_of_other: in which pairs are combined.
    """

    combine: Any
    across: Any
    along: Any
    start: int | float
    type_: tl.dtype
    type_of_other: tl.dtype

    def constants(self) -> dict[str, object]:
        """Return the kernel's constexprs."""
        return {
            "COMBINE": self.combine,
            "ACROSS": self.across,
            "ALONG": self.along,
            "START": self.start,
            "TYPE": self.type_,
            "TYPE_OF_OTHER": self.type_of_other,
        }


def line_tile(num_rows: int, n: int, inner: bool, may_split: bool, nbytes: int) -> Tile:
    """Return tiles with half as many elements of `nbytes` as sums have, since each element is a pair."""
    tile = tile_for(num_rows, n, inner, may_split, itemsize=2 * nbytes)
    if not interpreted() or tile.reduced <= INTERPRETED_TILE:
        return tile
    chunk = -(-n // tile.splits // INTERPRETED_TILE) * INTERPRETED_TILE
    return Tile(min(tile.outputs, 64), INTERPRETED_TILE, -(-n // chunk), chunk, tile.warps)


def plan_pair_scan(
    call: StructuredCall, row: PairScan, sides: Sides, inputs: Sequence[str], results: Sequence[str]
) -> Run:
    """Return one launch, or three over parts of each line.

    Args:
        sides: the lines and the positions in them, over the input's strides and the results'.
        inputs, results: the types of their elements.
    """
    num_rows, kept_side, nbytes = sides.num_rows, sides.kept, row.type_.primitive_bitwidth // 8
    tile = line_tile(num_rows, sides.n, sides.reduced_is_inner, True, nbytes)
    carries = [f"*{type_name(row.type_)}", f"*{type_name(row.type_of_other)}"]

    def planned(
        sides: Sides, tile: Tile, sources: Sequence[str], out: Sequence[str], totals: bool, carried: bool
    ) -> Any:
        constants = {**row.constants(), "TOTALS": totals, "SINGLE": tile.chunk <= tile.reduced}
        pointers = dict(zip(("x", "y"), sources, strict=False)) | dict(zip(("out", "also"), out, strict=True))
        if "y" not in pointers:
            constants["y"] = None
        if carried:
            pointers |= {"carry": carries[0], "also_carried": carries[1], "splits": "i64"}
        else:
            constants |= {"carry": None, "also_carried": None, "splits": 1}
        return plan_sides(
            call,
            pair_scan,
            sides,
            pointers,
            constants,
            tile,
            kept_names=("x_kept_stride", "out_kept_stride"),
            reduced_names=("x_reduced_stride", "out_reduced_stride"),
        )

    if tile.splits == 1:
        launch, grid, numbers = planned(sides, tile, inputs, results, False, False)
        return lambda ins, outs: launch(grid, *ins, *outs, *numbers)
    splits = tile.splits
    parts = gapless_strides(kept_side.sizes, splits)
    totals, totals_grid, totals_numbers = planned(
        Sides(Geometry(kept_side.sizes, (kept_side.strides[0], parts)), sides.reduced),
        tile,
        inputs,
        carries,
        True,
        False,
    )
    prefixes, prefixes_grid, prefixes_numbers = planned(
        Sides(Geometry(kept_side.sizes, (parts, parts)), Geometry((splits,), ((1,), (1,)))),
        line_tile(num_rows, splits, True, False, nbytes),
        carries,
        carries,
        False,
        False,
    )
    within, within_grid, within_numbers = planned(sides, tile, inputs, results, False, True)
    allocate = get_allocator("cuda").allocate
    sizes = [
        num_rows * splits * part_type.primitive_bitwidth // 8 for part_type in (row.type_, row.type_of_other)
    ]
    device = call.device

    def run(ins: Sequence[int], outs: Sequence[int]) -> None:
        buffers = [allocate(size, device) for size in sizes]
        both = [buffer.address for buffer in buffers]
        totals(totals_grid, *ins, *both, *totals_numbers)
        prefixes(prefixes_grid, *both, *both, *prefixes_numbers)
        within(within_grid, *ins, *outs, *both, splits, *within_numbers)

    return run
