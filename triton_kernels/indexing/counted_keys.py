"""Keys in order, and the places that they came from, of indices that are keys but for a step.

One launch makes the keys, checks their bounds, counts their digits and clears the output, where it begins with zeros.
Keys that several indices or positions make are written first, and counted by a launch more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.data_ptr import DataPtr
from ..launch import Launch, cdiv, integer_type
from ..sorting.parts import DIGIT_BITS
from ..sorting.radix import count_dtype
from ..sorting.sort_keys import passes_over, plan_sort
from .counted_keys_kernel import count_keys
from .index_bounds import allocate, check_flags
from .index_space import MOVED_AS, block_for

if TYPE_CHECKING:
    from .placement import Placed

CLEARED_BYTES = 16384
"""Bytes that a program clears: eight vectors of 128 bits for each of 128 lanes."""

InOrder = Callable[[Sequence[Any], DataPtr], tuple[DataPtr, DataPtr]]
"""The keys in order and their places, from the indices' bytes and the output's."""


def plan_in_order(placed: Placed, clears: bool) -> InOrder:
    """Return the launches that sort the keys of a placement; if `clears`, they also zero a dense output."""
    p, device, dtype = placed.placement, placed.device, placed.keys.dtype
    sort = plan_sort(device, p.rows, p.largest_key, dtype)
    if not p.keys_are_indices:
        return lambda indices, _: sort(placed.write_keys(indices), None)
    n, bounds, passes = p.rows, p.bounds, passes_over(p.rows, p.largest_key)
    (bound,), cleared = bounds, p.out.numel if clears else 0
    _, _, axis = p.indices[0]
    numbers = {"n": n, "step": p.out.strides[axis] // placed.unit, "size": bound.size}
    kind = integer_type(p.largest_key, n + 1024, *numbers.values())
    pointers = {
        "index": f"*{bound.spec.dtype.triton_name}",
        "keys": f"*{dtype.triton_name}",
        "flag": "*i32",
    }
    block = block_for(n)
    constants: dict[str, object] = {
        "WRAPS": bound.wraps,
        "PASSES": passes,
        "BITS": DIGIT_BITS,
        "INDEX": tl.int32 if kind == "i32" else tl.int64,
        "BLOCK": block,
        "CLEARED": CLEARED_BYTES // p.out.itemsize,
    }
    for name, type_, is_given in (
        ("totals", f"*{count_dtype(n).triton_name}", passes > 0),
        ("out", f"*{MOVED_AS[p.out.itemsize]}", clears),
    ):
        (pointers if is_given else constants)[name] = type_ if is_given else None
    types = pointers | dict.fromkeys(numbers, kind) | {"cleared": "i64"}
    launch = Launch(
        device,
        count_keys,
        {name: types[name] for name in count_keys.arg_names if name in types},
        constants,
        elements=("flag",),
    )
    grid = (cdiv(n, block) + cdiv(cleared * p.out.itemsize, CLEARED_BYTES), 1, 1)
    nbytes, flags = placed.keys.nbytes, placed.flags

    def in_order(indices: Sequence[Any], out: DataPtr) -> tuple[DataPtr, DataPtr]:
        keys = allocate(nbytes, device)

        def count(totals: int) -> None:
            addresses = [indices[0].address, keys.address, flags.begin()]
            addresses += [totals] if passes else []
            addresses += [out.address] if clears else []
            launch(grid, *addresses, *numbers.values(), cleared)
            check_flags(flags, bounds, indices)

        return sort(keys, count)

    return in_order
