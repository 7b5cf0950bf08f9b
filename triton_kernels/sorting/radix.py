"""Launches of a stable radix sort of lines, all lines in one sequence: three launches for each digit of 8 bits."""

from __future__ import annotations

from collections.abc import Callable

from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_kernel import LazyKernel
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import int32, int64
from ..budget import Configuration
from ..indexing.index_bounds import allocate
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, next_power_of_2
from ..tuning.choice import configuration
from .ordered_keys import KeyFormat
from .radix_kernels import add_counts_up, count_digits, move_by_digit

DIGIT_BITS = 8
BUCKETS = 1 << DIGIT_BITS
BLOCK, WARPS = 2048, 8
INTERPRETED_BLOCK = 1 << 14
COLUMNS = 8
SCAN_BLOCK = 128
WAVES = 8
"""How many programs come after one another, so that the last ones end at nearly the same time."""


class Parts:
    """How lines are cut into parts, one for each program: a part is a multiple of a tile.

    Args:
        lines, n: how many lines there are, and how long each is.
        block: of a tile.
        resident: programs that a multiprocessor has at a time.
    """

    def __init__(self, lines: int, n: int, block: int, resident: int) -> None:
        most = cdiv(n, block)
        if interpreted():
            wanted = 2
        else:
            wanted = resident * driver().properties(driver().current_device()).multi_processor_count
        parts = min(max(wanted // max(lines, 1), 1), most)
        self.chunk = cdiv(most, parts) * block
        self.parts = cdiv(n, self.chunk)
        self.grid = (lines * self.parts, 1, 1)


def tile_of(n: int) -> int:
    """Elements of a tile over lines of this length."""
    if interpreted():
        return min(max(next_power_of_2(n), 16), INTERPRETED_BLOCK)
    return BLOCK


def chosen_tile(
    kernel: LazyKernel, device: Device, format_: KeyFormat, lines: int, n: int, block: int
) -> Configuration:
    """The tile and the warps of a kernel that reads lines: `block` and 8, if nothing else was measured."""
    default = Configuration((block,), WARPS)
    if interpreted():
        return default
    return configuration(kernel, device, format_.word, (lines, n), default)


def position_dtype(n: int) -> ScalarType:
    """The dtype of positions in a line and of counts: int32 where it holds the line's length."""
    return int32 if integer_type(n) == "i32" else int64


def plan_radix(
    device: Device,
    lines: int,
    n: int,
    format_: KeyFormat,
    place_dtype: ScalarType,
    *,
    descending: bool = False,
    decoded: bool = True,
    bits: int | None = None,
    label_dtype: ScalarType | None = None,
) -> Callable[..., None]:
    """The function ``(x, values, places[, labels])`` over bytes that sorts each of `lines` contiguous lines of `n`.

    Args:
        format_: what the bits of `x` mean.
        place_dtype: of the places that are written.
        decoded: whether elements are written as values, and not their keys.
        bits: how many of the lowest bits of keys differ at all; None for all.
        label_dtype: of `labels`, if they are given, which are written for places.
    """
    passes = max(cdiv(format_.bits if bits is None else bits, DIGIT_BITS), 1)
    block = tile_of(n)
    cut = Parts(lines, n, block, 2 * WAVES)
    kind = integer_type(lines * n + 2 * block, lines * cut.parts * BUCKETS)
    index = tl.int32 if kind == "i32" else tl.int64
    position = position_dtype(n)
    word, count_type = f"*{format_.word}", f"*{position.triton_name}"
    numbers = dict.fromkeys(("parts", "chunk", "n", "shift"), kind)
    divisible = [name for name, value in (("chunk", cut.chunk), ("n", n)) if value % ALIGNMENT == 0]
    common = {
        **format_.constants(),
        "DESCENDING": descending,
        "INDEX": index,
        "BUCKETS": BUCKETS,
        "BLOCK": block,
    }

    counted = chosen_tile(count_digits, device, format_, lines, n, block)

    def counting(encoded: bool) -> Launch:
        return Launch(
            device,
            count_digits,
            {"x": word, "counts": count_type, **numbers},
            {**common, "ENCODED": encoded, "BLOCK": counted.tile[0]},
            divisible=divisible,
            num_warps=counted.warps,
        )

    def moving(encoded: bool, last: bool) -> Launch:
        decodes = last and decoded
        signature = {"x": word}
        constants: dict[str, object] = {**common, "ENCODED": encoded, "DECODED": decodes}
        if encoded:
            signature["order"] = count_type
        else:
            constants["order"] = None
        if decodes and format_.infinity:
            signature["source"] = word
        else:
            constants["source"] = None
        if last and label_dtype is not None:
            signature["labels"] = f"*{label_dtype.triton_name}"
        else:
            constants["labels"] = None
        if cut.parts > 1:
            signature["counts"] = count_type
        else:
            constants["counts"] = None
        places = f"*{place_dtype.triton_name}" if last else count_type
        signature |= {"totals": count_type, "keys": word, "places": places, **numbers}
        return Launch(device, move_by_digit, signature, constants, divisible=divisible, num_warps=WARPS)

    add_up = None
    if cut.parts > 1:
        rows = min(next_power_of_2(cut.parts), SCAN_BLOCK)
        add_up = Launch(
            device,
            add_counts_up,
            {"counts": count_type, "totals": count_type, "parts": kind},
            {"BUCKETS": BUCKETS, "COLUMNS": COLUMNS, "BLOCK": max(rows, 2)},
        )
    counts_of, moves = (
        {False: counting(False)},
        [moving(i > 0, i == passes - 1) for i in range(min(passes, 2))],
    )
    if passes > 1:
        counts_of[True] = counting(True)
        moves = [moves[0], *[moving(True, False)] * (passes - 2), moving(True, True)]
    itemsize, key_bytes = position.itemsize, lines * n * format_.bits // 8
    total_bytes, order_bytes = lines * BUCKETS * itemsize, lines * n * itemsize
    scan_grid = (lines * (BUCKETS // COLUMNS), 1, 1)
    looks_up = decoded and format_.infinity

    def sort(x: DataPtr, values: DataPtr, places: DataPtr, labels: DataPtr | None = None) -> None:
        counts = allocate(total_bytes * cut.parts, device)
        totals = counts if add_up is None else allocate(total_bytes, device)
        keys, order = x, None
        for i, move in enumerate(moves):
            last = i == passes - 1
            shift = i * DIGIT_BITS
            counts_of[i > 0](cut.grid, keys.address, counts.address, cut.parts, cut.chunk, n, shift)
            if add_up is not None:
                add_up(scan_grid, counts.address, totals.address, cut.parts)
            to_keys = values if last else allocate(key_bytes, device)
            to_order = places if last else allocate(order_bytes, device)
            tables = [counts.address, totals.address] if add_up is not None else [totals.address]
            given = [keys.address]
            if order is not None:
                given.append(order.address)
            if last and looks_up:
                given.append(x.address)
            if last and labels is not None:
                given.append(labels.address)
            move(
                cut.grid,
                *given,
                *tables,
                to_keys.address,
                to_order.address,
                cut.parts,
                cut.chunk,
                n,
                shift,
            )
            keys, order = to_keys, to_order

    return sort
