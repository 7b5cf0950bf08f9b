"""Included and excluded dispatch keys of each thread (c10/core/impl/LocalDispatchKeySet.h).

`modes` is the one flag that the call path reads: empty while no guard, mode, trace or profiler is active
in any thread. Whoever activates one of them appends, and takes away at the end.
"""

from __future__ import annotations

import threading
from types import TracebackType

from .dispatch_key import BACKEND_MASK
from .dispatch_key_set import DispatchKeySet
from .errors import internal_assert


class _State(threading.local):
    included: int = 0
    excluded: int = 0


local = _State()
modes: list[object] = []


def effective(call_keys: int) -> int:
    """The key set that a call in this thread dispatches on."""
    return (call_keys | local.included) & ~local.excluded


class _Guard:
    __slots__ = ("before", "bits")

    def __init__(self, keys: DispatchKeySet | int) -> None:
        self.bits = keys if isinstance(keys, int) else keys.raw_repr()
        self.before: list[tuple[int, int]] = []

    def __enter__(self) -> _Guard:
        self.before.append((local.included, local.excluded))
        self._apply()
        modes.append(self)
        return self

    def _apply(self) -> None:
        internal_assert(False, "a guard includes or excludes")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        local.included, local.excluded = self.before.pop()
        modes.remove(self)


class IncludeDispatchKeyGuard(_Guard):
    """Adds keys to every call of this thread while the block runs."""

    __slots__ = ()

    def _apply(self) -> None:
        local.included |= self.bits


class ExcludeDispatchKeyGuard(_Guard):
    """Takes functionalities out of every call of this thread while the block runs; backends stay, as in c10."""

    __slots__ = ()

    def _apply(self) -> None:
        local.excluded |= self.bits & ~BACKEND_MASK
