"""Dropout in fused kernels on the CPU: the random numbers of eager calls, drawn for a row or a tile at a time.

A call of a kernel takes the counters of its draws from the generator, in the order of the program, and gives the loop
an array of *seeds*: for each draw the seed and the first counter. Element i of a draw has word i % 4 of counter `first`
+ i // 4. The geometry has the array as one of a byte for each element, so that how far a pointer to a row is from its
beginning is the number of the row's first element; only the beginning is read.

Where no loop serves a kernel, its steps before and after each draw are kernels, and draws are those of eager calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...cpu_fallback.widen import compute_dtype
from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...dispatch.structured.meta.draws import kernel_of
from ...runtime.generator import default_generator
from ..draws import DropoutCall
from ..reductions import ResultOf
from ..schedule import FusedKernel, RowsKernel
from .element_program import CannotLower, ElementProgram, Value

FEWEST = 8
"""Elements of a row that is drawn: its words are to find room in its memory with those of its counters that belong to
the rows beside it."""

Kernel = Callable[..., tuple[Any, ...]]


def seeds_of(program: ElementProgram) -> Value:
    """The array of seeds, as an input of a program."""
    return program.value("seeds", "uint8")


def dropped(program: ElementProgram, call: DropoutCall, number: int, given: Value) -> dict[int, Value]:
    """The values of a draw's results by their places. Raises CannotLower where everything is kept.

    Args:
        program: where values are made.
        call: the draw.
        number: its place among a kernel's draws.
        given: what elements are dropped of.
    """
    limit = math.ceil((1.0 - call.p) * 2**32)
    if limit >= 2**32:
        raise CannotLower("native_dropout")
    words = program.value("draw", "uint32", operands=(seeds_of(program),), detail=number)
    kept = program.compare("lt", words, program.number(limit, "uint32"))
    wide = compute_dtype(call.spec.dtype)
    scale = 0.0 if call.p == 1 else 1.0 / (1.0 - call.p)
    scaled = program.arithmetic(
        "mul", program.convert(given, wide.name), program.number(wide.np.type(scale), wide.name)
    )
    # A factor of zero leaves the sign, and NaN of what is infinite.
    factor = program.select(kept, program.number(1.0, wide.name), program.number(0.0, wide.name))
    left = program.convert(program.arithmetic("mul", scaled, factor), call.spec.dtype.name)
    return {0: left, 1: kept}


def reservation(calls: Sequence[DropoutCall]) -> Callable[[], Any]:
    """A function that takes the counters of draws, and gives their seeds and first counters."""
    device, counts = calls[0].spec.device, [call.counters for call in calls]

    def reserve() -> Any:
        generator = default_generator(device)
        return np.array([generator.reserve(count) for count in counts], np.uint64)

    return reserve


class _Stage(NamedTuple):
    """A part of a kernel: a kernel without draws, or a draw.

    Attributes:
        function: from arrays, and for a draw its seed and first counter, to arrays.
        inputs: the places of what it is given.
        outputs: the places of what it makes; -1 for what nobody reads.
        draw: its number among the draws; None for a kernel.
    """

    function: Callable[..., Any]
    inputs: list[int]
    outputs: list[int]
    draw: int | None


def in_stages(
    kernel: FusedKernel | RowsKernel, function_of: Callable[[FusedKernel | RowsKernel], Kernel]
) -> Kernel:
    """A function from the arrays of a kernel's inputs to those of its outputs, which draws as eager calls do.

    Args:
        kernel: the kernel.
        function_of: makes a kernel without draws a function.
    """
    places = {node: i for i, node in enumerate(kernel.inputs)}
    stages: list[_Stage] = []
    for part in _parts(kernel):
        if isinstance(part, DropoutCall):
            made, inputs = [part.results.get(place) for place in (0, 1)], [part.source]
        else:
            made, inputs = list(part.outputs), list(part.inputs)
        given = [places[node] for node in inputs]
        places |= {node: len(places) + i for i, node in enumerate(filter(None, made))}
        outputs = [-1 if node is None else places[node] for node in made]
        if isinstance(part, DropoutCall):
            stages.append(_Stage(_eager_draw(part), given, outputs, kernel.draws.index(part)))
        else:
            stages.append(_Stage(function_of(part), given, outputs, None))
    reserve, results = reservation(kernel.draws), [places[node] for node in kernel.outputs]

    def compute(*inputs: Any) -> tuple[Any, ...]:
        values = dict(enumerate(inputs))
        numbers = reserve().tolist()
        for function, given, outputs, draw in stages:
            arrays = [values[place] for place in given]
            made = function(*arrays) if draw is None else function(*arrays, *numbers[draw])
            values.update(zip(outputs, made, strict=True))
        return tuple([values[place] for place in results])

    return compute


def _parts(kernel: FusedKernel | RowsKernel) -> list[FusedKernel | RowsKernel | DropoutCall]:
    """Kernels without draws, and draws, each after those that it reads."""
    levels: dict[Node, int] = {}
    inside: dict[int, list[Any]] = {}
    draws: dict[int, list[DropoutCall]] = {}
    for call in kernel.calls:
        level = max((levels.get(node, 0) for node in call.node.all_input_nodes), default=0)
        if isinstance(call, DropoutCall):
            draws.setdefault(level, []).append(call)
            levels |= dict.fromkeys((call.node, *call.results.values()), level + 1)
            continue
        levels[call.node] = level
        if not isinstance(call, ResultOf) or call.node.args[0] in (
            each.node for each in inside.get(level, ())
        ):
            inside.setdefault(level, []).append(call)
    found: list[FusedKernel | RowsKernel | DropoutCall] = []
    for level in sorted({*inside, *draws}):
        if level in inside:
            found.append(_part(kernel, inside[level]))
        found += draws.get(level, [])
    return found


def _part(kernel: FusedKernel | RowsKernel, calls: Sequence[Any]) -> FusedKernel | RowsKernel:
    """Some steps of a kernel as one of their own."""
    own = {call.node for call in calls}
    several = {call.node.args[0] for call in calls if isinstance(call, ResultOf)}
    inputs = dict.fromkeys(node for call in calls for node in call.node.all_input_nodes if node not in own)
    outputs = [
        call.node
        for call in calls
        if call.node not in several
        and (call.node in kernel.outputs or any(user not in own for user in call.node.users))
    ]
    if isinstance(kernel, RowsKernel):
        return RowsKernel(tuple(calls), tuple(inputs), tuple(outputs), kernel.space)
    return FusedKernel(tuple(calls), tuple(inputs), tuple(outputs))


def _eager_draw(call: DropoutCall) -> Callable[..., tuple[Any, ...]]:
    """A function from what elements are dropped of, a seed and a first counter to what is left, and the mask."""
    outputs = tuple(call.node.val)
    into = kernel_of("native_dropout", "native_dropout_stub", outputs, {"input": call.spec, "p": float})
    allocators, p = [allocator_of(spec) for spec in outputs], call.p

    def draw(given: Any, seed: int, first: int) -> tuple[Any, ...]:
        made = tuple([new() for new in allocators])
        into(*made, given, p, seed, first)
        return made

    return draw
