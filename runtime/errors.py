"""Errors of the runtime: PyTorch's exception types, and the check/internal-assert split of c10.

A *check* guards against a caller's mistake and raises what PyTorch raises; an *internal assert* guards
against ours and says so. Source: c10/util/Exception.h.
"""

from __future__ import annotations


class OutOfMemoryError(RuntimeError):
    """A device has no memory left for an allocation (`tt.cuda.OutOfMemoryError`)."""


def check(condition: bool, message: str, error: type[Exception] = RuntimeError) -> None:
    """Raise ``error(message)`` unless `condition` holds (TORCH_CHECK).

    Only for paths where building the message costs nothing that matters; elsewhere write the ``if``.
    """
    if not condition:
        raise error(message)


def internal_assert(condition: bool, message: str) -> None:
    """Raise AssertionError for a state that only a fault of triten itself can reach (TORCH_INTERNAL_ASSERT)."""
    if not condition:
        raise AssertionError(f"INTERNAL ASSERT FAILED: {message}. This is a bug in triten; please report it.")
