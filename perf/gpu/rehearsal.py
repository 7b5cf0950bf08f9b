"""Parts of a rehearsal of tuning: sizes, a timer, and no stored measurements."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ...triton_kernels.tuning.choice import forget

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])

REHEARSAL_SCALE = 64
"""Divisor of sizes in a rehearsal."""


@contextmanager
def without_store() -> Iterator[None]:
    """Neither read nor write the stored measurements of this machine."""
    before = os.environ.get("TRITEN_TUNING_STORE")
    os.environ["TRITEN_TUNING_STORE"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRITEN_TUNING_STORE"]
        else:
            os.environ["TRITEN_TUNING_STORE"] = before
        forget()


class HostTimer:
    """Timer of a rehearsal: host time until the device is idle, which says nothing about a GPU.

    Args:
        device: The device that the calls use.
    """

    def __init__(self, device: Any) -> None:
        self._device = device

    def microseconds(self, work: Callable[[], object]) -> float:
        """Return the host time of one call."""
        started = time.perf_counter()
        work()
        tt.cuda.synchronize(self._device)
        return (time.perf_counter() - started) * 1e6
