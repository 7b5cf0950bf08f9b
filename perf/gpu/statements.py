"""Statements of workloads as functions over input sets."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from .peer import Pair
from .timing import Work
from .workloads import Workload


def widened(tensor: Any) -> Any:
    """Return a PyTorch tensor as float64 without its gradient's history; integers stay."""
    return tensor.detach().double() if tensor.dtype.is_floating_point else tensor


def statement_runner(
    workload: Workload,
    library: ModuleType,
    sets: Iterable[dict[str, Pair]],
    which: int,
    *,
    compiled: bool = False,
) -> Work:
    """Return a function that evaluates the statement in a library, over the input set of a given index.

    The set-up runs at once for each set. If `compiled` is True, the library compiles the statement as a
    function of the operands.
    """
    functional = importlib.import_module(f"{library.__name__}.nn.functional")
    statement = (workload.peer_statement if which else "") or workload.statement
    spaces: list[dict[str, Any]] = []
    for operands in sets:
        space: dict[str, Any] = {"lib": library, "F": functional}
        space |= {name: pair[which] for name, pair in operands.items()}
        exec(workload.setup, space)
        spaces.append(space)
    if compiled:
        letters = ", ".join(workload.operands)
        function = library.compile(eval(f"lambda {letters}: {statement}", {"lib": library, "F": functional}))
        for space in spaces:
            space["compiled_statement"] = function
        statement = f"compiled_statement({letters})"
    code = compile(statement, f"<{workload.name}>", "eval")

    def work(number: int) -> object:
        return eval(code, spaces[number])

    return work
