"""Observation of launches in Triton's notation, ``kernel[grid](...)`` and ``kernel.run(..., grid=grid)``: a thread
records instead of running them.

`KernelInterface.__getitem__` and the methods `run` are the entry points of JIT functions, autotuners, heuristics and
interpreted kernels. An observer replaces those that are Triton's still; from then on they look up the thread's
observer.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any

Observer = Callable[[Any, Any, Sequence[Any], Mapping[str, Any]], None]
"""Callback with kernel, grid, arguments and keyword arguments of each launch."""


_recorders: list[Observer] = []
"""Observer that turns a launch into an operator; a higher layer adds it."""


_observed: set[Callable[..., Any]] = set()
"""Methods `run` that look up the thread's observer."""


class _Thread(threading.local):
    observer: Observer | None = None


_thread = _Thread()


@contextmanager
def observing_launches(observer: Observer | None) -> Iterator[None]:
    """Pass this thread's launches to an observer within the block; None runs them."""
    if observer is not None:
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
    """Replace the entry points of kernels that were not replaced before, if Triton is imported."""
    jit = sys.modules.get("triton.runtime.jit")
    interface = getattr(jit, "KernelInterface", None)
    if interface is None:
        return
    for kind in interface.__subclasses__():
        run = vars(kind).get("run")
        # Classes of other packages launch Triton's own from their `run`.
        if run is not None and kind.__module__.startswith("triton.") and run not in _observed:
            kind.run = _observing(run)
    if interface.__getitem__.__module__ == __name__:
        return
    launch = interface.__getitem__

    def __getitem__(self: Any, grid: Any) -> Any:
        observer = _thread.observer
        if observer is None:
            return launch(self, grid)
        return lambda *args, **kwargs: observer(self, grid, args, kwargs)

    interface.__getitem__ = __getitem__


def _observing(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method `run` that passes a launch to the thread's observer. A warm-up launches nothing."""

    @wraps(run)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        observer = _thread.observer
        if observer is None or kwargs.get("warmup") or "grid" not in kwargs:
            return run(self, *args, **kwargs)
        kwargs.pop("warmup", None)
        return observer(self, kwargs.pop("grid"), args, kwargs)

    _observed.add(observed)
    return observed
