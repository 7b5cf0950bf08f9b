"""Loops of single operators, for eager calls (`dispatch/structured/compiled_loops.py` says when)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple, cast

import numpy as np

from ...cpu_fallback.elementwise.operator_step import Step
from ...cpu_fallback.function_check import has_bits_of_eager
from ...cpu_fallback.reduction.reduction_rows import REDUCTIONS, ReductionRow, RowStep
from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cpu.element_loop import Loop, made_of
from ...runtime.cpu.element_program import REGISTERS, CannotLower, ElementProgram, Value
from ...runtime.cpu.llvm_source import write_loop
from ...runtime.cpu.loop_requests import Sharing
from ...runtime.cpu.object_code import loop_function, target
from ...runtime.cpu.task_pool import shared_loop
from ...runtime.tensor_spec import TensorSpec
from ...triton_kernels.geometry import broadcast_strides
from ..reductions import are_of_rows, is_served, space_of
from ..row_space import RowSpace, View
from .loops import Geometry, part_limit_of, parts_of, sharing_of
from .lowering import LOWERINGS
from .row_loops import RowKernel
from .row_program import RowProgram, program_of_rows
from .row_source import WORKSPACE_ITEM, write_rows
from .tiled_loops import MIN_ROW, TILE


def loop_of_call(
    stub: str, call: StructuredCall, numbers: dict[str, Any], written: tuple[str, ...], may_decline: bool
) -> Callable[..., bool | None] | None:
    """Return a function of the output's array, and of the arrays and numbers that a kernel is called with.

    Args:
        stub: The kernel's stub.
        call: The planned call.
        numbers: Values of its numbers by name, for which the function is specialized.
        written: The inputs that alias the output; others share no memory with it.
        may_decline: If True, the function may return True for inputs that the kernel has to compute: sine and cosine
            do for large numbers. The inputs then have their values still, the output need not.

    Returns:
        The function, or None if no loop is bitwise identical to the kernel: llvmlite is missing, or NumPy has to
            compute a part.
    """
    loop_target = target()
    if loop_target is None:
        return None
    program = ElementProgram(
        loop_target.converts_half, loop_target.truncates, has_bits_of_eager, has_ranges=may_decline
    )
    name, in_place = stub.removesuffix("_stub"), bool(written)
    try:
        if name in REDUCTIONS:
            return _over_rows(REDUCTIONS[name], program, call, numbers)
        value = _lowered(program, name, call, numbers, () if may_decline else written)
        if in_place and may_decline and not program.outside:
            value = _lowered(program, name, call, numbers, written)
        made = made_of([value])
        if any(each.by_numpy for each in made):
            return None if in_place else _tiled(value, call)
    except (CannotLower, RuntimeError, OverflowError):  # the last two: numbers that the kernel itself refuses
        return None
    if program.outside:
        return _ranged(program, value, call, in_place)
    return _plain(Loop(tuple([each for each in made if each.kind == "input"]), ((value, "o0"),)), call)


def _lowered(
    program: ElementProgram,
    name: str,
    call: StructuredCall,
    numbers: dict[str, Any],
    written: tuple[str, ...],
) -> Value:
    out = call.outputs[0].dtype.name
    if out not in REGISTERS:
        raise CannotLower(out)
    values: dict[Node, Value] = {}
    operands: list[Any] = []
    for i, argument in enumerate(call.runtime):
        spec = call.args[argument]
        if isinstance(spec, TensorSpec):
            node = _placeholder(argument, spec)
            kind, index = ("accumulator", 0) if argument in written else ("input", i)
            values[node] = program.value(kind, spec.dtype.name, detail=index)
            operands.append(node)
        else:
            operands.append(numbers[argument])
    if name == "copy":
        return program.convert(next(iter(values.values())), out)
    if name not in LOWERINGS or (call.iterator is None and "common_dtype" not in call.extra):
        raise CannotLower(name)
    return program.convert(LOWERINGS[name](Step(program, call, operands, values)), out)


class _Rows(NamedTuple):
    """A call as rows see it (`reduction_rows.RowStep`)."""

    space: RowSpace
    operands: list[Any]


def _over_rows(
    row: ReductionRow, program: ElementProgram, call: StructuredCall, numbers: dict[str, Any]
) -> Callable[..., None] | None:
    """Return a loop over rows, from a call's arguments to all of its outputs."""
    specs = {name: call.args[name] for name in call.runtime if isinstance(call.args[name], TensorSpec)}
    source = next(iter(specs.values()))
    space = space_of(source, call.args)
    if space is None or not is_served(space, source):
        return None
    if not are_of_rows(space, list(specs.values()), call.outputs):
        return None
    nodes = {name: _placeholder(name, spec) for name, spec in specs.items()}
    views = {
        name: View(node, len(space.sizes) if node.val.sizes == space.sizes else None)
        for name, node in nodes.items()
    }
    values = {
        node: program.value("input", node.val.dtype.name, detail=i) for i, node in enumerate(nodes.values())
    }
    operands = [nodes[name] if name in nodes else numbers[name] for name in call.runtime]
    made = row(RowStep(program, call, _Rows(space, operands), values))
    results = [
        program.convert(value, spec.dtype.name) for value, spec in zip(made, call.outputs, strict=True)
    ]
    inputs = {views[name]: values[node] for name, node in nodes.items()}
    kernel = RowKernel(
        space, call.outputs, list(inputs), program_of_rows(space, inputs, results, call.outputs)
    )
    parts, sharing = kernel.parts()
    input_indices = [call.runtime.index(name) for name in nodes]
    function = loop_function(kernel.loop.text)
    outputs, arguments = len(call.outputs), len(call.runtime)
    return _over_parts(function, parts, input_indices, arguments, sharing, kernel.workspace, outputs)


def _placeholder(name: str, spec: TensorSpec) -> Node:
    return Node(cast(Any, None), name, "placeholder", name, spec)


def _plain(loop: Loop, call: StructuredCall) -> Callable[..., None]:
    """Return a loop of instructions alone."""
    out = call.outputs[0]
    input_indices = [value.detail for value in loop.reads]
    geometry = _geometry(call, input_indices)
    sharing = _sharing(call, input_indices, len(loop.instructions))
    geometry, parts = parts_of(geometry, out.numel, part_limit_of(sharing, out.numel))
    function = loop_function(write_loop(loop, geometry.steps, len(geometry.sizes)))
    return _over_parts(function, parts, input_indices, len(call.runtime), sharing)


def _ranged(
    program: ElementProgram, value: Value, call: StructuredCall, in_place: bool
) -> Callable[..., bool | None]:
    """Return a loop with functions that hold for a range of numbers; it returns True for other numbers.

    In place, it computes a new array first, since the kernel needs the numbers if the loop declines them.
    """
    out = call.outputs[0]
    flag = program.value("accumulator", "uint8", detail=1)
    outside = reduce(lambda a, b: program.bitwise("or", a, b), program.outside)
    flag = program.bitwise("or", flag, program.convert(outside, "uint8"))
    reads = tuple([made for made in made_of([value, flag]) if made.kind == "input"])
    loop = Loop(reads, ((value, "o0"), (flag, "o1")))
    input_indices = [made.detail for made in reads]
    specs = [out, *(call.args[call.runtime[i]] for i in input_indices)]
    strides = [broadcast_strides(spec, out.sizes) for spec in specs]
    strides.insert(1, (0,) * out.ndim)
    itemsizes = [spec.itemsize for spec in specs]
    itemsizes.insert(1, 1)
    sharing = _sharing(call, input_indices, len(loop.instructions))
    geometry, parts = parts_of(
        Geometry.merged(out.sizes, strides, itemsizes), out.numel, part_limit_of(sharing, out.numel)
    )
    rank, count = len(geometry.sizes), len(parts)
    for i, part in enumerate(parts):
        part[2 * rank + 1] += i  # Each part has a flag of its own.
    run = shared_loop(loop_function(write_loop(loop, geometry.steps, rank)), parts, sharing, None)

    def compute(target: Any, *given: Any) -> bool:
        made = np.empty_like(target) if in_place else target
        flags = np.zeros(count, np.uint8)
        run(made, flags, *[given[i] for i in input_indices])
        if flags.any():
            return True
        if in_place:
            np.copyto(target, made)
        return False

    return compute


def _tiled(value: Value, call: StructuredCall) -> Callable[..., None]:
    """Return a loop over tiles that calls NumPy's loops in between. Raise CannotLower if tiles are short."""
    out = call.outputs[0]
    inputs = tuple([made for made in made_of([value]) if made.kind == "input"])
    input_indices = [made.detail for made in inputs]
    geometry = _geometry(call, input_indices)
    if geometry.turned is not None or geometry.sizes[-1] < MIN_ROW or geometry.steps[0] != "unit":
        raise CannotLower("short tiles")
    program = RowProgram(inputs, (value,), (*(step != "zero" for step in geometry.steps[1:]), True))
    if not program.ufuncs:
        raise CannotLower("no function")
    sharing = _sharing(call, input_indices, program.instructions)
    parts = geometry.parts(part_limit_of(sharing, out.numel))
    loop = write_rows(program, geometry.steps, len(geometry.sizes), tile=TILE)
    workspace = loop.workspace * TILE * WORKSPACE_ITEM
    function = loop_function(loop.text)
    return _over_parts(function, parts, input_indices, len(call.runtime), sharing, workspace)


def _geometry(call: StructuredCall, input_indices: Sequence[int]) -> Geometry:
    out = call.outputs[0]
    specs = [out, *(call.args[call.runtime[i]] for i in input_indices)]
    return Geometry.merged(
        out.sizes, [broadcast_strides(s, out.sizes) for s in specs], [s.itemsize for s in specs]
    )


def _sharing(call: StructuredCall, input_indices: Sequence[int], instructions: int) -> Sharing:
    out = call.outputs[0]
    nbytes = sum(spec.nbytes for spec in (out, *(call.args[call.runtime[i]] for i in input_indices)))
    return sharing_of(max(nbytes, 2 * out.numel * instructions))


def _over_parts(
    function: Callable[..., None],
    parts: Sequence[Any],
    input_indices: Sequence[int],
    arguments: int,
    sharing: Sharing,
    workspace: int | None = None,
    outputs: int = 1,
) -> Callable[..., None]:
    """Return a function of arrays that calls a loop for each part, with an optional workspace.

    Args:
        function: The loop, called with a part, the outputs, and the inputs at `input_indices`.
        parts: The index space.
        input_indices: The inputs that the loop reads.
        arguments: The number of inputs that the function is called with.
        sharing: How threads share the parts.
        workspace: Size of the workspace in bytes. Default: None.
        outputs: The number of output arguments, which come first. Default: 1.
    """
    room = None if workspace is None else (outputs + len(input_indices), workspace)
    compute = shared_loop(function, parts, sharing, room)
    read = [outputs + i for i in input_indices]
    if read == list(range(outputs, outputs + len(read))):
        count = outputs + len(read)
        return compute if len(read) == arguments else lambda *given: compute(*given[:count])
    return lambda *given: compute(*given[:outputs], *[given[i] for i in read])
