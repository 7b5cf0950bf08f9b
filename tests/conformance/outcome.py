"""A call's result or error, and the differences of two outcomes."""

import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import torch

from .conversion import array_of, array_of_ours, flat

TOLERANCES = {
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
    torch.float32: (2e-5, 2e-5),
    torch.complex32: (2e-3, 1e-3),
    torch.complex64: (2e-5, 2e-5),
}
RESIZED = "An output with one or more elements was resized"


class Difference(Exception):
    """Difference between triten's outcome and PyTorch's: the text of a finding."""


class ValueDifference(Difference):
    """The same shapes and dtypes, other values."""


class TimeUpError(BaseException):
    """The operator's time is spent."""


@dataclass(frozen=True)
class Outcome:
    """A call's value, or what it raised; and whether it warned that it resized an output."""

    value: Any = None
    raised: Exception | None = None
    resized: bool = False


def outcome(call: Callable[[], Any]) -> Outcome:
    """Make the call; whatever it raises is an outcome, to be compared with theirs."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            value, raised = call(), None
        except Exception as error:  # any type may be the right one
            value, raised = None, error
    return Outcome(value, raised, any(RESIZED in str(warning.message) for warning in given))


def refusal_differs(theirs: Exception, ours: Exception) -> str:
    """Describe how the exceptions' types differ; return an empty string if they agree."""
    if _plain_type(theirs) is _plain_type(ours):
        return ""
    return (
        f"{type(theirs).__name__} expected ({_first(theirs)}), {type(ours).__name__} raised: {_first(ours)}"
    )


def texts_agree(theirs: Exception, ours: Exception) -> bool:
    """Return True if two messages are similar, by the share of characters in common."""
    return difflib.SequenceMatcher(None, _first(theirs, 400), _first(ours, 400)).ratio() >= 0.6


def compare_outcomes(
    theirs: Outcome,
    ours: Outcome,
    *,
    free: bool = False,
    meta: bool = False,
    computed: torch.dtype | None = None,
) -> None:
    """Check that both gave the same result or both refused alike. Raises Difference."""
    if theirs.raised is not None:
        if ours.raised is None:
            raise Difference(
                f"{type(theirs.raised).__name__} expected ({_first(theirs.raised)}), nothing raised"
            )
        if differs := refusal_differs(theirs.raised, ours.raised):
            raise Difference(differs)
        return
    if ours.raised is not None:
        raise Difference(f"{type(ours.raised).__name__} raised: {_first(ours.raised)}") from ours.raised
    if theirs.resized != ours.resized:
        raise Difference(f"PyTorch {'warns' if theirs.resized else 'does not warn'} that it resizes")
    compare_values(theirs.value, ours.value, free=free, meta=meta, computed=computed)


def compare_values(
    theirs: Any,
    ours: Any,
    *,
    free: bool = False,
    meta: bool = False,
    computed: torch.dtype | None = None,
    what: str = "result",
) -> None:
    """Compare shapes, dtypes and values. Raises Difference.

    Args:
        free: values are not determined.
        meta: there are no values.
        computed: the dtype that was computed in, if it is not the result's.
        what: the results' name in a finding.
    """
    expected, given = flat(theirs), flat(ours)
    if len(expected) != len(given):
        raise Difference(f"{len(expected)} {what}s expected, {len(given)} given")
    for number, (want, got) in enumerate(zip(expected, given, strict=True)):
        at = f"{what} {number}" if len(expected) > 1 else what
        _compare_one(want, got, not free and not meta, computed, at)


def _compare_one(want: Any, got: Any, values: bool, computed: torch.dtype | None, at: str) -> None:
    if not isinstance(want, torch.Tensor):
        numbers = isinstance(want, bool | int | float | complex)
        if values and numbers and not np.isclose(complex(got), complex(want), rtol=1e-4, equal_nan=True):
            raise Difference(f"{at}: {want} expected, {got} given")
        return
    if tuple(got.shape) != tuple(want.shape):
        raise Difference(f"{at}: shape {tuple(want.shape)} expected, {tuple(got.shape)} given")
    name = str(want.dtype).removeprefix("torch.")
    if str(got.dtype).rpartition(".")[2] != name:
        raise Difference(f"{at}: dtype {name} expected, {got.dtype} given")
    if not values or want.layout != torch.strided or want.device.type == "meta":
        return
    exact, mine = array_of(want), array_of_ours(got)
    if exact.dtype.kind in "iub":
        same = np.array_equal(exact, mine)
        wide: Any = exact.dtype
    else:
        wide = _wide(exact)
        relative, absolute = TOLERANCES.get(computed or want.dtype, (1e-7, 1e-7))
        with np.errstate(all="ignore"):
            same = np.allclose(mine.astype(wide), exact.astype(wide), relative, absolute, equal_nan=True)
    if not same:
        raise ValueDifference(f"{at}: {_where(exact, mine)}")


def _wide(array: np.ndarray) -> Any:
    is_complex = array.dtype.kind == "c" or array.dtype == ml_dtypes.complex32
    return np.complex128 if is_complex else np.float64


def _where(exact: np.ndarray, mine: np.ndarray) -> str:
    wide = _wide(exact)
    with np.errstate(all="ignore"):
        a, b = exact.astype(wide), mine.astype(wide)
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= 2e-5 * np.abs(a)))
    places = np.argwhere(wrong)
    if not len(places):
        return "values differ"
    place = tuple(int(i) for i in places[0])
    return (
        f"{a[place]:.7g} expected at {place}, {b[place]:.7g} given; {len(places)} of {a.size} elements differ"
    )


def _plain_type(error: Exception) -> type:
    """Return an exception's built-in base type: PyTorch's and triten's own classes derive from those."""
    return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _first(error: Exception, length: int = 150) -> str:
    return " ".join(str(error).split())[:length]


@dataclass
class Tally:
    """Results of one mode for one operator."""

    operator: str
    mode: str
    cases: int = 0
    passed: int = 0
    outside: int = 0
    missing: bool = False
    texts: int = 0
    findings: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        if self.missing:
            return "missing"
        if self.findings:
            return "fail"
        if self.known:
            return "known"
        return "pass" if self.passed else "none"
