"""Memory allocations of a profiler: a device's allocator that logs allocations and frees.

On the host it replaces NumPy's own allocation, so that the profiler sees all results. It tracks the array that owns a
tensor's bytes until the array is collected.
"""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ....runtime.allocator import Allocator, get_allocator, set_allocator
from ....runtime.cuda.memory.block import Block
from ....runtime.data_ptr import DataPtr
from ....runtime.device import CPU
from ....runtime.device import device as Device
from .log import MemorySite

if TYPE_CHECKING:
    from .session import Session


class _Tracked(weakref.ref[Any]):
    """An array and its bytes."""

    __slots__ = ("address", "nbytes")
    address: int
    nbytes: int


class RecordingAllocator(Allocator):
    """Stands before a device's allocator."""

    def __init__(self, inner: Allocator, session: Session) -> None:
        self.inner = inner
        self.session = session
        self._tracked: dict[int, _Tracked] = {}
        self._host = MemorySite(CPU)

    def allocate(self, nbytes: int, device: Device) -> DataPtr:
        data = self.inner.allocate(nbytes, device)
        if data.nbytes:
            block = data.context
            counted = block.counted if isinstance(block, Block) else nbytes
            site = MemorySite(data.device)
            if self.session.note_memory(site, data.address, counted):
                data.deleter = _GivenBack(self.session, site, counted, data)
        return data

    def empty_array(self, sizes: tuple[int, ...], np_dtype: Any, strides: Any, nbytes: int) -> Any:
        array = self.inner.empty_array(sizes, np_dtype, strides, nbytes)
        if nbytes and self.session.note_memory(self._host, id(array), nbytes):
            tracked = _Tracked(array, self._collected)
            tracked.address, tracked.nbytes = id(array), nbytes
            self._tracked[id(tracked)] = tracked
        return array

    def _collected(self, tracked: _Tracked) -> None:
        """Log the deallocation of an array. It runs inside garbage collection and takes no lock."""
        if self._tracked.pop(id(tracked), None) is not None:
            self.session.note_freed(self._host, tracked.address, tracked.nbytes)

    def copy_data(self, dst: int, src: int, nbytes: int) -> None:
        self.inner.copy_data(dst, src, nbytes)

    def forget(self) -> None:
        """Track nothing any longer."""
        self._tracked.clear()


class _GivenBack:
    """Deleter of a recorded pointer: it logs, then calls the original deleter."""

    __slots__ = ("_before", "_nbytes", "_session", "_site")

    def __init__(self, session: Session, site: MemorySite, nbytes: int, data: DataPtr) -> None:
        self._session = session
        self._site = site
        self._nbytes = nbytes
        self._before = data.deleter

    def __call__(self, data: DataPtr) -> None:
        self._session.note_freed(self._site, data.address, self._nbytes)
        if self._before is not None:
            self._before(data)


def record_allocations(device_type: str, session: Session, undo: ExitStack) -> None:
    """Wrap a device's allocator in a `RecordingAllocator`; `undo` removes it unless a user's allocator replaced it."""
    recording = RecordingAllocator(get_allocator(device_type), session)
    before = set_allocator(device_type, recording)

    def restore() -> None:
        recording.forget()
        if get_allocator(device_type) is recording:
            set_allocator(device_type, before)

    undo.callback(restore)
