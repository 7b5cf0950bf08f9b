"""Errors of the runtime: PyTorch's exception types, and c10's split between checks and internal asserts.

A *check* guards against a caller's mistake and raises the error that PyTorch raises. An *internal assert* guards
against a bug in triten and says so. Both are for cold paths, as their arguments are evaluated before the call; hot
paths use an ``if``. Source: c10/util/Exception.h, torch/__init__.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Literal, NoReturn, overload

Message = str | Callable[[], object]

DEBUG = __debug__ and os.environ.get("TRITEN_DEBUG", "0") not in ("", "0")
"""True if `internal_assert_debug_only` is active: with ``TRITEN_DEBUG=1`` in the environment, and not under ``-O``."""


class OutOfMemoryError(RuntimeError):
    """Error: a device is out of memory (`tt.cuda.OutOfMemoryError`)."""


class AcceleratorError(RuntimeError):
    """Error of a device or its driver (`tt.AcceleratorError`); `error_code` is the runtime API's number."""

    def __init__(self, message: str, error_code: int) -> None:
        super().__init__(message)
        self.error_code = error_code


class NotComplexError(RuntimeError, AttributeError):
    """Error: a real tensor has no imaginary part. It is PyTorch's error, and for `hasattr` a missing attribute."""


class InternalAssertError(AssertionError, RuntimeError):
    """Error: a bug in triten itself, never the user's mistake. It is also a RuntimeError, like PyTorch's."""


def check(condition: bool, message: Message | None = None, error: type[Exception] = RuntimeError) -> None:
    """Raise ``error(message)`` unless `condition` holds, for a caller's mistake (TORCH_CHECK).

    Args:
        condition: A bool; other truthy values are refused.
        message: Text, or a function that returns it, called only if the check fails.
        error: Type of the exception.

    Raises:
        TypeError: For a condition that is no bool, or a message of another type.

    Example:
        >>> from triten.library import check
        >>> check(1 < 2, "no")
        >>> check(1 > 2, lambda: f"expected {1} > {2}", ValueError)
        Traceback (most recent call last):
            ...
        ValueError: expected 1 > 2
    """
    if condition.__class__ is not bool:
        raise TypeError(f"cond must be a bool, but got {type(condition)}")
    if condition:
        return
    if message is None:
        raise error("Expected cond to be True, but got False.")
    if not isinstance(message, str) and not callable(message):
        raise TypeError("message must be a callable")
    raise error(message if isinstance(message, str) else str(message()))


@overload
def internal_assert(condition: Literal[False], message: Message = "") -> NoReturn: ...
@overload
def internal_assert(condition: bool, message: Message = "") -> None: ...
def internal_assert(condition: bool, message: Message = "") -> None:
    """Raise InternalAssertError with the caller's file and line, for a state that only a bug in triten can reach.

    For a caller's mistake, use `check`. Source: TORCH_INTERNAL_ASSERT.

    Example:
        >>> from triten.library import internal_assert
        >>> internal_assert(False, "two roots")
        Traceback (most recent call last):
            ...
        triten.runtime.errors.InternalAssertError: INTERNAL ASSERT FAILED at "...":1: two roots. ...
    """
    if not condition:
        raise _failure(message)


def internal_assert_debug_only(condition: Callable[[], bool], message: Message = "") -> None:
    """Call `internal_assert` if `DEBUG` is set; otherwise do not even call `condition`.

    Source: TORCH_INTERNAL_ASSERT_DEBUG_ONLY.
    """
    if DEBUG and not condition():
        raise _failure(message)


def _failure(message: Message) -> InternalAssertError:
    caller = sys._getframe(2)
    text = message if isinstance(message, str) else str(message())
    return InternalAssertError(
        f'INTERNAL ASSERT FAILED at "{caller.f_code.co_filename}":{caller.f_lineno}'
        f"{': ' if text else ''}{text}. This is a bug in triten, not in your program; please report it."
    )


def _check_with(error_type: type[Exception], cond: bool, message: Message | None = None) -> None:
    """Call `check` with PyTorch's order of arguments."""
    check(cond, message, error_type)


def _check(cond: bool, message: Message | None = None) -> None:
    """Call `check` with RuntimeError (`torch._check`)."""
    check(cond, message, RuntimeError)


def _check_index(cond: bool, message: Message | None = None) -> None:
    """Call `check` with IndexError."""
    check(cond, message, IndexError)


def _check_value(cond: bool, message: Message | None = None) -> None:
    """Call `check` with ValueError."""
    check(cond, message, ValueError)


def _check_type(cond: bool, message: Message | None = None) -> None:
    """Call `check` with TypeError."""
    check(cond, message, TypeError)


def _check_not_implemented(cond: bool, message: Message | None = None) -> None:
    """Call `check` with NotImplementedError."""
    check(cond, message, NotImplementedError)


def not_a_tensor(value: object, function: str, argument: str = "input", position: int = 1) -> TypeError:
    """Return the argument parser's error for a value that should be a tensor.

    Example:
        >>> from triten.runtime.errors import not_a_tensor
        >>> not_a_tensor("x", "numel")
        TypeError("numel(): argument 'input' (position 1) must be Tensor, not str")
    """
    return TypeError(
        f"{function}(): argument '{argument}' (position {position}) must be Tensor, not {type(value).__name__}"
    )


def two_devices(first: object, second: object, checking: str = "") -> str:
    """Return the message for tensors on two devices, with the remedy; `checking` names the argument or operator.

    Example:
        >>> from triten.runtime.errors import two_devices
        >>> print(two_devices("cuda:0", "cpu").partition(", but ")[2])
        found at least two devices, cuda:0 and cpu! Copy them to one device, such as with x.to('cuda:0').
    """
    target = next((each for each in (first, second) if str(each) not in ("cpu", "meta")), None)
    return (
        f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
        + (f" (when checking {checking})" if checking else "")
        + (f" Copy them to one device, such as with x.to('{target}')." if target else "")
    )


class LinAlgError(RuntimeError):
    """Error: a matrix has no such factorization, or none was found (`tt.linalg.LinAlgError`)."""


class NegativeStep(ValueError):
    """Error: a slice with a negative step has no view; `tensor[...]` copies instead."""


class MissingDerivativeError(NotImplementedError):
    """An operator or an argument has no derivative."""
