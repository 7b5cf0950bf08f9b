"""Transport of batches between processes: small parts in a message, large parts in one block of shared memory.

A block is an anonymous file (`runtime/shared_memory.py`). Its descriptor is sent with the message, so that nothing
leaks if a process dies. The receiver's tensors and arrays are views of the block, which is unmapped when the last
view is freed. The receiver closes the descriptor immediately, because a program that keeps a thousand batches would
run out of descriptors. On a system without anonymous files, everything goes into the message.
"""

from __future__ import annotations

import io
import os
import pickle
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ...dispatch.methods.pickling import _bytes_of, _reduced_storage
from ...dispatch.tensor import Tensor
from ...runtime.device import CPU
from ...runtime.shared_memory import CAN_SHARE, mapped, new_file
from ...runtime.storage import Storage, storage_of

SMALL = 1 << 14
"""Parts of fewer bytes go into the message: mapping a block costs more."""

ALIGNED = 64
"""Where parts begin in a block: at multiples of this, the CPU allocator's alignment."""


class _Packer(reduction.ForkingPickler):
    """Pickler that moves large storages and buffers out of the pickle, and copies views of larger storages."""

    def __init__(self, file: io.BytesIO) -> None:
        self.parts: list[tuple[int, memoryview]] = []
        self.nbytes = 0
        self.buffers: list[tuple[int, int]] = []
        self.storages: dict[Storage, tuple[int, int]] = {}
        super().__init__(file, 5, True, self._take_buffer)

    def _reserve(self, part: memoryview) -> tuple[int, int]:
        """Reserve an aligned range of the block for a part; return its offset and size."""
        start = -(-self.nbytes // ALIGNED) * ALIGNED
        self.parts.append((start, part))
        self.nbytes = start + part.nbytes
        return start, part.nbytes

    def _take_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """Return whether a buffer stays inside the pickle; otherwise place it in the block."""
        raw = buffer.raw()
        if not CAN_SHARE or raw.nbytes < SMALL:
            return True
        self.buffers.append(self._reserve(raw))
        return False

    def persistent_id(self, obj: Any) -> tuple[int, int] | None:
        """Return the pickle's placeholder for a storage that goes into the block; None for other objects."""
        if not CAN_SHARE or not isinstance(obj, Storage) or obj.device is not CPU or obj.nbytes() < SMALL:
            return None
        placed = self.storages.get(obj)
        if placed is None:
            placed = self.storages[obj] = self._reserve(memoryview(_bytes_of(obj)._data))
        return placed

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Storage):
            # By value: `tt.multiprocessing` has other picklers share them.
            return _reduced_storage(obj)
        if type(obj) is not Tensor:
            return NotImplemented
        if not obj.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
                "crossing process boundaries. If you just want to transfer the data, call detach() on the tensor "
                "before serializing (e.g., putting it on the queue)."
            )
        spec = obj._spec
        if spec.device.type not in ("cpu", "meta"):
            raise RuntimeError(
                f"a batch with a tensor on {spec.device} cannot leave its process: return it on the CPU, and move it "
                "where batches are used"
            )
        if not spec.is_meta and obj.untyped_storage().nbytes() > max(spec.numel * spec.itemsize, SMALL):
            return obj.detach().clone().requires_grad_(obj.requires_grad).__reduce_ex__(5)
        return obj.__reduce_ex__(5)


def send(connection: Connection, value: Any) -> None:
    """Send a value, its tensors in shared memory.

    Raises:
        RuntimeError: a tensor is on another device, or recorded by autograd.
        pickle.PicklingError, TypeError, AttributeError: something cannot be pickled. Nothing was sent.
        OSError: there is no memory for the block, or nobody listens.
    """
    file = io.BytesIO()
    packer = _Packer(file)
    packer.dump(value)
    head = pickle.dumps((packer.nbytes, packer.buffers))
    if not packer.nbytes:
        connection.send_bytes(head + file.getbuffer())
        return
    block = new_file(packer.nbytes)
    try:
        for start, part in packer.parts:
            _write(block, part, start)
        connection.send_bytes(head + file.getbuffer())
        reduction.send_handle(connection, block, 0)
    finally:
        os.close(block)


def receive(connection: Connection) -> Any:
    """Receive the next value that `send` sent.

    Raises:
        EOFError, OSError: The other process is gone.
    """
    file = io.BytesIO(connection.recv_bytes())
    nbytes, buffers = pickle.load(file)
    if not nbytes:
        return pickle.load(file)
    block = reduction.recv_handle(connection)
    try:
        memory = mapped(block, nbytes)
    finally:
        os.close(block)
    view = memoryview(memory).cast("B")
    unpickler = _Unpacker(file, buffers=[view[start : start + size] for start, size in buffers])
    unpickler.memory = view
    return unpickler.load()


class _Unpacker(pickle.Unpickler):
    memory: memoryview

    def persistent_load(self, placed: Any) -> Storage:
        start, size = placed
        return storage_of(np.frombuffer(self.memory, np.uint8, size, start), CPU)


def _write(block: int, part: memoryview, start: int) -> None:
    part = part.cast("B")
    while part.nbytes:
        written = os.pwrite(block, part, start)
        part, start = part[written:], start + written
