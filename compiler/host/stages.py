"""Order of an element program: loops, and NumPy calls between them.

A NumPy call on whole blocks splits a program: the loop before it stores the call's operands, and the loop after it
continues. Each value is in the earliest possible loop, so there are only as many loops as the longest chain of NumPy
calls requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...runtime.cpu.element_loop import Loop, made_of
from ...runtime.cpu.element_program import Value
from .lowering import Lowered


@dataclass(frozen=True)
class NumpyStep:
    """Ufunc or operator that NumPy computes: its value, and the array that it is stored to."""

    value: Value
    target: str

    @property
    def reads(self) -> tuple[Value, ...]:
        """Values loaded from arrays."""
        return self.value.operands


@dataclass(frozen=True)
class Stages:
    """Steps of a kernel in order, and the arrays between them.

    Attributes:
        steps: Loops and NumPy calls.
        arrays: The name of each value's array, by the value's `id`: ``a0`` for inputs, ``o0`` for outputs, ``t0`` for
            intermediates.
    """

    steps: tuple[Loop | NumpyStep, ...]
    arrays: dict[int, str]

    @property
    def loops(self) -> list[Loop]:
        """The loops alone."""
        return [step for step in self.steps if isinstance(step, Loop)]

    def __str__(self) -> str:
        loops = len(self.loops)
        if loops == len(self.steps) == 1:
            return "one compiled loop"
        names = [step.value.name for step in self.steps if isinstance(step, NumpyStep)]
        return f"{loops} compiled loop{'s' * (loops > 1)}, and NumPy's {', '.join(names)} between"


def staged(lowered: Lowered) -> Stages:
    """Return the stages of a kernel."""
    order = made_of(lowered.outputs)
    levels: dict[int, int] = {}
    for value in order:
        level = max((levels[id(o)] for o in value.operands), default=0)
        levels[id(value)] = level + value.by_numpy
    arrays = {id(v): f"a{v.detail}" for v in order if v.kind in ("input", "place")}
    copies: list[tuple[Value, str]] = []
    for k, value in enumerate(lowered.outputs):
        if id(value) in arrays or value.kind == "constant":
            copies.append((value, f"o{k}"))
        else:
            arrays[id(value)] = f"o{k}"
    for value in order:
        for operand in value.operands:
            if operand.kind in ("constant", "input") or id(operand) in arrays:
                continue
            if value.by_numpy or operand.by_numpy or levels[id(operand)] < levels[id(value)]:
                arrays[id(operand)] = f"t{len(arrays)}"
    steps: list[Loop | NumpyStep] = []
    for level in range(max(levels.values(), default=0) + 1):
        steps += [NumpyStep(v, arrays[id(v)]) for v in order if v.by_numpy and levels[id(v)] == level]
        level_values = [v for v in order if levels[id(v)] == level]
        writes = [(v, arrays[id(v)]) for v in level_values if v.kind == "instruction" and id(v) in arrays]
        writes += [(v, name) for v, name in copies if levels[id(v)] == level]
        if writes:
            steps.append(Loop(tuple(_leaves([v for v, _ in writes], arrays, levels, level)), tuple(writes)))
    return Stages(tuple(steps), arrays)


def _leaves(
    values: Sequence[Value], arrays: dict[int, str], levels: dict[int, int], level: int
) -> list[Value]:
    """Return the values that a loop reads from arrays: inputs, NumPy results, and values that earlier loops stored."""
    leaves: dict[int, Value] = {}
    visited: set[int] = set()
    stack = list(reversed(values))
    while stack:
        value = stack.pop()
        if id(value) in visited or value.kind == "constant":
            continue
        visited.add(id(value))
        if value.kind != "instruction" or (id(value) in arrays and levels[id(value)] < level):
            leaves[id(value)] = value
        else:
            stack += reversed(value.operands)
    return list(leaves.values())
