"""Launches that select by rank from long lines: the first ones in order, or one alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from ...runtime.scalar_type import int64
from ..indexing.index_bounds import allocate
from ..launch import ALIGNMENT, Launch, integer_type, interpreted, next_power_of_2
from .ordered_keys import KeyFormat
from .parts import BUCKETS, DIGIT_BITS, WARPS, Parts, chosen_tile, tile_of
from .radix import plan_radix, position_dtype
from .rows import LONGEST, plan_rows
from .select_kernels import count_candidates, count_selected, narrow_down, write_selected

RESIDENT = 2
"""Parts for each multiprocessor: few, since each adds a table that one program reads."""
TABLES = 16
"""Number of these tables that are read at a time."""


def plan_select(
    device: Device,
    lines: int,
    n: int,
    k: int,
    format_: KeyFormat,
    *,
    single: bool,
    descending: bool = False,
    median: str = "",
) -> Callable[[DataPtr, DataPtr, DataPtr], None]:
    """Return the function ``(x, values, indices)`` over the bytes of `lines` contiguous lines of `n`.

    Args:
        k: Number of elements to write from a line, the first ones in order; or, with `single`, the 1-based rank.
        single: If True, write a single element.
        median: ``median`` or ``nanmedian`` to write that instead of the `k`-th.
    """
    block = tile_of(n)
    cut = Parts(lines, n, block, RESIDENT)
    kind = integer_type(lines * n + 2 * block, lines * cut.parts * BUCKETS)
    position = position_dtype(n)
    word, integer = f"*{format_.word}", f"*{position.triton_name}"
    common: dict[str, object] = {
        **format_.constants(),
        "DESCENDING": descending,
        "INDEX": tl.int32 if kind == "i32" else tl.int64,
        "BLOCK": block,
    }
    numbers = dict.fromkeys(("parts", "chunk", "n"), kind)
    divisible = [name for name, value in (("chunk", cut.chunk), ("n", n)) if value % ALIGNMENT == 0]
    shifts = range(format_.bits - DIGIT_BITS, -1, -DIGIT_BITS)

    def launch(kernel: Any, signature: dict[str, str], constants: dict[str, object]) -> Launch:
        constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
        fixed = [name for name in divisible if name in signature and kernel is not narrow_down]
        warps = WARPS
        if kernel is count_candidates:
            chosen = chosen_tile(kernel, device, format_, lines, n, block)
            constants["BLOCK"], warps = chosen.tile[0], chosen.warps
        return Launch(device, kernel, signature, constants, divisible=fixed, num_warps=warps)

    tables = min(next_power_of_2(cut.parts), 4 * TABLES if interpreted() else TABLES)
    counting, narrowing = [], []
    looks_for_nan = bool(median) and format_.infinity > 0
    for i in range(min(len(shifts), 2)):
        first = i == 0
        constants = {**common, "FIRST": first, "BUCKETS": BUCKETS}
        prefix_types = {} if first else {"found": word}
        absent: dict[str, object] = {"found": None} if first else {}
        signature = {"x": word, **prefix_types, "counts": integer, **numbers, "shift": kind}
        counting.append(launch(count_candidates, signature, constants | absent))
        missing = {"missing": integer} if first and looks_for_nan else {}
        absent = {} if missing else {"missing": None}
        signature = {"counts": integer, **missing, "found": word, "ranks": integer}
        signature |= dict.fromkeys(("parts", "n", "rank", "shift"), kind)
        constants |= absent | {"IGNORES": median == "nanmedian", "BLOCK": max(tables, 2)}
        narrowing.append(launch(narrow_down, signature, constants))
    count_nan = None
    if looks_for_nan:
        signature = {"x": word, "counts": integer, **numbers}
        count_nan = launch(count_selected, signature, common | {"found": None})
    signature = {"x": word, "found": word, "counts": integer, **numbers}
    count = launch(count_selected, signature, common)
    target = int64 if single else position
    signature = {"x": word, "found": word, "ranks": integer, "counts": integer, "values": word}
    signature |= {"places": f"*{target.triton_name}", **numbers, "k": kind}
    write = launch(
        write_selected, signature, common | {"ONE": single, "PARTS": max(next_power_of_2(cut.parts), 2)}
    )
    in_order = None if single else plan_in_order(device, lines, k, format_, descending, position)
    rank = (n - 1) // 2 if median else k - 1
    sizes = (cut.parts, cut.chunk, n)
    word_bytes, itemsize = format_.bits // 8, position.itemsize

    def select(x: DataPtr, values: DataPtr, indices: DataPtr) -> None:
        tables = allocate(lines * cut.parts * BUCKETS * itemsize, device)
        pairs = allocate(2 * lines * cut.parts * itemsize, device)
        prefixes, ranks = allocate(lines * word_bytes, device), allocate(lines * itemsize, device)
        if count_nan is not None:
            count_nan(cut.grid, x.address, pairs.address, *sizes)
        for i, shift in enumerate(shifts):
            known = () if i == 0 else (prefixes.address,)
            counting[min(i, 1)](cut.grid, x.address, *known, tables.address, *sizes, shift)
            missing = (pairs.address,) if i == 0 and count_nan is not None else ()
            narrowing[min(i, 1)](
                (lines, 1, 1),
                tables.address,
                *missing,
                prefixes.address,
                ranks.address,
                cut.parts,
                n,
                rank,
                shift,
            )
        count(cut.grid, x.address, prefixes.address, pairs.address, *sizes)
        state = (x.address, prefixes.address, ranks.address, pairs.address)
        if in_order is None:
            write(cut.grid, *state, values.address, indices.address, *sizes, k)
            return
        elements = allocate(lines * k * word_bytes, device)
        order = allocate(lines * k * itemsize, device)
        write(cut.grid, *state, elements.address, order.address, *sizes, k)
        in_order(elements, order, values, indices)

    return select


def plan_in_order(
    device: Device, lines: int, k: int, format_: KeyFormat, descending: bool, position: Any
) -> Callable[[DataPtr, DataPtr, DataPtr, DataPtr], None]:
    """Return ``(elements, their places, values, places)``, which sorts the selected elements."""
    if k <= LONGEST:
        rows = plan_rows(device, lines, k, k, format_, int64, descending=descending, order_dtype=position)
        return lambda x, order, values, places: rows(x.address, order.address, values.address, places.address)
    radix = plan_radix(device, lines, k, format_, int64, descending=descending, label_dtype=position)
    return lambda x, order, values, places: radix(x, values, places, order)
