"""`SymInt`, `SymFloat`, `SymBool`: PyTorch's symbolic sizes, and functions that accept them.

Sizes are always concrete numbers here, also in recordings. No value is an instance of these classes, and the
functions work on Python numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

from ..core.tensor_function import overridable

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]

Value = TypeVar("Value")


class _Symbolic:
    """Class without instances."""

    __slots__ = ()

    def __new__(cls, *args: Any, **named: Any) -> NoReturn:
        """Raise TypeError."""
        raise TypeError(f"{cls.__name__}: there are no symbolic numbers, sizes are Python's own")


class SymInt(_Symbolic):
    """Symbolic size (`torch.SymInt`); no value is an instance.

    Example:
        >>> import triten as tt
        >>> isinstance(tt.ones(2).shape[0], (int, tt.SymInt)), isinstance(2, tt.SymInt)
        (True, False)
    """

    __slots__ = ()


class SymFloat(_Symbolic):
    """Symbolic number computed from sizes (`torch.SymFloat`); no value is an instance."""

    __slots__ = ()


class SymBool(_Symbolic):
    """Symbolic comparison of sizes (`torch.SymBool`); no value is an instance."""

    __slots__ = ()


@overridable
def sym_int(a: Any) -> int:
    """Return `int` of a number, rounded towards zero (`torch.sym_int`).

    Args:
        a: A number.

    Returns:
        An integer.

    Example:
        >>> import triten as tt
        >>> tt.sym_int(-3.7)
        -3
    """
    return int(a)


@overridable
def sym_float(a: Any) -> float:
    """Return `float` of a number (`torch.sym_float`).

    Args:
        a: A number.

    Returns:
        A float.

    Example:
        >>> import triten as tt
        >>> tt.sym_float(3)
        3.0
    """
    return float(a)


@overridable
def sym_max(a: Any, b: Any) -> Any:
    """Return the larger of two numbers, a float if either is one (`torch.sym_max`).

    Args:
        a: A number.
        b: Another.

    Returns:
        One of them.

    Example:
        >>> import triten as tt
        >>> tt.sym_max(3, 2), tt.sym_max(3, 2.0)
        (3, 3.0)
    """
    result = max(a, b)
    return float(result) if isinstance(a, float) or isinstance(b, float) else result


@overridable
def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers, a float if either is one (`torch.sym_min`).

    Args:
        a: A number.
        b: Another.

    Returns:
        One of them.

    Example:
        >>> import triten as tt
        >>> tt.sym_min(3, 2), tt.sym_min(3.0, 2)
        (2, 2.0)
    """
    result = min(a, b)
    return float(result) if isinstance(a, float) or isinstance(b, float) else result


@overridable
def sym_not(a: Any) -> bool:
    """Return the negation of a condition (`torch.sym_not`).

    Args:
        a: A condition.

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> tt.sym_not(2 > 1)
        False
    """
    return not a


@overridable
def sym_ite(b: bool, t: Value, f: Value) -> Value:
    """Return `t` if `b` holds, else `f` (`torch.sym_ite`).

    Args:
        b: A bool.
        t: Any value.
        f: One of the same type.

    Returns:
        `t` or `f`.

    Raises:
        AssertionError: `b` is not a bool, or `t` and `f` have different types.

    Example:
        >>> import triten as tt
        >>> tt.sym_ite(2 > 1, 10, 20)
        10
    """
    if not isinstance(b, bool):
        raise AssertionError(f"sym_ite: expected a bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"sym_ite: expected t and f of one type, got {type(t)} and {type(f)}")
    return t if b else f


@overridable
def sym_sqrt(a: Any) -> float:
    """Return the square root of a number (`torch.sym_sqrt`).

    Args:
        a: A number.

    Returns:
        A float.

    Raises:
        ValueError: `a` is negative.

    Example:
        >>> import triten as tt
        >>> tt.sym_sqrt(16)
        4.0
    """
    return math.sqrt(a)


@overridable
def sym_sum(args: Iterable[Any]) -> Any:
    """Return the sum of numbers (`torch.sym_sum`).

    Args:
        args: Numbers.

    Returns:
        Their sum, 0 for none.

    Example:
        >>> import triten as tt
        >>> tt.sym_sum([1, 2, 3])
        6
    """
    return sum(args)
