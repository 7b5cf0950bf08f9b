"""Pending communications that no thread has waited for yet, by the memory that they write (c10d's
WorkRegistry).
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from ...dispatch.tensor import Tensor
from ...runtime.cuda.graph import is_current_stream_capturing
from ...runtime.storage import root_of
from ..work import DoneWork, Work

__all__ = ["count_pending", "register_work", "wait_for"]

FEW = 64
"""So many works may have ended without being waited for; then they are looked through."""


class _Pending:
    """The works on one block of memory, which hold it."""

    def __init__(self, root: Any) -> None:
        self.root: weakref.ref[Any] = weakref.ref(root)
        self.works: list[Work] = []


class _Registry:
    def __init__(self) -> None:
        self.by_root: dict[int, _Pending] = {}
        self.lock = threading.Lock()
        self.limit = FEW

    def add(self, tensor: Tensor, work: Work) -> None:
        root = root_of(tensor._data)
        with self.lock:
            entry = self.by_root.get(id(root))
            if entry is None or entry.root() is not root:
                entry = self.by_root[id(root)] = _Pending(root)
            entry.works.append(work)
            crowded = len(self.by_root) > self.limit
        # During a capture nothing may be asked for its end.
        if crowded and not (tensor.is_cuda and is_current_stream_capturing()):
            self._drop_ended()

    def take(self, tensor: Tensor) -> list[Work]:
        root = root_of(tensor._data)
        with self.lock:
            entry = self.by_root.get(id(root))
            if entry is None or entry.root() is not root:
                return []
            del self.by_root[id(root)]
            return entry.works

    def _drop_ended(self) -> None:
        """Let go of works that have ended well, of tensors that were dropped without a use."""
        with self.lock:
            ended = {
                key: each
                for key, each in self.by_root.items()
                if all(work.is_success() for work in each.works)
            }
            for key in ended:
                del self.by_root[key]
            self.limit = max(FEW, 2 * len(self.by_root))
        for each in ended.values():
            for work in each.works:
                work.wait()  # it may have something left to do


_registry = _Registry()


def register_work(tensor: Tensor, work: Work | None) -> None:
    """Have `wait_tensor` of a tensor, or of a view of its memory, wait for a work."""
    if work is not None and work.__class__ is not DoneWork:
        _registry.add(tensor, work)


def wait_for(tensor: Tensor) -> None:
    """Wait for what writes a tensor's memory, if anything does.

    Raises:
        DistBackendError: the communication failed, or did not end in time.
    """
    if _registry.by_root:
        for work in _registry.take(tensor):
            work.wait()


def count_pending() -> int:
    """Count the memory blocks written by works that no thread has waited for."""
    return len(_registry.by_root)
