"""Decorators and types of TorchScript by PyTorch's private name, which libraries import (`torch._jit_internal`)."""

from __future__ import annotations

from .jit import (
    Final,
    Future,
    _drop,
    _overload,
    _overload_method,
    export,
    ignore,
    is_scripting,
    unused,
)
from .jit import isinstance as _isinstance
from .jit.annotations import (
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
    BroadcastingList4,
    BroadcastingList5,
    BroadcastingList6,
)

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "BroadcastingList4",
    "BroadcastingList5",
    "BroadcastingList6",
    "Final",
    "Future",
    "_drop",
    "_isinstance",
    "_overload",
    "_overload_method",
    "export",
    "ignore",
    "is_scripting",
    "unused",
]
