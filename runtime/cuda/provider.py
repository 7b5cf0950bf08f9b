"""Registry of the driver's provider: `choose.py` registers functions, so the interface imports no implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .driver import Driver

_registered: list[tuple[Callable[[], Driver], Callable[[], int], Callable[[Driver], None]]] = []


def register(
    choose: Callable[[], Driver], count: Callable[[], int], announce: Callable[[Driver], None]
) -> None:
    """Register the functions that choose a driver, count its devices, and announce it."""
    _registered[:] = [(choose, count, announce)]


def choose() -> Driver:
    """Return a new driver. Raise RuntimeError if there is none."""
    return _registered[0][0]()


def count_devices() -> int:
    """Return the number of devices that a driver from `choose` would have; 0 if there is none."""
    return _registered[0][1]()


def announce(driver: Driver) -> None:
    """Notify others of the process's new driver."""
    _registered[0][2](driver)
