"""Whether two records of a program agree."""

import re
from typing import Any

import numpy as np

from .execution import Look, Record

PRECISION = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1.2e-7, "float64": 2.3e-16, "complex64": 1.2e-7, "complex128": 2.3e-16}
ROOM = 64
LATER = ("written",)
"""Facts that are compared only if all else agrees."""
WIDER = re.compile(r"tt\.(float32|float16|bfloat16)\b")


class Difference(Exception):
    """Two records differ. `value` says whether only numbers do."""

    def __init__(self, message: str, *, value: bool = False) -> None:
        super().__init__(message)
        self.value = value


KNOWN_REFUSALS = (
    # A derivative of ours may need fewer values than PyTorch's: of what it does not need, a write is no harm.
    ("triten", "PyTorch", "needed for gradient computation has been modified by an inplace"),
    # PyTorch warns of these writes and does them.
    ("PyTorch", "triten", "more than one element of the written-to tensor refers to a single memory location"),
)
"""Who does a statement, who refuses it, and with which words, where the difference is meant."""


class Known(Exception):
    """Two records differ as is meant."""


def in_double(statements: list[str]) -> list[str]:
    """The same program with float64 and complex128 in the place of narrower dtypes."""
    wide = [WIDER.sub("tt.float64", each).replace("tt.complex64", "tt.complex128") for each in statements]
    return [each.replace(".float()", ".double()") for each in wide]


def compare(found: Record, expected: Record, names: tuple[str, str], statements: list[str]) -> None:
    """Compare everything.

    Raises:
        Difference: for the first that differs.
    """
    for number, text in enumerate(statements):
        error, other = found.errors.get(number), expected.errors.get(number)
        if (error and error[0].__name__) != (other and other[0].__name__):
            for does, refuses, words in KNOWN_REFUSALS:
                said = {names[0]: error, names[1]: other}
                if said.get(does, ()) is None and words in (said.get(refuses) or ("", ""))[1]:
                    raise Known
            raise Difference(f"`{text}`: {names[0]} {_said(error)}, {names[1]} {_said(other)}")
    if found.looks.keys() != expected.looks.keys():
        raise Difference(f"variables: {sorted(found.looks.keys() ^ expected.looks.keys())}")
    values: Difference | None = None
    for name, look in expected.looks.items():
        try:
            _compare(name, found.looks[name], look)
        except Difference as difference:
            if not difference.value:
                raise
            values = values or difference
    if found.shared != expected.shared:
        for kind in expected.shared:
            if found.shared[kind] != expected.shared[kind]:
                raise Difference(f"one {kind}: {found.shared[kind]}, not {expected.shared[kind]}")
    for name, look in expected.looks.items():
        if isinstance(look, Look):
            for fact in LATER:
                mine, theirs = found.looks[name].facts[fact], look.facts[fact]
                if mine != theirs:
                    raise Difference(f"{name}.{fact}: {mine}, not {theirs}")
    if values:
        raise values


def _said(error: tuple[type[Exception], str] | None) -> str:
    return "does it" if error is None else f"raises {error[0].__name__}: {error[1][:160]}"


def _compare(name: str, mine: Any, theirs: Any) -> None:
    if isinstance(mine, Look) != isinstance(theirs, Look):
        raise Difference(f"{name}: {type(mine).__name__}, not {type(theirs).__name__}")
    if not isinstance(mine, Look):
        if type(mine) in (int, float, bool, str, type(None)) and mine != theirs and mine == mine:
            raise Difference(f"{name}: {mine!r}, not {theirs!r}", value=True)
        return
    for fact, value in theirs.facts.items():
        if mine.facts[fact] != value and fact not in LATER:
            raise Difference(f"{name}.{fact}: {mine.facts[fact]}, not {value}")
    if (mine.grad is None) != (theirs.grad is None):
        raise Difference(f"{name}.grad: {'None' if mine.grad is None else 'a tensor'} on one side")
    try:
        near(name, mine.values, theirs.values, theirs.facts["dtype"])
    finally:
        if mine.grad is not None:
            _compare(f"{name}.grad", mine.grad, theirs.grad)


def near(name: str, mine: np.ndarray, theirs: np.ndarray, dtype: str) -> None:
    """Raise Difference unless numbers are as near as rounding of a few steps leaves them."""
    if dtype not in PRECISION:
        if not np.array_equal(mine, theirs):
            raise Difference(f"{name}: {mine.tolist()}, not {theirs.tolist()}", value=True)
        return
    finite = theirs[np.isfinite(theirs)]
    scale = float(np.abs(finite).max()) if finite.size else 0.0
    tolerance = PRECISION[dtype] * ROOM
    if not np.allclose(mine, theirs, rtol=tolerance, atol=tolerance * min(scale, 1e3), equal_nan=True):
        raise Difference(f"{name}: {mine.tolist()}, not {theirs.tolist()}", value=True)
