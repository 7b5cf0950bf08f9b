"""Fused CPU kernel as one loop with functions whose instructions are valid for a range of numbers: sine and cosine.

NumPy's vector loops compute large numbers one by one, with the C library. A loop of instructions flags such numbers;
then the kernel runs again with NumPy's own function (`tiled_loops`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ...cpu_fallback.function_check import has_bits_of_eager
from ...dispatch.structured.allocation import allocator_of
from ...runtime.cpu.element_loop import Loop, made_of
from ...runtime.cpu.element_program import CannotLower, ElementProgram
from ...runtime.cpu.llvm_source import write_loop
from ...runtime.cpu.object_code import loop_function, target
from ...runtime.cpu.task_pool import shared_loop
from ...triton_kernels.geometry import broadcast_strides
from ..schedule import FusedKernel
from .loops import Geometry, Kernel, part_limit, parts_of, sharing_of, strides_of_read, work_of
from .lowering import Lowered


def loop_in_ranges(kernel: FusedKernel) -> Loop | None:
    """Return the loop, whose last output flags values outside of a function's range; None if no function has a
    range."""
    loop_target = target()
    if loop_target is None:
        return None
    program = ElementProgram(
        loop_target.converts_half, loop_target.truncates, has_bits_of_eager, has_ranges=True
    )
    try:
        outputs = Lowered(kernel, program).outputs
    except CannotLower:
        return None
    order = made_of(outputs)
    if not program.outside or any(value.by_numpy for value in order):
        return None
    flag = program.value("accumulator", "uint8", detail=len(outputs))
    outside = reduce(lambda a, b: program.bitwise("or", a, b), program.outside)
    flag = program.bitwise("or", flag, program.convert(outside, "uint8"))
    writes = tuple([(value, f"o{i}") for i, value in enumerate((*outputs, flag))])
    order = made_of([value for value, _ in writes])
    return Loop(tuple([value for value in order if value.kind == "input"]), writes)


def ranged_loop(kernel: FusedKernel, loop: Loop, make_other: Callable[[], Kernel]) -> Kernel:
    """Return a function from a kernel's input arrays to its output arrays.

    Args:
        kernel: The kernel.
        loop: Its loop.
        make_other: Make the fallback function for values outside of a range.
    """
    sizes, numel = kernel.domain.sizes, kernel.domain.numel
    specs = [node.val for node in kernel.outputs]
    input_indices = [value.detail for value in loop.reads]
    count = len(specs)
    strides = [broadcast_strides(spec, sizes) for spec in specs]
    strides += [(0,) * len(sizes), *(strides_of_read(kernel, value) for value in loop.reads)]
    itemsizes = [spec.itemsize for spec in specs]
    itemsizes += [1, *(kernel.inputs[index].val.itemsize for index in input_indices)]
    work = work_of(kernel, input_indices, len(loop.instructions))
    geometry, parts = parts_of(Geometry.merged(sizes, strides, itemsizes), numel, part_limit(work, numel))
    rank = len(geometry.sizes)
    for i, part in enumerate(parts):
        part[rank + count * (rank + 1)] += i  # Each part has a flag of its own.
    run = shared_loop(loop_function(write_loop(loop, geometry.steps, rank)), parts, sharing_of(work))
    allocators = [allocator_of(spec) for spec in specs]
    fallback: list[Kernel] = []

    def compute(*inputs: Any) -> tuple[Any, ...]:
        outs = tuple([new() for new in allocators])
        flags = np.zeros(len(parts), np.uint8)
        run(*outs, flags, *[inputs[index] for index in input_indices])
        if not flags.any():
            return outs
        if not fallback:
            fallback.append(make_other())
        return fallback[0](*inputs)

    return compute
