"""Allocations as a profiler sees them: a device's allocator, writing down what it gives out and gets back."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from ...runtime.allocator import Allocator, get_allocator, set_allocator
from ...runtime.cuda.caching_allocator import Block
from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from .profile_log import MemorySite

if TYPE_CHECKING:
    from .profile_session import Session


class RecordingAllocator(Allocator):
    """Stands before a device's allocator. On the host it also takes the place of NumPy's own allocation, so that all
    results are seen.
    """

    def __init__(self, inner: Allocator, session: Session) -> None:
        self.inner = inner
        self.session = session

    def allocate(self, nbytes: int, device: Device) -> DataPtr:
        data = self.inner.allocate(nbytes, device)
        if not data.nbytes:
            return data
        block = data.context
        counted = block.counted if isinstance(block, Block) else nbytes
        site = MemorySite(data.device)
        if not self.session.note_memory(site, data.address, counted):
            return data
        if isinstance(block, Block):
            # The caching allocator finds its block by the pointer that it made.
            data.deleter = _GivenBack(self.session, site, counted, data)
            return data
        deleter = _GivenBack(self.session, site, counted, None)
        return DataPtr(data.address, data.nbytes, data.device, None, deleter, data)

    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        self.inner.copy_data(dst, src, nbytes)


class _GivenBack:
    """The deleter of a recorded pointer: writes down, then calls the one that was there before."""

    __slots__ = ("_before", "_nbytes", "_session", "_site")

    def __init__(self, session: Session, site: MemorySite, nbytes: int, replaced: DataPtr | None) -> None:
        self._session = session
        self._site = site
        self._nbytes = nbytes
        self._before = None if replaced is None else replaced.deleter

    def __call__(self, data: DataPtr) -> None:
        self._session.note_freed(self._site, data.address, self._nbytes)
        if self._before is not None:
            self._before(data)


def record_allocations(device_type: str, session: Session, undo: ExitStack) -> None:
    """Put a `RecordingAllocator` before a device's allocator; `undo` takes it away, unless a user's stands there."""
    inner = get_allocator(device_type)
    recording = RecordingAllocator(inner, session)
    before = set_allocator(device_type, recording)

    def restore() -> None:
        if get_allocator(device_type) is recording:
            set_allocator(device_type, before)

    undo.callback(restore)
