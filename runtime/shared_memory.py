"""Shared host memory between processes: blocks, and storages over them.

A block is a file in memory. The strategy ``file_descriptor`` gives it no name (``memfd_create``): the system frees it
with the last descriptor and mapping, even if a process dies. The strategy ``file_system`` gives it a name in
``/dev/shm``, and keeps no descriptor open. The file counts its users, and the last one deletes it. Python's resource
tracker deletes files that are left when the processes have ended. A system without either cannot share memory.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import os
import secrets
import socket
import struct
import sys
import threading
import weakref
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from .device import CPU
from .storage import Storage, in_memory_order, root_of, shared_roots, storage_of, view_at
from .tensor_impl import TensorImpl

CAN_SHARE = hasattr(os, "memfd_create") and hasattr(socket, "send_fds")

FOLDER = "/dev/shm"
PREFIX = "triten_"
STRATEGIES = ("file_descriptor", "file_system")

_COUNT = struct.Struct("q")
_names = itertools.count()
_lock = threading.RLock()
_strategy = STRATEGIES[0]


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    # Another thread may have held it during the fork.
    os.register_at_fork(after_in_child=_renew_lock)


def strategy() -> str:
    """Return the strategy for new blocks: ``file_descriptor`` or ``file_system``."""
    return _strategy


def set_strategy(name: str) -> None:
    """Set the strategy for new blocks."""
    global _strategy
    if name == "file_system":
        from multiprocessing import resource_tracker

        # Forked processes report their files to the same tracker.
        resource_tracker.ensure_running()
    _strategy = name


def new_file(nbytes: int) -> int:
    """Return the descriptor of a new unnamed file in memory.

    Raises:
        RuntimeError: This system has no such files.
        OSError: There is no memory for it.
    """
    if not CAN_SHARE:
        raise RuntimeError(f"shared memory is not supported on this system ({sys.platform})")
    file = os.memfd_create("triten", os.MFD_CLOEXEC)
    try:
        os.ftruncate(file, nbytes)
    except BaseException:
        os.close(file)
        raise
    return file


def mapped(file: int, nbytes: int) -> ctypes.Array[ctypes.c_ubyte]:
    """Map a file's bytes, until the last reference to the array is gone.

    Python's own `mmap` would keep a copy of the descriptor for as long.
    """
    address = _libc.mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
    if address == ctypes.c_void_p(-1).value:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    memory = (ctypes.c_ubyte * nbytes).from_address(address)
    weakref.finalize(memory, _libc.munmap, address, nbytes).atexit = False
    return memory


class DescriptorBlock:
    """Unnamed block, by its descriptor, which is open as long as this process uses the block."""

    def __init__(self, file: int, nbytes: int) -> None:
        self.file = file
        self.nbytes = nbytes

    @classmethod
    def new(cls, nbytes: int) -> DescriptorBlock:
        """Create a block of zeros."""
        return cls(new_file(max(nbytes, 1)), nbytes)

    @property
    def key(self) -> tuple[int, int]:
        """Unique identity of the file."""
        status = os.fstat(self.file)
        return status.st_dev, status.st_ino

    def map(self) -> Any:
        """Map its bytes."""
        return mapped(self.file, max(self.nbytes, 1))

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.file)


class NamedBlock:
    """Named block, whose file counts its current and prospective users in its last bytes."""

    def __init__(self, name: str, nbytes: int) -> None:
        self.name = name
        self.nbytes = nbytes
        self._owner = os.getpid()

    @classmethod
    def new(cls, nbytes: int) -> NamedBlock:
        """Create a block of zeros, with one user."""
        from multiprocessing import resource_tracker

        name = f"{PREFIX}{os.getpid()}_{secrets.token_hex(4)}_{next(_names)}"
        block = cls(name, nbytes)
        file = os.open(block._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            resource_tracker.register(f"/{name}", "shared_memory")
            os.ftruncate(file, nbytes + _COUNT.size)
            os.pwrite(file, _COUNT.pack(1), nbytes)
        finally:
            os.close(file)
        return block

    @property
    def key(self) -> str:
        """Unique identity of the file."""
        return self.name

    @property
    def _path(self) -> str:
        return f"{FOLDER}/{self.name}"

    def map(self) -> Any:
        """Map its bytes."""
        file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            return mapped(file, self.nbytes + _COUNT.size)
        finally:
            os.close(file)

    def count(self, more: int) -> None:
        """Add `users` to the count. Delete the file when it becomes 0."""
        import fcntl
        from multiprocessing import resource_tracker

        file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            (users,) = _COUNT.unpack(os.pread(file, _COUNT.size, self.nbytes))
            os.pwrite(file, _COUNT.pack(users + more), self.nbytes)
            if users + more <= 0:
                os.unlink(self._path)
                resource_tracker.unregister(f"/{self.name}", "shared_memory")
        finally:
            os.close(file)

    def close(self) -> None:
        """Remove this process from the count. A forked child was never counted."""
        if self._owner == os.getpid() and os.path.exists(self._path):
            self.count(-1)


Block = DescriptorBlock | NamedBlock

_arrived: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
"""Arrays over blocks by the blocks' keys: a block that arrives twice from another process is one storage."""


def known(key: Any) -> Storage | None:
    """Return the storage over a block that this process already uses, or None."""
    root = _arrived.get(key)
    return None if root is None else storage_of(root, CPU)


def storage_over(block: Block) -> Storage:
    """Return a storage over a block's bytes, which it keeps alive."""
    root: Any = np.ndarray((block.nbytes,), np.uint8, block.map())
    _arrived[block.key] = root
    shared_roots[id(root)] = block
    weakref.finalize(root, _close, id(root), block)
    return storage_of(root, CPU)


def _close(identity: int, block: Block) -> None:
    shared_roots.pop(identity, None)
    block.close()


def share(storage: Storage, tensor: TensorImpl | None = None) -> Block:
    """Move a host storage, with its tensors, to shared memory.

    Args:
        storage: The storage.
        tensor: The tensor that requested it, which may be the only one over it.

    Raises:
        RuntimeError: The system has no shared memory.
        OSError: There is no shared memory left.
    """
    with _lock:
        shared: Block | None = shared_roots.get(id(storage.root))
        if shared is not None:
            return shared
        kind = DescriptorBlock if _strategy == STRATEGIES[0] else NamedBlock
        block = kind.new(storage.nbytes())
        if tensor is not None and _is_alone(storage, tensor):
            _move(storage, storage_over(block), [tensor])
        else:
            _move(storage, storage_over(block), _tensors_over(storage.root))
        return block


def _move(storage: Storage, target: Storage, tensors: Iterable[TensorImpl]) -> None:
    """Move a storage, and the tensors over it, to the memory of another, unused one."""
    old = storage.root
    if old.nbytes:
        target.root[:] = np.ndarray((old.nbytes,), np.uint8, in_memory_order(old))
    # Tensors that share an array share one afterwards.
    arrays: dict[int, tuple[Any, Any]] = {}
    for tensor in tensors:
        data = tensor._data
        if id(data) not in arrays:
            offset = tensor.storage_offset() * tensor._spec.itemsize
            arrays[id(data)] = data, view_at(target, offset, tensor._spec)
        tensor._data = arrays[id(data)][1]
    storage.take_over(target)


def _tensors_over(root: Any) -> list[TensorImpl]:
    """Return all tensors over a root, by a search of all objects."""
    return [
        each
        for each in gc.get_objects()
        if issubclass(type(each), TensorImpl)
        and isinstance(getattr(each, "_data", None), np.ndarray)
        and root_of(each._data) is root
    ]


def _is_alone(storage: Storage, tensor: TensorImpl) -> bool:
    """Return True if only one tensor and the storage refer to the bytes, which avoids the search of all objects."""
    known = _references_of_one(tensor._data is storage.root)
    return all(count <= expected for count, expected in zip(_references(storage, tensor), known, strict=True))


def _references(storage: Storage, tensor: TensorImpl) -> tuple[int, int]:
    return sys.getrefcount(storage.root), sys.getrefcount(tensor._data)


@cache
def _references_of_one(is_whole: bool) -> tuple[int, int]:
    """Return the counts of `_references` for a single tensor, over a whole root or a part: Python versions differ."""
    tensor = TensorImpl()
    tensor._data = np.zeros(2, np.uint8) if is_whole else np.zeros(2, np.uint8)[1:]
    return _references(storage_of(tensor._data, CPU), tensor)


if CAN_SHARE:
    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.mmap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_long,
    )
    _libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
