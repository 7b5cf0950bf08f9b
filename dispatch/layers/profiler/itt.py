"""Ranges for Intel's VTune (`torch.profiler.itt`), whose library is not used: every function but one raises."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Return False: ITT is not used."""
    return False


def _missing(name: str) -> NoReturn:
    raise RuntimeError(f"itt.{name}: ITT functions not installed. Check is_available() first.")


def range_push(msg: str) -> NoReturn:
    """Raise RuntimeError: ITT is not used."""
    _missing("range_push")


def range_pop() -> NoReturn:
    """Raise RuntimeError: ITT is not used."""
    _missing("range_pop")


def mark(msg: str) -> NoReturn:
    """Raise RuntimeError: ITT is not used."""
    _missing("mark")


def range(msg: str, *args: object, **kwargs: object) -> NoReturn:
    """Raise RuntimeError: ITT is not used."""
    _missing("range")
