"""Sharing of GPU memory between processes (CUDA IPC): handles, and the lifetime of their memory.

A handle names a whole allocation of the driver, in which the storage begins at an offset. The exporting process may
not free the memory while another process uses it. Each handle therefore comes with a *lease*, the write end of a
pipe. The importing process holds it as long as the storage lives. The exporter sees that the pipe is closed, even if
the importer dies. Each export and `ipc_collect` check the leases.

A process may open an allocation only once: its address is kept until the last storage in it is gone.
"""

from __future__ import annotations

import os
import select
import threading
import weakref
from typing import Any, NamedTuple

from ..data_ptr import DataPtr
from ..device import device as Device
from ..storage import Storage, shared_roots, storage_of
from .driver import driver
from .memory.block import Block


class Handle(NamedTuple):
    """Data for another process to open a storage: the allocation, the offset, and the lease's descriptor."""

    device: int
    allocation: bytes
    offset: int
    nbytes: int
    lease: int


class _Allocation:
    """Allocation of another process, open in this one."""

    def __init__(self, device: int, name: bytes) -> None:
        self.address = driver().import_memory(device, name)
        self.device = device
        weakref.finalize(self, _close, device, self.address).atexit = False


def _close(device: int, address: int) -> None:
    driver().close_memory(device, address)


_lock = threading.RLock()
_leases: dict[int, DataPtr] = {}
"""Memory that other processes use, by the pipe that closes when they are done with it."""

_open: weakref.WeakValueDictionary[tuple[int, bytes], _Allocation] = weakref.WeakValueDictionary()
_known: weakref.WeakValueDictionary[tuple[int, bytes, int], DataPtr] = weakref.WeakValueDictionary()
"""Exported and imported storages, which keep their identity when imported again."""


def export_storage(storage: Storage) -> Handle:
    """Return a handle of a storage, after all work on its device. The receiver closes the lease.

    Raises:
        RuntimeError: If the memory is not from this package's allocator, or if the devices belong to one process, as
            those of the interpreter do.
    """
    root: DataPtr = storage.root
    index = storage.device.resolved_index
    cuda = driver()
    ipc_collect()
    if root.nbytes == 0:
        return _leased(Handle(index, b"", 0, 0, -1), root)
    block = root.context
    if not isinstance(block, Block):
        raise RuntimeError(
            f"a storage on {storage.device} cannot be shared with another process: its memory is not of the caching "
            "allocator. Send a clone() of the tensor"
        )
    base = block.segment.address
    handle = Handle(index, cuda.export_memory(index, base), root.address - base, root.nbytes, -1)
    cuda.synchronize(index)
    _known[handle[:3]] = root
    storage.can_resize = False
    return _leased(handle, root)


def _leased(handle: Handle, root: DataPtr) -> Handle:
    watched, lease = os.pipe()
    with _lock:
        _leases[watched] = root
    return handle._replace(lease=lease)


def ipc_collect() -> None:
    """Free memory that other processes no longer use (`torch.cuda.ipc_collect`).

    Example:
        >>> import triten as tt
        >>> tt.cuda.ipc_collect()
    """
    with _lock:
        if not _leases:
            return
        poll = select.poll()
        for watched in _leases:
            poll.register(watched, 0)  # poll reports a closed pipe without a request
        for watched, _ in poll.poll(0):
            os.close(watched)
            del _leases[watched]


def import_storage(handle: Handle) -> Storage:
    """Return the storage of a handle; the storage holds the lease.

    Raises RuntimeError if the devices belong to one process.
    """
    device = Device("cuda", handle.device)
    with _lock:
        root = _known.get(handle[:3])
        if root is not None or handle.nbytes == 0:
            os.close(handle.lease)
            return storage_of(DataPtr(0, 0, device) if root is None else root, device)
        try:
            allocation = _open.get((handle.device, handle.allocation))
            if allocation is None:
                allocation = _Allocation(handle.device, handle.allocation)
                _open[handle.device, handle.allocation] = allocation
        except BaseException:
            os.close(handle.lease)
            raise

        def give_back(data: DataPtr, allocation: _Allocation = allocation) -> None:
            shared_roots.pop(id(data), None)
            # Enqueued work of this process may still read it.
            driver().synchronize(allocation.device)
            os.close(handle.lease)

        root = DataPtr(allocation.address + handle.offset, handle.nbytes, device, None, give_back)
        shared_roots[id(root)] = handle
        _known[handle[:3]] = root
        return storage_of(root, device)


def leases() -> list[Any]:
    """Return the memory that other processes use, as far as is known."""
    with _lock:
        return list(_leases.values())
