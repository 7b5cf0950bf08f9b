"""Memory of a GPU in several processes: handles of CUDA's, and how long what they name has to live (CUDA IPC).

A handle names a whole allocation of the driver's, in which the storage begins at an offset. The process that made it
may not give the memory back while another one uses it. So each handle goes along with a *lease*, the end of a pipe for
writing: who imports the storage holds it as long as the storage lives, and the exporter sees the pipe end when it is
closed, by a process that dies too. Leases are looked at with each export and by `ipc_collect`.

An allocation may be opened once in a process: its address is kept until the last storage in it is gone.
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
    """What another process needs to open a storage: the allocation, the place in it, and the lease's descriptor."""

    device: int
    allocation: bytes
    offset: int
    nbytes: int
    lease: int


class _Allocation:
    """An allocation of another process's, open in this one."""

    def __init__(self, device: int, name: bytes) -> None:
        self.address = driver().import_memory(device, name)
        self.device = device
        weakref.finalize(self, _close, device, self.address).atexit = False


def _close(device: int, address: int) -> None:
    driver().close_memory(device, address)


_lock = threading.RLock()
_leases: dict[int, DataPtr] = {}
"""What other processes use, by the pipe that ends when one of them is done with it."""

_open: weakref.WeakValueDictionary[tuple[int, bytes], _Allocation] = weakref.WeakValueDictionary()
_known: weakref.WeakValueDictionary[tuple[int, bytes, int], DataPtr] = weakref.WeakValueDictionary()
"""Exported and imported storages, which arrive as themselves."""


def export_storage(storage: Storage) -> Handle:
    """A handle of a storage, after all work on its device. Whoever gets it closes the lease.

    Raises:
        RuntimeError: the memory is not of this package's own allocator, or the devices belong to one process, as those
            of the interpreter do.
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
    storage.resizable = False
    return _leased(handle, root)


def _leased(handle: Handle, root: DataPtr) -> Handle:
    watched, lease = os.pipe()
    with _lock:
        _leases[watched] = root
    return handle._replace(lease=lease)


def ipc_collect() -> None:
    """Give back what other processes have used and use no more (`torch.cuda.ipc_collect`).

    Example:
        >>> import triten as tt
        >>> tt.cuda.ipc_collect()
    """
    with _lock:
        if not _leases:
            return
        poll = select.poll()
        for watched in _leases:
            poll.register(watched, 0)  # the end of a pipe is told unasked
        for watched, _ in poll.poll(0):
            os.close(watched)
            del _leases[watched]


def import_storage(handle: Handle) -> Storage:
    """The storage of a handle. It holds the lease as long as it lives.

    Raises RuntimeError where the devices belong to one process.
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
            # What this process has enqueued may read it still.
            driver().synchronize(allocation.device)
            os.close(handle.lease)

        root = DataPtr(allocation.address + handle.offset, handle.nbytes, device, None, give_back)
        shared_roots[id(root)] = handle
        _known[handle[:3]] = root
        return storage_of(root, device)


def leases() -> list[Any]:
    """What other processes use, as far as is known."""
    with _lock:
        return list(_leases.values())
