"""Log of a running profiler: one flat list for each thread, in the order in which calls end.

A call is appended when it ends, as ``site, log_index, start, end`` (and ``stack``, if requested). `log_index` is the
length of the list when the call began; the entries between happened inside it. Flat lists of ints cost the garbage
collector nothing. The *site* holds everything that is the same for all calls of a plan.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import CodeType
from typing import Any, NamedTuple

from ....runtime.device import device as Device
from ....runtime.dispatch_key import DispatchKey
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_impl import TensorImpl

Stack = tuple[tuple[CodeType, int], ...]


class OperatorSite:
    """One hop of an operator's calls with arguments of the same metadata."""

    __slots__ = ("dtypes", "flops", "key", "name", "overload", "shapes")

    def __init__(self, name: str, key: DispatchKey, args: Sequence[Any] | None) -> None:
        self.name, _, self.overload = name.partition(".")
        self.key = key
        self.shapes = None if args is None else [shape_of(value) for value in args]
        self.dtypes = None if args is None else [dtype_of(value) for value in args]
        self.flops = 0


class RangeSite(NamedTuple):
    """User range, backward node with its sequence number, or module call."""

    name: str
    category: str = "user_annotation"
    sequence: int = -1
    args: str | None = None


class KernelSite(NamedTuple):
    """Kernel and the dtype that it was selected for; ``site`` alone is appended when the kernel starts."""

    name: str
    dtype: ScalarType | None


class MemorySite(NamedTuple):
    """Device memory entry: appended as ``site, address, time, bytes``, with negative bytes for freed memory."""

    device: Device


class LaunchSite(NamedTuple):
    """Device work: appended as ``site, number, start, end``."""

    name: str


class ThreadLog:
    """The list of one thread."""

    __slots__ = ("entries", "ident", "name", "system_id")

    def __init__(self, ident: int) -> None:
        self.ident = ident
        self.system_id = threading.get_native_id()
        self.name = threading.current_thread().name
        self.entries: list[Any] = []


def shape_of(value: Any) -> list[Any]:
    """Return an argument's shape for the profiler: sizes for a tensor, a list of them for several, else nothing."""
    if isinstance(value, TensorImpl):
        return list(value._spec.sizes)
    if (isinstance(value, (list, tuple))) and any(isinstance(each, TensorImpl) for each in value):
        return [shape_of(each) for each in value]
    return []


def dtype_of(value: Any) -> str:
    """Return an argument's kind: a tensor's dtype, ``Scalar`` for a number, nothing for static values."""
    if isinstance(value, TensorImpl):
        return value._spec.dtype.name
    if (isinstance(value, (list, tuple))) and any(isinstance(each, TensorImpl) for each in value):
        return "TensorList"
    return "Scalar" if value.__class__ in (int, float, complex, bool) else ""
