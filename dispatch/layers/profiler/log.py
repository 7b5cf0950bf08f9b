"""What a running profiler writes down: one flat list for each thread, in the order in which things end.

A call is appended when it is over, as ``site, place, start, end`` (and ``stack``, where asked for), `place` being the
length of the list when it began: what lies between is what happened inside it. Flat lists of ints cost the garbage
collector nothing, and everything that is the same for all calls of a plan stands in its *site*.
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
    """One hop of an operator's calls with arguments that look alike."""

    __slots__ = ("dtypes", "key", "name", "overload", "shapes")

    def __init__(self, name: str, key: DispatchKey, args: Sequence[Any] | None) -> None:
        self.name, _, self.overload = name.partition(".")
        self.key = key
        self.shapes = None if args is None else [shape_of(value) for value in args]
        self.dtypes = None if args is None else [dtype_of(value) for value in args]


class RangeSite(NamedTuple):
    """A range that a user named, or one node of backward with its sequence number."""

    name: str
    is_node: bool = False
    sequence: int = -1
    args: str | None = None


class KernelSite(NamedTuple):
    """A kernel and the dtype that it was chosen for: ``site`` alone is appended when it starts."""

    name: str
    dtype: ScalarType | None


class MemorySite(NamedTuple):
    """Memory of a device: appended as ``site, address, time, bytes``, with negative bytes when it is given back."""

    device: Device


class LaunchSite(NamedTuple):
    """Work that is enqueued on a device: appended as ``site, number, start, end``."""

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
    """An argument as the profiler shows its shape: sizes for a tensor, a list of them for several, else nothing."""
    if isinstance(value, TensorImpl):
        return list(value._spec.sizes)
    if (value.__class__ is list or value.__class__ is tuple) and any(
        isinstance(each, TensorImpl) for each in value
    ):
        return [shape_of(each) for each in value]
    return []


def dtype_of(value: Any) -> str:
    """An argument's kind: a tensor's dtype, ``Scalar`` for a number, nothing for what is static."""
    if isinstance(value, TensorImpl):
        return value._spec.dtype.name
    if (value.__class__ is list or value.__class__ is tuple) and any(
        isinstance(each, TensorImpl) for each in value
    ):
        return "TensorList"
    return "Scalar" if value.__class__ in (int, float, complex, bool) else ""
