"""Kernels of `wide_functions`: compiled loops from the first call on, since NumPy's results have other bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.cpu.element_program import ElementProgram
from ...runtime.cpu.loop_requests import Loop, Sharing, has_compiler, loop_now, shared_loop
from ...runtime.float_errors import quietly
from ...runtime.scalar_type import float32
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from .wide_functions import SERVED, TAN_RANGE, instructions

WIDE_FROM = 1 << 12
"""Elements from which a loop is compiled at once. It takes 50 ms, as long as NumPy for some million elements, and the
loop is kept on disk. NumPy takes 50 to 250 us for so few, and a loop 10 to 20 us.
"""
PART = 1 << 15
"""Elements of a part, which threads take one by one."""
SHARED_FROM, WAKING_FROM = 1 << 16, 1 << 18
"""Elements from which awake threads share a loop, and from which sleeping ones are woken for it."""
BEYOND: dict[str, Callable[[Any], Any]] = {"tan": np.tan}
"""NumPy's function for numbers beyond a function's range."""


def is_wide(stub: str, call: StructuredCall) -> bool:
    """Return True if a call is computed by a loop of `wide_functions`, if there is a compiler."""
    out = call.outputs[0]
    operands = [call.args[name] for name in call.runtime]
    return (
        stub in SERVED
        and out.numel >= WIDE_FROM
        and out.dtype is float32
        and all(isinstance(spec, TensorSpec) and spec.dtype is float32 for spec in operands)
    )


def for_many(stub: str, call: StructuredCall, eager: PlannedKernel) -> PlannedKernel:
    """Return the kernel of a call: NumPy's, or the loop's if there are many elements."""
    if stub not in SERVED or not has_compiler():
        return eager
    if not is_wide(stub, call):
        return eager._replace(any_shape=min(eager.any_shape, WIDE_FROM - 1))
    numel, count, beyond = call.outputs[0].numel, len(call.runtime), BEYOND.get(stub)
    parts = _parts(numel, 1 + count, beyond is not None)
    run: Loop | None = None

    def into(out: Any, *inputs: Any) -> None:
        nonlocal run
        if run is None:
            loop = loop_now(_loop_of, stub, count)
            if loop is None:
                eager.into(out, *inputs)
                return
            run = shared_loop(loop, parts, Sharing.of(numel, SHARED_FROM, WAKING_FROM), None)
        arrays = [np.ascontiguousarray(np.broadcast_to(a, out.shape)) for a in inputs]
        is_apart = out.flags.c_contiguous and not any(np.may_share_memory(out, a) for a in arrays)
        made = out if is_apart else np.empty(out.shape, np.float32)
        if beyond is None:
            run(made, *arrays)
        else:
            run(made, flags := np.zeros(len(parts), np.uint8), *arrays)
            if flags.any():
                far = np.logical_not(np.abs(arrays[0]) <= TAN_RANGE)
                made[far] = beyond(arrays[0][far])
        if not is_apart:
            np.copyto(out, made)

    return PlannedKernel(quietly(into))


def _parts(numel: int, arrays: int, has_flags: bool) -> list[Any]:
    """Return the geometries of the parts (`llvm_source`); each has a flag of its own."""
    made = []
    for i, first in enumerate(range(0, numel, PART)):
        own = [(4 * first, 4)] * arrays
        if has_flags:
            own.insert(1, (i, 0))
        made.append(np.array([min(PART, numel - first), *(number for pair in own for number in pair)]))
    return made


def _loop_of(stub: str, count: int) -> Loop:
    """Compile the loop of a function from arrays to an array, and to a flag for numbers beyond its range."""
    from ...runtime.cpu.element_loop import Loop as ElementLoop
    from ...runtime.cpu.llvm_source import write_loop
    from ...runtime.cpu.object_code import loop_function

    program = ElementProgram(True, True, has_ranges=True)
    inputs = tuple([program.value("input", "float32", detail=i) for i in range(count)])
    writes = [(instructions(program, stub, *inputs), "o0")]
    if program.outside:
        flag = program.value("accumulator", "uint8", detail=1)
        (outside,) = program.outside
        writes.append((program.bitwise("or", flag, program.convert(outside, "uint8")), "o1"))
    steps = ["unit", *(["zero"] if program.outside else []), *["unit"] * count]
    return loop_function(write_loop(ElementLoop(inputs, tuple(writes)), steps, 1))
