"""Gathers in CPU loops: loads at computed addresses.

The eager checks refuse indices out of bounds before the loop. The loop reads the indices again, which another thread
may have written since, and clamps each, so that it never loads from outside of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cpu_fallback.indexing.index_bounds import check_bounds, check_rows
from ...dispatch.layers.graph.graph import Node
from ...dispatch.plans.structured_kernel import StructuredKernel
from ...dispatch.structured.allocation import allocator_of
from ...runtime.cpu.element_program import POINTER, REGISTERS, CannotLower, ElementProgram, Value
from ...runtime.dispatch_key import BY_NAME
from ..fused_step import FusedStep
from ..picks import GATHER, INDEX_SELECT, PickCall
from ..pointwise import bound_arguments
from ..row_space import View

if TYPE_CHECKING:
    from .row_program import LoweredRows

Kernel = Callable[..., tuple[Any, ...]]


def number_of(program: ElementProgram, call: PickCall, index: Value) -> Value:
    """Return the number of an element from its start, an integer within the dimension."""
    number, size = program.convert(index, "int64"), call.source.val.sizes[call.dim]
    if call.wraps:
        is_from_end = program.compare("lt", number, program.number(0, "int64"))
        from_start = program.arithmetic("add", number, program.number(size, "int64"))
        number = program.select(is_from_end, from_start, number)
    # As an unsigned number a negative one is large, too.
    last = program.number(size - 1, "int64")
    return program.instruction("int64", "call i64 @llvm.umin.i64(i64 {0}, i64 {1})", number, last)


def picked(program: ElementProgram, call: PickCall, index: Value, input_index: int, number: int) -> Value:
    """Return the value of a gathered element. Raise CannotLower for a dtype without registers.

    Args:
        program: The program to which values are added.
        call: The gather.
        index: The index of the element.
        input_index: The index of the source among the inputs.
        number: The gather's index among a kernel's gathers.
    """
    spec = call.source.val
    dtype = spec.dtype.name
    if dtype not in REGISTERS:
        raise CannotLower(dtype)
    start = program.value("place", dtype, str(number), detail=input_index)
    step = program.number(spec.strides[call.dim] * spec.itemsize, "int64")
    offset = program.arithmetic("mul", number_of(program, call, index), step)
    address = program.instruction(POINTER, "getelementptr i8, ptr {0}, i64 {1}", start, offset)
    if dtype == "bool":
        byte = program.instruction("uint8", "load i8, ptr {0}, align 1", address)
        return program.compare("ne", byte, program.number(0, "uint8"))
    return program.instruction(dtype, f"load {REGISTERS[dtype]}, ptr {{0}}, align 1", address)


def picked_of_row(kernel: LoweredRows, call: PickCall, values: Mapping[Node, Value]) -> Value:
    """Return the value of a step that gathers one element of each row."""
    row = values.get(call.source)
    if row is None:
        row = kernel.input(View(call.source, len(kernel.space.sizes)))
    number = number_of(kernel.elements, call, values[call.numbers])
    return kernel.elements.value("picked", row.dtype, operands=(row, number))


def checked(calls: Sequence[FusedStep], inputs: Sequence[Node], compute: Kernel) -> Kernel:
    """Return a kernel's function that first bounds-checks indices, as eager calls do; most kernels have none."""
    index_checks = [check for call in calls if (check := call.check) is not None]
    if not index_checks:
        return compute
    checks = [(inputs.index(node), check) for node, check in index_checks]

    def run(*arrays: Any) -> tuple[Any, ...]:
        for index, check in checks:
            check(arrays[index])
        return compute(*arrays)

    return run


def check_of(call: PickCall) -> Callable[[Any], None]:
    """Return a function that bounds-checks an array of indices and raises the eager error."""
    size, dim, name = call.source.val.sizes[call.dim], call.dim, call.node.target._entry.name
    if name == INDEX_SELECT:
        return lambda numbers: check_rows(numbers, size)
    error = RuntimeError if name == GATHER else IndexError
    return lambda numbers: check_bounds(numbers, size, dim, call.wraps, error)


def eager_pick(call: PickCall) -> Callable[..., tuple[Any, ...]]:
    """Return a function from the arrays of the source and of the indices to the gathered elements, as in an eager
    call."""
    new = allocator_of(call.node.val)
    if call.wraps:  # `index.Tensor` has no plan of its own: it checks its indices before it chooses a kernel.
        check, dim = check_of(call), call.dim

        def pick_wrapped(source: Any, numbers: Any) -> tuple[Any, ...]:
            check(numbers)
            out = new()
            np.take(source, numbers, dim, out, "wrap")
            return (out,)

        return pick_wrapped
    entry, values = call.node.target._entry, bound_arguments(call.node)
    kernel = entry.kernel_for(BY_NAME["CPU"])
    assert kernel is not None and isinstance(kernel.planner, StructuredKernel)

    def seen(value: Any, replace: Callable[[Node], Any]) -> Any:
        if isinstance(value, tuple | list):
            return [seen(each, replace) for each in value]
        return replace(value) if isinstance(value, Node) else value

    _, planned = kernel.planner.planned_kernel(
        entry, [seen(value, lambda node: node.val) for value in values]
    )
    runtime = [values[i] for i in entry.runtime_positions([seen(v, lambda node: node.val) for v in values])]

    def pick(source: Any, numbers: Any) -> tuple[Any, ...]:
        arrays, out = {call.source: source, call.numbers: numbers}, new()
        planned.into(out, *[seen(value, arrays.__getitem__) for value in runtime])
        return (out,)

    return pick
