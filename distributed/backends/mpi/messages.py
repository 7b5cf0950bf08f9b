"""Messages whose header says what was sent, so that the receiver notices another dtype or size than its own."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DistBackendError

if TYPE_CHECKING:
    from ....dispatch.tensor import Tensor
    from ...process_group import GroupSpec

__all__ = ["Message"]

HEADER = struct.Struct("16sq")
"""The dtype's name and the number of elements."""
COPIED = 1 << 16
"""Bytes up to which a message is copied behind its header: faster than to make MPI a datatype of both, which takes
3 us."""


class Message:
    """A tensor's memory and a header.

    Args:
        mpi: the module `mpi4py.MPI`.
        tensor: the contiguous tensor that is sent or received.
        memory: its memory, as bytes.
        is_sent: whether it is sent.
    """

    def __init__(self, mpi: Any, tensor: Tensor, memory: np.ndarray[Any, Any], is_sent: bool) -> None:
        self._mpi, self._memory = mpi, memory
        self._own = _name(tensor), tensor.numel()
        self._is_copied = memory.nbytes <= COPIED
        self._buffer = np.empty(HEADER.size + (memory.nbytes if self._is_copied else 0), np.uint8)
        HEADER.pack_into(self._buffer, 0, *(self._own if is_sent else (b"", 0)))
        if is_sent and self._is_copied:
            self._buffer[HEADER.size :] = memory

    def begin(self, call: Any, peer: int, tag: int) -> Any:
        """Begin to send or receive it, and return MPI's request. Whoever keeps this object keeps the memory."""
        if self._is_copied:
            return call(self._buffer, peer, tag)
        buffer, memory, mpi = self._buffer, self._memory, self._mpi
        both = mpi.Datatype.Create_struct(
            [buffer.nbytes, memory.nbytes], [buffer.ctypes.data, memory.ctypes.data], [mpi.BYTE, mpi.BYTE]
        )
        both.Commit()
        try:
            return call([mpi.BOTTOM, 1, both], peer, tag)
        finally:
            both.Free()  # MPI keeps it until the communication has ended

    def take(self, spec: GroupSpec, source: int, is_too_long: bool = False) -> None:
        """Put what came into the tensor.

        Args:
            spec: the group.
            source: the rank that sent it.
            is_too_long: whether it did not fit.

        Raises:
            DistBackendError: another dtype or size was sent. A message of up to 64 KiB leaves the tensor as it was.
        """
        name, count = HEADER.unpack_from(self._buffer)
        sent = name.rstrip(b"\0"), count
        if sent != self._own or is_too_long:
            theirs = _text(*sent) if sent[0] else f"more than {self._own[1]} elements"
            raise DistBackendError(
                f"recv: rank {spec.rank} of {len(spec.ranks)} in group {spec.name!r} ({spec.description}) got another "
                f"message than it expects: rank {source}: send({theirs}); rank {spec.rank}: recv({_text(*self._own)})"
            )
        if self._is_copied:
            self._memory[...] = self._buffer[HEADER.size :]


def _name(tensor: Tensor) -> bytes:
    return str(tensor.dtype).rpartition(".")[2].encode()


def _text(name: bytes, count: int) -> str:
    return f"{name.decode()}, {count} elements"
