"""Included and excluded dispatch keys of each thread (c10/core/impl/LocalDispatchKeySet.h).

`modes` is the one flag that the call path reads. It is empty while no guard, mode, trace or profiler is active in any
thread. Code that activates one of them appends to it, and removes the entry at the end.

`local.autocast` has the bits of the backends for which the thread has autocast on. The Autocast functionality is one
bit for all backends, and a call dispatches to its highest backend. The bit joins a call's keys only if autocast is on
for that backend, so that `AutocastCPU` never sees CUDA tensors.
"""

from __future__ import annotations

import threading
from types import TracebackType

from .dispatch_key import AUTOCAST_BIT, BACKEND_MASK, DispatchKey
from .dispatch_key_set import DispatchKeySet
from .errors import internal_assert
from .thread_state import inherited


class _State(threading.local):
    included: int = 0
    excluded: int = 0
    autocast: int = 0


local = inherited(_State())
modes: list[object] = []


def effective(call_keys: int) -> int:
    """Return the key set on which a call in this thread dispatches."""
    if not modes:
        return call_keys
    keys = call_keys | local.included
    autocast = local.autocast
    if autocast and (autocast << 1) >> (keys & BACKEND_MASK).bit_length() & 1:
        keys |= AUTOCAST_BIT
    return keys & ~local.excluded


class _Guard:
    __slots__ = ("before", "bits")

    def __init__(self, keys: DispatchKeySet | DispatchKey | int) -> None:
        self.bits = keys if isinstance(keys, int) else (DispatchKeySet() | keys).raw_repr()
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
    """Context manager that adds keys to this thread's calls (`torch._C._IncludeDispatchKeyGuard`).

    Args:
        keys: A `DispatchKey` or a `DispatchKeySet`. A per-backend key such as ``AutocastCPU`` adds its backend too.

    Raises:
        TypeError: For anything else.
        RuntimeError: For an alias key.

    Example:
        >>> import triten as tt
        >>> def traced(op, keys, stack):
        ...     print("traced", op.name)
        ...     args, stack[:] = list(stack), []
        ...     stack.append(op.call_with_keys((keys - tt.DispatchKey.Tracer).raw_repr(), args))
        >>> with tt.library.Library("aten", "IMPL") as lib:
        ...     lib.impl("neg", traced, "Tracer", boxed=True)
        ...     with tt.dispatch.IncludeDispatchKeyGuard(tt.DispatchKey.Tracer):
        ...         tt.ones(2).neg()
        traced aten::neg
        tensor([-1., -1.])
    """

    __slots__ = ()

    def _apply(self) -> None:
        local.included |= self.bits


class ExcludeDispatchKeyGuard(_Guard):
    """Context manager that removes functionalities from this thread's calls; backends stay, as in c10.

    It has the same arguments and errors as `IncludeDispatchKeyGuard` (`torch._C._ExcludeDispatchKeyGuard`).

    Example:
        >>> import triten as tt
        >>> w = tt.ones(2, requires_grad=True)
        >>> with tt.dispatch.ExcludeDispatchKeyGuard(tt.DispatchKey.AutogradCPU):
        ...     (w * 2).requires_grad
        False
    """

    __slots__ = ()

    def _apply(self) -> None:
        local.excluded |= self.bits & ~BACKEND_MASK
