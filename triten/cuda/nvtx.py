"""Ranges and marks for NVIDIA's profilers (`torch.cuda.nvtx`), through CuPy's binding of NVTX.

Without a profiler attached they cost a call and show nowhere. Source: NVTX 3 API Reference.

Example:
    >>> import triten as tt
    >>> with tt.cuda.nvtx.range("step {}", 3):
    ...     y = tt.ones(2) + 1
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Depth(threading.local):
    """How many ranges this thread has pushed and not popped: CuPy's binding does not tell."""

    now = 0


_depth = _Depth()


def _nvtx() -> Any:
    try:
        return importlib.import_module("cupy.cuda.nvtx")
    except ImportError as error:
        raise RuntimeError(
            "NVTX functions not installed. They come with CuPy: pip install 'triten[cuda13]'"
        ) from error


def range_push(msg: str) -> int:
    """Begin a range inside those of this thread that are open.

    Returns:
        How many are open around it.

    Raises:
        RuntimeError: CuPy is not installed.
    """
    _nvtx().RangePush(msg)
    _depth.now += 1
    return _depth.now - 1


def range_pop() -> int:
    """End the innermost range of this thread.

    Returns:
        How many are open around it; -1 where none was open.

    Raises:
        RuntimeError: CuPy is not installed.
    """
    _nvtx().RangePop()
    around = _depth.now - 1
    _depth.now = max(around, 0)
    return around


def range_start(msg: str) -> int:
    """Begin a range that any thread may end; returns its handle, for `range_end`."""
    return int(_nvtx().RangeStart(msg))


def range_end(range_id: int) -> None:
    """End the range that `range_start` began."""
    _nvtx().RangeEnd(range_id)


def mark(msg: str) -> None:
    """Mark a moment."""
    _nvtx().Mark(msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Open an NVTX range around a block or each call of a decorated function, named ``msg.format(*args, **kwargs)``."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
