"""Registry of the driver's provider: `choose.py` registers functions, so the interface imports no implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .driver import Driver

_registered: list[tuple[Callable[[], Driver], Callable[[], bool], Callable[[Driver], None]]] = []


def register(
    choose: Callable[[], Driver], is_available: Callable[[], bool], announce: Callable[[Driver], None]
) -> None:
    """Register the functions that choose a driver, check its availability, and announce it."""
    _registered[:] = [(choose, is_available, announce)]


def choose() -> Driver:
    """Return a new driver. Raise RuntimeError if there is none."""
    return _registered[0][0]()


def is_available() -> bool:
    """Return True if `choose` would find a driver."""
    return _registered[0][1]()


def announce(driver: Driver) -> None:
    """Notify others of the process's new driver."""
    _registered[0][2](driver)
