"""Errors of the runtime: PyTorch's exception types, and the check/internal-assert split of c10.

A *check* guards against a caller's mistake and raises what PyTorch raises; an *internal assert* guards
against ours and says so. Both are for cold paths: arguments are evaluated before the call, so that elsewhere one
writes the ``if``. Source: c10/util/Exception.h, torch/__init__.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Literal, NoReturn, overload

Message = str | Callable[[], object]

DEBUG = __debug__ and os.environ.get("TRITEN_DEBUG", "0") not in ("", "0")
"""Whether `internal_assert_debug_only` looks: with ``TRITEN_DEBUG=1`` in the environment, and not under ``-O``."""


class OutOfMemoryError(RuntimeError):
    """A device has no memory left for an allocation (`tt.cuda.OutOfMemoryError`)."""


class AcceleratorError(RuntimeError):
    """A device or its driver failed (`tt.AcceleratorError`); `error_code` is the runtime API's number."""

    def __init__(self, message: str, error_code: int) -> None:
        super().__init__(message)
        self.error_code = error_code


class NotComplexError(RuntimeError, AttributeError):
    """A tensor of real numbers has no imaginary part. PyTorch's error, and for `hasattr` a missing attribute."""


class InternalAssertError(AssertionError, RuntimeError):
    """A fault of triten itself, never of its user. A RuntimeError too, as PyTorch's is."""


def check(condition: bool, message: Message | None = None, error: type[Exception] = RuntimeError) -> None:
    """Raise ``error(message)`` unless `condition` holds: a mistake of the caller's (TORCH_CHECK).

    Args:
        condition: a bool, nothing that merely counts as one.
        message: text, or a function that makes it, called only where the check fails.
        error: the exception's type.

    Raises:
        TypeError: for a condition that is no bool, or a message that is neither.

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
    """Raise InternalAssertError, naming the caller's file and line, for a state that only a fault of triten can reach.

    For a caller's mistake there is `check`. Source: TORCH_INTERNAL_ASSERT.

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
    """`internal_assert`, only where `DEBUG` is set; otherwise `condition` is not even called.

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
    """`check` with PyTorch's order of arguments."""
    check(cond, message, error_type)


def _check(cond: bool, message: Message | None = None) -> None:
    """`check` that raises RuntimeError (`torch._check`)."""
    check(cond, message, RuntimeError)


def _check_index(cond: bool, message: Message | None = None) -> None:
    """`check` that raises IndexError."""
    check(cond, message, IndexError)


def _check_value(cond: bool, message: Message | None = None) -> None:
    """`check` that raises ValueError."""
    check(cond, message, ValueError)


def _check_type(cond: bool, message: Message | None = None) -> None:
    """`check` that raises TypeError."""
    check(cond, message, TypeError)


def _check_not_implemented(cond: bool, message: Message | None = None) -> None:
    """`check` that raises NotImplementedError."""
    check(cond, message, NotImplementedError)


def not_a_tensor(value: object, function: str, argument: str = "input", position: int = 1) -> TypeError:
    """The error of a value in a tensor's place, as the argument parser says it.

    Example:
        >>> from triten.runtime.errors import not_a_tensor
        >>> not_a_tensor("x", "numel")
        TypeError("numel(): argument 'input' (position 1) must be Tensor, not str")
    """
    return TypeError(
        f"{function}(): argument '{argument}' (position {position}) must be Tensor, not {type(value).__name__}"
    )


class LinAlgError(RuntimeError):
    """A matrix has no such factorisation, or none was found (`tt.linalg.LinAlgError`)."""


class NegativeStep(ValueError):
    """Raised for a slice whose elements run backwards, of which there is no view: `tensor[...]` copies instead."""
