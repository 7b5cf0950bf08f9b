"""Ranges that this package itself records in a running profiler: optimizers' steps, batches of loaders."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

sessions: list[Any] = []
"""The session of the running profiler (`dispatch/layers/profiler/session.py`); empty without one."""

_NOTHING = nullcontext()


def recorded_range(name: str) -> AbstractContextManager[Any]:
    """Return a context manager that records a range, or one that does nothing if no profiler runs.

    Example:
        >>> from triten.runtime.profiler_ranges import recorded_range
        >>> with recorded_range("Optimizer.step#SGD.step") as recorded:
        ...     print(recorded)
        None
    """
    return sessions[0].range(name) if sessions else _NOTHING
