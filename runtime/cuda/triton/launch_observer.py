"""Observation of launches in Triton's notation, ``kernel[grid](...)``: a thread records instead of running them.

`KernelInterface.__getitem__` is the one entry point of JIT functions, autotuners, heuristics and interpreted kernels.
The first observer replaces it once; from then on it looks up the thread's observer.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

Observer = Callable[[Any, Any, Sequence[Any], Mapping[str, Any]], None]
"""Callback with kernel, grid, arguments and keyword arguments of each launch."""


_recorders: list[Observer] = []
"""Observer that turns a launch into an operator; a higher layer adds it."""


class _Thread(threading.local):
    observer: Observer | None = None


_thread = _Thread()


@contextmanager
def observing_launches(observer: Observer | None) -> Iterator[None]:
    """Pass this thread's launches to an observer within the block; None runs them."""
    _install()
    before = _thread.observer
    _thread.observer = observer
    try:
        yield
    finally:
        _thread.observer = before


def register_recorder(recorder: Observer) -> None:
    """Make `recording_launches` pass launches to `recorder`."""
    _recorders[:] = [recorder]


def recording_launches() -> AbstractContextManager[None]:
    """Record this thread's launches as operators within the block."""
    return observing_launches(_recorders[0] if _recorders else None)


def _install() -> None:
    """Replace the entry point of kernels once, if Triton is imported."""
    jit = sys.modules.get("triton.runtime.jit")
    interface = getattr(jit, "KernelInterface", None)
    if interface is None or interface.__getitem__.__module__ == __name__:
        return
    launch = interface.__getitem__

    def __getitem__(self: Any, grid: Any) -> Any:
        observer = _thread.observer
        if observer is None:
            return launch(self, grid)
        return lambda *args, **kwargs: observer(self, grid, args, kwargs)

    interface.__getitem__ = __getitem__
