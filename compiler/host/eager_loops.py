"""Loops of single operators, for eager calls (`dispatch/structured/compiled_loops.py` says when)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ...dispatch.iterator.parallel import parallel_for
from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.compiled_loops import Makers
from ...dispatch.structured.stub import StructuredCall
from ...runtime.tensor_spec import TensorSpec
from ...triton_kernels.geometry import broadcast_strides
from .draw_loops import draw_loop
from .element_program import REGISTERS, CannotLower, ElementProgram, Value
from .function_check import has_bits_of_eager
from .llvm_source import write_loop
from .loops import Geometry, part_limit_of, parts_of
from .lowering import ROWS
from .object_code import loop_function, target
from .operator_step import Step
from .row_program import RowProgram
from .row_source import WORKSPACE_ITEM, write_rows
from .run_sums import adds_as_numpy, sums_text
from .stages import Loop, made_of
from .tiled_loops import LEAST_ROW, TILE

SHARED_FROM = 1 << 24
"""Bytes of a loop's arrays, or twice its instructions, from which threads share it: half a millisecond's work."""


def loop_of_call(
    stub: str, call: StructuredCall, numbers: dict[str, Any], written: tuple[str, ...]
) -> Callable[..., None] | None:
    """A function of the output's array, and of the arrays and numbers that a kernel is called with.

    Args:
        stub: the kernel's.
        call: what is known of the call.
        numbers: the values of its numbers, by name: the function is for them alone.
        written: the inputs that are the output itself; others share no memory with it.

    Returns:
        None where there is no loop with the bits of the kernel: llvmlite is missing, or NumPy has to compute a part.
    """
    found = target()
    if found is None:
        return None
    program = ElementProgram(found.converts_half, found.truncates, has_bits_of_eager)
    try:
        value = _lowered(program, stub.removesuffix("_stub"), call, numbers, written)
        made = made_of([value])
        if any(each.by_numpy for each in made):
            return None if written else _tiled(value, call)
    except (CannotLower, RuntimeError, OverflowError):  # the last two: numbers that the kernel itself refuses
        return None
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
            node = Node(cast(Any, None), argument, "placeholder", argument, spec)
            kind, place = ("accumulator", 0) if argument in written else ("input", i)
            values[node] = program.value(kind, spec.dtype.name, detail=place)
            operands.append(node)
        else:
            operands.append(numbers[argument])
    if name == "copy":
        return program.convert(next(iter(values.values())), out)
    if name not in ROWS or (call.iterator is None and "common_dtype" not in call.extra):
        raise CannotLower(name)
    return program.convert(ROWS[name](Step(program, call, operands, values)), out)


def _plain(loop: Loop, call: StructuredCall) -> Callable[..., None]:
    """A loop of instructions alone."""
    out = call.outputs[0]
    places = [value.detail for value in loop.reads]
    geometry = _geometry(call, places)
    is_shared = _is_shared(call, places, len(loop.instructions))
    geometry, parts = parts_of(geometry, out.numel, part_limit_of(is_shared, out.numel))
    function = loop_function(write_loop(loop, geometry.steps, len(geometry.sizes)))
    return _over_parts(function, parts, places, is_shared)


def _tiled(value: Value, call: StructuredCall) -> Callable[..., None]:
    """A loop over tiles, for which NumPy's own loops are called between. Raises CannotLower where they are short."""
    out = call.outputs[0]
    inputs = tuple([made for made in made_of([value]) if made.kind == "input"])
    places = [made.detail for made in inputs]
    geometry = _geometry(call, places)
    if geometry.turned is not None or geometry.sizes[-1] < LEAST_ROW or geometry.steps[0] != "unit":
        raise CannotLower("short tiles")
    program = RowProgram(inputs, (value,), (*(step != "zero" for step in geometry.steps[1:]), True))
    if not program.ufuncs:
        raise CannotLower("no function")
    is_shared = _is_shared(call, places, program.instructions)
    parts = geometry.parts(part_limit_of(is_shared, out.numel))
    loop = write_rows(program, geometry.steps, len(geometry.sizes), tile=TILE)
    workspace = loop.workspace * TILE * WORKSPACE_ITEM
    return _over_parts(loop_function(loop.text), parts, places, is_shared, workspace)


def _geometry(call: StructuredCall, places: Sequence[int]) -> Geometry:
    out = call.outputs[0]
    specs = [out, *(call.args[call.runtime[i]] for i in places)]
    return Geometry.merged(
        out.sizes, [broadcast_strides(s, out.sizes) for s in specs], [s.itemsize for s in specs]
    )


def _is_shared(call: StructuredCall, places: Sequence[int], instructions: int) -> bool:
    out = call.outputs[0]
    nbytes = sum(spec.nbytes for spec in (out, *(call.args[call.runtime[i]] for i in places)))
    return bool(max(nbytes, 2 * out.numel * instructions) >= SHARED_FROM)


def _over_parts(
    function: Callable[..., None],
    parts: Sequence[Any],
    places: Sequence[int],
    is_shared: bool,
    workspace: int | None = None,
) -> Callable[..., None]:
    """A function of arrays that calls a loop for each part, with a workspace of so many bytes if there is one."""
    if len(parts) == 1 and workspace is None:
        (whole,) = parts
        return lambda array, *inputs: function(whole, array, *[inputs[i] for i in places])

    def run(array: Any, *inputs: Any) -> None:
        arrays = (array, *[inputs[i] for i in places])

        def part(first: int, last: int) -> None:
            room = () if workspace is None else (np.empty(workspace, np.uint8),)
            for numbers in parts[first:last]:
                function(numbers, *arrays, *room)

        parallel_for(0, len(parts), 1 if is_shared else len(parts), part)

    return run


def loop_by_name(name: str) -> Callable[..., None] | None:
    """A loop that a kernel asks for by name; None without llvmlite, or where it has not the bits of NumPy's passes."""
    found = target()
    if found is None:
        return None
    kind, _, dtype = name.partition(" ")
    if kind != "run_sums":
        return draw_loop(name)
    if dtype == "float16" and not found.converts_half:
        return None
    loop = loop_function(sums_text(dtype))
    return loop if adds_as_numpy(dtype, loop) else None


MAKERS = Makers(loop_of_call, loop_by_name)
