"""Linear algebra library of simulated devices: the host's LAPACK over their memory.

LAPACK replaces cuSOLVER: the same routines run on the same streams. Memory is bounds-checked against live allocations
when they run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import lapack
from ..solver import Operand

if TYPE_CHECKING:
    from .driver import SimulatedDriver


class SimulatedSolver:
    """LAPACK routines on a stream of a simulated device."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> Callable[..., None]:
        routine: Callable[..., None] = getattr(lapack, name)

        def enqueue(*operands: Any) -> None:
            driver = self._driver

            def work() -> None:
                with np.errstate(all="ignore"):
                    routine(*[self._array(name, value) for value in operands])
                for value in operands:
                    if isinstance(value, Operand) and value.nbytes:
                        driver.note_written(value.address, value.nbytes)

            stream = driver.current_stream(driver.current_device())
            driver.stream(stream).enqueue(work, "library", name)

        return enqueue

    def _array(self, name: str, value: Any) -> Any:
        """Return an operand as an array over the device's memory; return an option unchanged."""
        if not isinstance(value, Operand):
            return value
        if value.nbytes:
            self._driver.check_range(name, value.address, value.nbytes)
            memory = memoryview((ctypes.c_char * value.nbytes).from_address(value.address))
            flat = np.frombuffer(memory, value.dtype)
        else:
            flat = np.empty(0, value.dtype)
        if value.columns is None:
            return flat.reshape((value.batch, value.rows) if value.rows >= 0 else (value.batch,))
        return flat.reshape(value.batch, value.columns, value.rows).transpose(0, 2, 1)
