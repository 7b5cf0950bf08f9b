"""Comparison of two records of a program."""

import re
from collections.abc import Set
from typing import Any

import numpy as np

from .execution import Look, Record
from .function import Called

PRECISION = {
    "float16": 1e-3,
    "bfloat16": 8e-3,
    "float32": 1.2e-7,
    "float64": 2.3e-16,
    "complex64": 1.2e-7,
    "complex128": 2.3e-16,
}
VALUE = "wrong value"
ROOM, ROOM_IN_DOUBLE = 64, 4096
LATER = ("written",)
"""Facts that are compared only if all else agrees."""
WIDER = re.compile(r"tt\.(float32|float16|bfloat16)\b")


class Difference(Exception):
    """Two records differ; `kind` is the finding's."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def value(self) -> bool:
        """True if only numbers differ."""
        return self.kind == VALUE


NAME = re.compile(r"\bv\d+")
DTYPE_REFUSALS = ("not implemented for '", "is not supported for complex types")
SET_ITEM = re.compile(r"v\d+\[.*\] [-+*]?= ")
SET_ALL = re.compile(r"v\d+\[\.\.\.\] [-+*]= ")
OUT = re.compile(r"\bout=(v\d+)")
OWN_STRIDES = ("autograd.grad(", "logsigmoid(")
"""What lays its results out as its operands lie, and PyTorch, or its CPU alone, without gaps."""
KNOWN_REFUSALS = (
    (
        "triten",
        "PyTorch",
        "A view was created in no_grad mode and its base or another view of its base has been",
    ),
    # A node that keeps no tensor may run again.
    ("triten", "PyTorch", "Trying to backward through the graph a second time"),
    ("triten", "PyTorch", "Autograd not support dtype"),
    ("triten", "PyTorch", "ZeroTensors are immutable"),
    # kron looks at strides where it need not.
    ("triten", "PyTorch", "view size is not compatible with input tensor's size and stride"),
    # A derivative of ours may need fewer values than PyTorch's: of what it does not need, a write is no harm.
    ("triten", "PyTorch", "needed for gradient computation has been modified by an inplace"),
    ("triten", "PyTorch", "does not support automatic differentiation for outputs with complex dtype"),
    # PyTorch's derivatives have the wrong shape or dtype if bounds broadcast self, or if integers divide.
    ("triten", "PyTorch", "doesn't match the broadcast shape"),
    ("triten", "PyTorch", "result type Float can't be cast to the desired output type Long"),
    # A hook of what no gradient reaches is called with None; ours is not called.
    ("triten", "PyTorch", "unsupported operand type(s) for *: 'NoneType' and 'int'"),
    # PyTorch warns of these writes and does them.
    (
        "PyTorch",
        "triten",
        "more than one element of the written-to tensor refers to a single memory location",
    ),
)
"""Who does a statement, who refuses it, and with which words, where the difference is meant."""


class Known(Exception):
    """Two records differ as is meant."""


def in_double(statements: list[str]) -> list[str]:
    """Replace lower-precision dtypes by float64 and complex128."""
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
            if error and other and any(words in error[1] for words in DTYPE_REFUSALS):
                raise Known  # of two faults each names one: ours looks at dtypes first
            for does, refuses, words in KNOWN_REFUSALS:
                said = {names[0]: error, names[1]: other}
                # A view that was made by reshape is a leaf for PyTorch when it is written a second time.
                if SET_ALL.match(text) and error is None and "a leaf Variable" in f"{other}":
                    raise Known
                if SET_ITEM.match(text) and "single memory location" in f"{error} {other}":
                    raise Known  # what is written from the same memory is read first
                if said.get(does, ()) is None and words in (said.get(refuses) or ("", ""))[1]:
                    raise Known
            raise Difference(
                "refused otherwise", f"`{text}`: {names[0]} {_said(error)}, {names[1]} {_said(other)}"
            )
    if found.looks.keys() != expected.looks.keys():
        raise Difference(
            "refused otherwise", f"variables: {sorted(found.looks.keys() ^ expected.looks.keys())}"
        )
    values: Difference | None = None
    own_strides = {
        name
        for text in statements
        if any(words in text for words in OWN_STRIDES)
        for name in NAME.findall(text)
    }
    # A refused call may have resized its output in PyTorch; ours is as it was.
    # One that fails in the middle may have left some gradients.
    backward_failed = any("backward(" in statements[number] for number in expected.errors)
    kept = {name for number in expected.errors for name in OUT.findall(statements[number])}
    for name, look in expected.looks.items():
        mine = found.looks[name]
        if name in kept and getattr(mine, "facts", {}).get("shape") != getattr(look, "facts", {}).get(
            "shape"
        ):
            continue
        try:
            free = {"stride"} if name in own_strides else set()
            _compare(name, mine, look, free | ({"grad"} if backward_failed else set()))
        except Difference as difference:
            if not difference.value:
                raise
            if any("clamp" in text for text in statements) and _of_signed_zeros(mine, look):
                raise Known from None  # which of two zeros a bound leaves is not defined
            values = values or difference
    if found.shared != expected.shared:
        for kind in expected.shared:
            if found.shared[kind] != expected.shared[kind]:
                raise Difference(
                    "wrong aliasing", f"one {kind}: {found.shared[kind]}, not {expected.shared[kind]}"
                )
    for name, look in expected.looks.items():
        if isinstance(look, Look):
            for fact in LATER:
                mine, theirs = found.looks[name].facts[fact], look.facts[fact]
                if mine != theirs:
                    raise Difference(f"wrong {fact}", f"{name}.{fact}: {mine}, not {theirs}")
    if values:
        raise values


def _said(error: tuple[type[Exception], str] | None) -> str:
    return "does it" if error is None else f"raises {error[0].__name__}: {error[1][:160]}"


def _compare(name: str, mine: Any, theirs: Any, free: Set[str] = frozenset()) -> None:
    if isinstance(mine, Look) != isinstance(theirs, Look):
        raise Difference("wrong type", f"{name}: {type(mine).__name__}, not {type(theirs).__name__}")
    if not isinstance(mine, Look):
        if mine != theirs:
            raise Difference(VALUE, f"{name}: {mine!r}, not {theirs!r}")
        return
    for fact, value in theirs.facts.items():
        if mine.facts[fact] != value and fact not in LATER and fact not in free:
            raise Difference(f"wrong {fact}", f"{name}.{fact}: {mine.facts[fact]}, not {value}")
    if (mine.grad is None) != (theirs.grad is None) and "grad" not in free:
        raise Difference(
            "wrong gradient", f"{name}.grad: {'None' if mine.grad is None else 'a tensor'} on one side"
        )
    try:
        near(name, mine.values, theirs.values, theirs.facts["dtype"])
    finally:
        if mine.grad is not None and theirs.grad is not None and "grad" not in free:
            _compare(f"{name}.grad", mine.grad, theirs.grad)


def _of_signed_zeros(mine: Look, theirs: Look) -> bool:
    """Return True if values differ only in signs of infinities."""
    differ = ~np.isclose(mine.values, theirs.values, rtol=1e-3, atol=1e-3, equal_nan=True)
    return bool(np.isinf(mine.values[differ]).all() and np.isinf(theirs.values[differ]).all())


def near(name: str, mine: np.ndarray, theirs: np.ndarray, dtype: str) -> None:
    """Raise Difference unless numbers are as near as rounding of a few steps leaves them."""
    if dtype not in PRECISION:
        if not np.array_equal(mine, theirs):
            raise Difference(VALUE, f"{name}: {mine.tolist()}, not {theirs.tolist()}")
        return
    finite = theirs[np.isfinite(theirs)]
    scale = float(np.abs(finite).max()) if finite.size else 0.0
    tolerance = PRECISION[dtype] * (ROOM_IN_DOUBLE if dtype in ("float64", "complex128") else ROOM)
    if not np.allclose(
        mine, theirs, rtol=tolerance, atol=tolerance * min(max(scale, 1), 1e3), equal_nan=True
    ):
        raise Difference(VALUE, f"{name}: {mine.tolist()}, not {theirs.tolist()}")


RESULT_FACTS = ("dtype", "shape", "stride", "requires_grad", "is_conj", "is_neg")


def compare_results(found: Called, expected: Called, *, exact: bool, compares_gradients: bool = True) -> None:
    """Compare what two calls of a function gave.

    Args:
        found, expected: what they gave.
        exact: whether numbers must be the same to the bit; gradients, whose sums may be taken in another order, are
            compared with the tolerance of the narrowest dtype that they may have gone through.
        compares_gradients: whether they are compared.

    Raises:
        Difference: for the first that differs.
    """
    if (found.error and found.error[0]) != (expected.error and expected.error[0]):
        raise Difference("refused otherwise", f"{found.error}, not {expected.error}")
    if found.looks.keys() != expected.looks.keys():
        raise Difference("wrong type", f"results: {sorted(found.looks.keys() ^ expected.looks.keys())}")
    for name, theirs in expected.looks.items():
        mine = found.looks[name]
        for fact in RESULT_FACTS:
            if mine.facts[fact] != theirs.facts[fact]:
                raise Difference(
                    f"wrong {fact}", f"{name}.{fact}: {mine.facts[fact]}, not {theirs.facts[fact]}"
                )
        if exact and not np.array_equal(
            mine.values, theirs.values, equal_nan=theirs.values.dtype.kind in "fc"
        ):
            raise Difference(VALUE, f"{name}: {_few(mine.values, theirs.values)}")
        near(name, mine.values, theirs.values, theirs.facts["dtype"])
    if found.shared != expected.shared:
        raise Difference("wrong aliasing", f"one memory: {found.shared}, not {expected.shared}")
    if "error" in expected.gradients or not compares_gradients:
        return  # a value was written to that backward of the function needs, and not that of the graph, perhaps
    if found.gradients.keys() != expected.gradients.keys():
        raise Difference("wrong gradient", f"{found.gradients}, not {expected.gradients}")
    dtypes = {look.facts["dtype"] for look in expected.looks.values()} & PRECISION.keys()
    dtype = max(dtypes, key=lambda each: PRECISION[each], default="")
    for name, grad in expected.gradients.items():
        mine = found.gradients[name]
        if isinstance(grad, str) or isinstance(mine, str):
            if grad != mine:
                raise Difference("wrong gradient", f"{mine}, not {grad}")
            continue
        # Through a graph of several results, the gradient of what none of the wanted ones reads is zero, not None.
        zero = np.zeros(())
        near(
            f"gradient of {name}",
            *np.broadcast_arrays(zero if mine is None else mine, zero if grad is None else grad),
            dtype,
        )


def _few(mine: np.ndarray, theirs: np.ndarray) -> str:
    """Describe the first places at which two arrays of one shape differ."""
    places = np.argwhere(~((mine == theirs) | ((mine != mine) & (theirs != theirs))))[:3]
    shown = [f"{mine[tuple(p)]!r}, not {theirs[tuple(p)]!r} at {p.tolist()}" for p in places]
    return "; ".join(shown)
