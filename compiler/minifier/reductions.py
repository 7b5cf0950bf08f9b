"""Delta debugging: smaller programs that still fail.

Source: A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ...dispatch.layers.graph.graph import Node
from ...dispatch.layers.graph.make_graph import make_graph
from .program import Program, copied, evaluated, is_tensor, part_of

Item = TypeVar("Item")
Fails = Callable[[Program], bool]


def minimized(program: Program, fails: Fails) -> Program:
    """Return a failing program with few results, steps and elements. The given program must fail."""
    steps = -1
    while len(program.steps) != steps:
        steps = len(program.steps)
        for reduce in (_fewer_outputs, _earliest_output, _fewer_steps):
            program = reduce(program, fails)
    return _smaller_sizes(program, fails)


def smallest_subset(items: Sequence[Item], fails: Callable[[list[Item]], bool]) -> list[Item]:
    """Return a minimal subset for which `fails` is True, as it is for all items.

    Example:
        >>> from triten.compiler.minifier.reductions import smallest_subset
        >>> smallest_subset(range(20), lambda chosen: {3, 11} <= set(chosen))
        [3, 11]
    """
    left = list(items)
    parts = 2
    while left:
        size = -(-len(left) // parts)
        for start in range(0, len(left), size):
            without = left[:start] + left[start + size :]
            if fails(without):
                left, parts = without, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(left))
    return left


def _fewer_outputs(program: Program, fails: Fails) -> Program:
    values, steps = evaluated(program), program.steps

    def made(outputs: Sequence[Node]) -> Program:
        return part_of(program, values, steps, outputs)

    return made(smallest_subset(program.outputs, lambda outputs: fails(made(outputs))))


def _earliest_output(program: Program, fails: Fails) -> Program:
    """Bisect for the first node that fails as the only result, since errors propagate to later nodes."""
    values, steps = evaluated(program), program.steps
    nodes = [node for node in program.graph.find_nodes(op="call_function") if is_tensor(node)]

    def made(index: int) -> Program:
        before = set(nodes[: index + 1])
        return part_of(program, values, [n for n in steps if n in before or not is_tensor(n)], [nodes[index]])

    low, high = 0, len(nodes)
    while low < high:
        middle = (low + high) // 2
        if fails(made(middle)):
            high = middle
        else:
            low = middle + 1
    if high == len(nodes):
        return program
    output_index = made(high)
    return output_index if len(output_index.steps) < len(program.steps) else program


def _fewer_steps(program: Program, fails: Fails) -> Program:
    """Remove unneeded steps; values that only removed steps read become results."""
    values, outputs, steps = evaluated(program), set(program.outputs), program.steps

    def made(steps: Sequence[Node]) -> Program:
        inside = set(steps)
        inside |= {n for n in program.graph.nodes if n.target is operator.getitem and n.args[0] in inside}
        ends = [
            n
            for n in program.graph.nodes
            if n in inside and is_tensor(n) and (n in outputs or not any(user in inside for user in n.users))
        ]
        return part_of(program, values, steps, ends)

    return made(smallest_subset(steps, lambda kept: fails(made(kept)))) if fails(made(steps)) else program


def _smaller_sizes(program: Program, fails: Fails) -> Program:
    """Reduce the sizes of inputs one by one as far as possible."""
    sizes = sorted({n for tensor in program.inputs for n in tensor._spec.sizes if n > 1}, reverse=True)
    for size in sizes:
        for smaller in sorted({1, 2, 3, size // 4, size // 2} - {0}):
            if smaller >= size:
                break
            candidates = (_resized(program, size, smaller, multiples) for multiples in (False, True))
            smaller_program = next((p for p in candidates if p is not None and fails(p)), None)
            if smaller_program is not None:
                program = smaller_program
                break
    return program


def _resized(program: Program, size: int, smaller: int, multiples: bool) -> Program | None:
    """Replace a size, and optionally its multiples, in a program; return None if operators refuse."""

    def changed(value: Any, in_tuple: bool = False) -> Any:
        if isinstance(value, tuple):
            return tuple([changed(v, True) for v in value])
        if in_tuple and value.__class__ is int and value:
            if value == size:
                return smaller
            if multiples and value % size == 0:
                return value // size * smaller
        return value

    inputs = []
    for tensor in program.inputs:
        for dim, n in enumerate(tensor._spec.sizes):
            if n == size or (multiples and n and n % size == 0):
                tensor = tensor.narrow(dim, 0, n // size * smaller)
        inputs.append(copied(tensor.contiguous()))

    def run(*args: Any) -> tuple[Any, ...]:
        values = dict(zip(program.graph.find_nodes(op="placeholder"), args, strict=True))

        def argument(value: Any) -> Any:
            if isinstance(value, Node):
                return values[value]
            return tuple([argument(v) for v in value]) if isinstance(value, tuple) else value

        for node in program.graph.find_nodes(op="call_function"):
            named = {name: argument(changed(value)) for name, value in node.kwargs.items()}
            values[node] = node.target(*[argument(changed(value)) for value in node.args], **named)
        return tuple([values[node] for node in program.outputs])

    try:
        return Program(make_graph(run, "fake")(*inputs).graph, tuple(inputs))
    except Exception:  # operators say in many ways that sizes do not fit
        return None
