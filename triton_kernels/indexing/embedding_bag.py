"""Bags of rows of a table: one launch, a program for each bag and block of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch.structured.meta.embedding_bag import MAX, WRONG_FIRST, WRONG_INDEX, WRONG_LAST, WRONG_ORDER
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import storage_size
from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.faults import Fault, fault_flags
from ...runtime.cuda.transfer import copy_across
from ...runtime.cuda.triton.lazy_triton import tl
from ..contiguous import contiguous_copy
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..folded_grid import folded
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, next_power_of_2
from .embedding_bag_kernels import pool_bags
from .index_bounds import extreme

TILE = {2: (8, 256), 4: (8, 128), 8: (8, 64)}
"""Rows and columns of a program by the size of an element; for maxima as many columns as both together, but half."""

NAMES = ("weight", "indices", "offsets", "scale", "out", "origin", "sizes", "attained")


def embedding_bag(call: StructuredCall) -> PlannedKernel:
    """Compute all four results. Kernels report invalid indices and offsets, skip such indices, and empty such
    bags.
    """
    weight, indices, offsets = (call.args[name] for name in ("weight", "indices", "offsets"))
    scale = call.args["per_sample_weights"]
    out, origin, sizes, attained = call.outputs
    check_dtypes(call, [weight])
    mode: int = call.args["mode"]
    device = call.device
    rows, width = weight.sizes
    bags, n = out.sizes[0], indices.numel
    copied = None
    if width > 1 and weight.strides[1] != 1:
        weight, copied = contiguous_copy(weight)
    parts, columns = TILE[weight.itemsize]
    if mode == MAX:
        parts, columns = 1, parts * columns // 2
    block = next_power_of_2(width) if interpreted() else min(next_power_of_2(max(width, 1)), columns)
    numbers = {
        "bags": bags,
        "bounds": offsets.numel,
        "n": n,
        "width": width,
        "rows": rows,
        "padding": call.args["padding_idx"],
        "row_step": weight.strides[0],
        "index_step": indices.strides[0],
        "offset_step": offsets.strides[0],
        "scale_step": 0 if scale is None else scale.strides[0],
    }
    specs = (weight, indices, offsets, scale, out, origin, sizes, attained)
    extents = [storage_size(spec.sizes, spec.strides) for spec in specs if spec is not None]
    kind = integer_type(*numbers.values(), *extents, bags * width + block, n + parts)
    pointers = {
        name: f"*{spec.dtype.triton_name}"
        for name, spec in zip(NAMES, specs, strict=True)
        if spec is not None
    }
    constants: dict[str, object] = {
        "MODE": mode,
        "TYPE": compute_type(weight.dtype),
        "INDEX": tl.int32 if kind == "i32" else tl.int64,
        "ROWS": parts,
        "BLOCK": block,
    }
    if scale is None:
        constants["scale"] = None
    launch = Launch(
        device,
        pool_bags,
        {**pointers, "flag": "*i32", **dict.fromkeys(numbers, kind)},
        constants,
        divisible=[name for name, value in numbers.items() if value % ALIGNMENT == 0],
        elements=("flag", "indices", "offsets", "scale", "origin", "sizes"),
    )
    grid = folded(bags, cdiv(max(width, 1), block))
    values = tuple(numbers.values())

    faults = (
        Fault("embedding_bag", RuntimeError, f"index out of bounds for dimension 0 with size {rows}"),
        Fault("embedding_bag", RuntimeError, WRONG_ORDER.format(wrong="others", length=n)),
    )
    flags = fault_flags(device.resolved_index, faults)

    def check(where: Any, starts: Any) -> None:
        raised = flags.raised()
        if 1 in raised:
            raise offset_error(starts)
        if raised:
            wrong = extreme("amax_stub", indices, where)
            wrong = extreme("amin_stub", indices, where) if wrong < rows else wrong
            raise RuntimeError(WRONG_INDEX.format(wrong=wrong))

    def offset_error(starts: Any) -> Exception:
        """Return the error of the offsets: a nonzero first one, one beyond the indices, or a descending one."""
        first = np.empty((), offsets.dtype.np)
        copy_across(first, starts, first.nbytes)
        if first != 0:
            return RuntimeError(WRONG_FIRST.format(wrong=int(first)))
        largest = extreme("amax_stub", offsets, starts)
        if largest > n:
            return RuntimeError(WRONG_LAST.format(wrong=largest, length=n))
        return RuntimeError(WRONG_ORDER.format(wrong="descending ones", length=n))

    def into(
        out_data: Any,
        bag_of: Any,
        counts: Any,
        best: Any,
        table: Any,
        where: Any,
        starts: Any,
        factors: Any = None,
    ) -> None:
        if not bags:
            if n:
                with device_guard(device.resolved_index) as cuda:
                    stream = cuda.current_stream(device.resolved_index)
                    cuda.memset(bag_of.address, 0, origin.nbytes, stream)
            return
        words = flags.begin()
        data = (table if copied is None else copied(table), where, starts)
        scale_address = () if factors is None else (factors.address,)
        addresses = [each.address for each in (*data, out_data, bag_of, counts, best)]
        launch(grid, *addresses[:3], *scale_address, *addresses[3:], words, *values)
        if flags.driver.launch_blocking:
            check(where, starts)

    return PlannedKernel(into)


register_stub("_embedding_bag_stub", "cuda", embedding_bag)
