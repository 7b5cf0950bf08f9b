"""Search in sorted sequences: a lane for each value halves its row."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import storage_size
from ..conversion import compute_type, triton_type
from ..elementwise.elementwise import check_dtypes
from ..launch import launch_nothing
from .index_bounds import Bound
from .index_space import launch_over, space, split
from .picking import plan_check
from .searching_kernels import bisect

LANES_PER_PROGRAM = 512
"""Lanes of a program; each lane holds the value, bounds and addresses of its elements in registers."""
OUT_OF_RANGE = "torch.searchsorted(): sorter index out of range"


def searchsorted(call: StructuredCall) -> PlannedKernel:
    """Plan the launches over all values; a sorter is bounds-checked first, and lanes read the sequence through
    it.
    """
    sequence, values, sorter = (call.args[name] for name in ("sorted_sequence", "self", "sorter"))
    out, common = call.outputs[0], call.extra["common"]
    check_dtypes(call, [sequence, values])
    check = None
    if sorter is not None and sorter.numel:
        check = plan_check(Bound(call.name, sorter, sorter.sizes[-1], 0, False, RuntimeError, OUT_OF_RANGE))
    if values.numel == 0:
        into = launch_nothing if check is None else lambda out_data, q, v, order: check(order)
        return PlannedKernel(into)
    length = sequence.sizes[-1]
    shared = sequence.ndim == 1
    none = (0,) * values.ndim
    # A sequence that all values share has no rows to move to.
    rows = none if shared else (*sequence.strides[:-1], 0)
    own = none if shared or sorter is None else (*sorter.strides[:-1], 0)
    operands = {"vd": values.strides, "qd": rows, "rd": own, "od": out.strides}
    inner, offsets = split(space("d", values.sizes, operands, False))
    pointers = {
        "values": f"*{values.dtype.triton_name}",
        "sequence": f"*{sequence.dtype.triton_name}",
        "out": f"*{out.dtype.triton_name}",
    }
    constants: dict[str, object] = {
        "RIGHT": call.extra["right"],
        "COMMON": triton_type(common),
        "TYPE": compute_type(common),
    }
    if sorter is None:
        constants["sorter"] = None
    else:
        pointers["sorter"] = "*i64"
    numbers = {
        "length": length,
        "rounds": length.bit_length(),
        "step": sequence.strides[-1],
        "sorter_step": 0 if sorter is None else sorter.strides[-1],
    }
    extent = storage_size(sequence.sizes, sequence.strides)
    if sorter is not None:
        extent += storage_size(sorter.sizes, sorter.strides)
    run = launch_over(
        call.device,
        bisect,
        inner.numel,
        pointers,
        [inner],
        numbers,
        constants,
        extent,
        lanes=LANES_PER_PROGRAM,
    )

    def into(out_data: Any, q: Any, v: Any, order: Any = None) -> None:
        if check is not None:
            check(order)
        for value_offset, row, sorter_offset, target in offsets:
            sorter_address = () if order is None else (order.address + sorter_offset * 8,)
            run(
                v.address + value_offset * values.itemsize,
                q.address + row * sequence.itemsize,
                *sorter_address,
                out_data.address + target * out.itemsize,
            )

    return PlannedKernel(into)


register_stub("searchsorted_stub", "cuda", searchsorted)
