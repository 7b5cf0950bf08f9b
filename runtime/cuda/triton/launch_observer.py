"""Launches in Triton's own notation, ``kernel[grid](...)``, that a thread records instead of making them.

`KernelInterface.__getitem__` is the one door of JIT functions, autotuners, heuristics and interpreted kernels. It is
replaced once, when a thread first observes, and asks for the thread's observer from then on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

Observer = Callable[[Any, Any, Sequence[Any], Mapping[str, Any]], None]
"""Called with kernel, grid, arguments and keyword arguments of each launch."""


_recorders: list[Observer] = []
"""The observer that makes a launch an operator; it lies in a layer above this one, which adds it."""


class _Thread(threading.local):
    observer: Observer | None = None


_thread = _Thread()


@contextmanager
def observing_launches(observer: Observer | None) -> Iterator[None]:
    """Hand this thread's launches to an observer within the block; None makes them."""
    _install()
    before = _thread.observer
    _thread.observer = observer
    try:
        yield
    finally:
        _thread.observer = before


def register_recorder(recorder: Observer) -> None:
    """Have `recording_launches` hand launches to `recorder`."""
    _recorders[:] = [recorder]


def recording_launches() -> AbstractContextManager[None]:
    """Record this thread's launches as operators within the block."""
    return observing_launches(_recorders[0] if _recorders else None)


def _install() -> None:
    """Replace the door of kernels, if Triton is there and it has not been done."""
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
