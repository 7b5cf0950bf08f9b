"""Failure check of a program: compiling or running it raises, or its results differ from those of its operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...dispatch.layers.graph.graph import Graph
from ...runtime.scalar_type import complex128, float64
from ...runtime.tensor_impl import TensorImpl
from ..backends import Backend, interpreted
from ..pipeline import compile_graph
from .program import Program, seeded


@dataclass(frozen=True)
class Failure:
    """How a program fails.

    Attributes:
        kind: ``"differs"``, ``"check"``, or the class of the error that is raised.
        text: a sentence about it.
    """

    kind: str
    text: str


Check = Callable[[Graph, Sequence[Any]], Any]


def failure_of(program: Program, backend: str | Backend, rtol: float, atol: float) -> Failure | None:
    """Return a program's failure, or None if it does not fail, or does not run uncompiled either."""
    inputs, own = program.copied_inputs(), program.copied_inputs()
    with seeded(program.inputs):
        try:
            expected = interpreted(program.graph)(*inputs)
        except Exception:  # a part of a program that its operators refuse is no smaller program
            return None
    with seeded(program.inputs):
        try:
            outputs = tuple(compile_graph(program.graph.copy(), backend, own)[0](*own))
        except Exception as error:  # any exception is the failure that the caller looks for
            line = str(error).partition("\n")[0]
            return Failure(type(error).__name__, f"{type(error).__name__}: {line}")
    if len(outputs) != len(expected):
        return Failure("differs", f"there are {len(outputs)} results compiled, {len(expected)} not")
    for description, expected_outputs, had in (("result", expected, outputs), ("input", inputs, own)):
        for i, (a, b) in enumerate(zip(expected_outputs, had, strict=True)):
            text = difference(a, b, rtol, atol)
            if text is not None:
                return Failure("differs", f"{description} {i} {text}")
    return None


def check_of(check: Check) -> Callable[[Program], Failure | None]:
    """Return a failure check that calls a user's check."""

    def failure(program: Program) -> Failure | None:
        with seeded(program.inputs):
            fails = check(program.graph.copy(), program.copied_inputs())
        return Failure("check", "the check is true") if fails else None

    return failure


def difference(expected: Any, outputs: Any, rtol: float, atol: float) -> str | None:
    """Describe how two results differ, as the end of a sentence; None if they are close."""
    if not isinstance(expected, TensorImpl) or not isinstance(outputs, TensorImpl):
        return (
            None
            if expected is outputs or expected == outputs
            else f"is {outputs!r} compiled, {expected!r} not"
        )
    a, b = expected._spec, outputs._spec
    if (a.sizes, a.dtype, a.device) != (b.sizes, b.dtype, b.device):
        return f"is {b!r} compiled, {a!r} not"
    expected_leaf, had = (_numbers(tensor) for tensor in (expected, outputs))
    with np.errstate(all="ignore"):
        close = np.isclose(had, expected_leaf, rtol, atol, equal_nan=True)
    if close.all():
        return None
    index = tuple(int(i) for i in np.argwhere(~close)[0])
    return (
        f"differs in {int((~close).sum())} of {close.size} elements, at {list(index)} {had[index]!s} compiled, "
        f"{expected_leaf[index]!s} not"
    )


def _numbers(tensor: Any) -> Any:
    dtype = tensor._spec.dtype
    wide = complex128 if dtype.is_complex else float64 if dtype.is_floating_point else dtype
    return np.asarray(tensor.detach().cpu().to(wide).numpy())
