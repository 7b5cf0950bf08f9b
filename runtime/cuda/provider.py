"""Who provides the driver: functions that `choose.py` registers, so that the interface imports no implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .driver import Driver

_registered: list[tuple[Callable[[], Driver], Callable[[], bool], Callable[[Driver], None]]] = []


def register(
    choose: Callable[[], Driver], is_available: Callable[[], bool], announce: Callable[[Driver], None]
) -> None:
    """Have these decide from now on: which driver a process gets, whether it would get one, and who is told of it."""
    _registered[:] = [(choose, is_available, announce)]


def choose() -> Driver:
    """A new driver. Raises RuntimeError where there is none."""
    return _registered[0][0]()


def is_available() -> bool:
    """Whether `choose` would give a driver."""
    return _registered[0][1]()


def announce(driver: Driver) -> None:
    """Tell others of the driver that the process has now."""
    _registered[0][2](driver)
