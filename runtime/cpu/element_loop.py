"""Loop of an element program: the values that it loads for each element, and the values that it stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..fork_lock import cached_property
from .element_program import Value


@dataclass(frozen=True)
class Loop:
    """Compiled loop.

    Attributes:
        reads: The values loaded from arrays.
        writes: Values, and the names of the arrays that they are stored to.
    """

    reads: tuple[Value, ...]
    writes: tuple[tuple[Value, str], ...]

    @cached_property
    def instructions(self) -> list[Value]:
        """Instructions in order."""
        return [value for value in self._made if value.kind == "instruction"]

    @property
    def accumulators(self) -> list[Value]:
        """Accumulators: values read from the array that they are written to."""
        return [value for value in self._made if value.kind == "accumulator"]

    @cached_property
    def _made(self) -> list[Value]:
        return made_of([value for value, _ in self.writes], self.reads)


def made_of(outputs: Sequence[Value], leaves: Sequence[Value] = ()) -> list[Value]:
    """Return values and all their operands, in order, except the leaves and their operands."""
    done = set(map(id, leaves))
    order: list[Value] = []
    stack = [(value, False) for value in reversed(outputs)]
    while stack:
        value, is_ready = stack.pop()
        if id(value) in done:
            continue
        if is_ready:
            done.add(id(value))
            order.append(value)
        else:
            stack.append((value, True))
            stack += [(operand, False) for operand in reversed(value.operands)]
    return order
