"""Headers of messages, by which the receiver notices another dtype or size than its own.

A header precedes each message on a communicator of its own, with the message's tag. The message itself stays one piece
of contiguous memory, which MPI copies once. After a message has come the receiver takes the headers of its source and
tag. It looks for one that is like its own tensor, since messages may be waited for in another order than they came in.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from ...errors import DistBackendError
from .jobs import keep

if TYPE_CHECKING:
    from ....dispatch.tensor import Tensor
    from ...process_group import GroupSpec

__all__ = ["Headers"]

HEADER = struct.Struct("16sq")
"""The dtype's name and the number of elements."""


class Headers:
    """The headers of a group's messages.

    Args:
        communicator: MPI's, on which there is nothing else.
        spec: the group.
    """

    def __init__(self, communicator: Any, spec: GroupSpec) -> None:
        self._comm, self._spec = communicator, spec
        self._came: dict[tuple[int, int], deque[bytes]] = {}
        self._lock = threading.Lock()

    def send(self, tensor: Tensor, peer: int, tag: int) -> None:
        """Send a tensor's header, before the tensor itself is sent."""
        header = _header(tensor)
        request = self._comm.Isend(header, peer, tag)
        if not request.Test():
            keep(request, header)

    def check(self, tensor: Tensor, source: int, tag: int, fits: bool) -> None:
        """Take the header of a message that has come.

        Args:
            tensor: what was to be received.
            source: the rank that sent the message.
            tag: the message's.
            fits: whether as many bytes came as the tensor has.

        Raises:
            DistBackendError: another dtype or size was sent.
        """
        own, comm, spec = _header(tensor), self._comm, self._spec
        with self._lock:
            came = self._came.setdefault((source, tag), deque())
            while not (fits and own in came):
                other = next((each for each in came if each != own), None)
                if other is not None and not comm.Iprobe(source, tag):
                    break
                header = bytearray(HEADER.size)
                comm.Recv(header, source, tag)  # it was sent before the message
                came.append(bytes(header))
            theirs = own if fits and own in came else other
            assert theirs is not None
            came.remove(theirs)
            if not came:
                del self._came[source, tag]
        if theirs != own:
            raise DistBackendError(
                f"recv: rank {spec.rank} of {len(spec.ranks)} in group {spec.name!r} ({spec.description}) got another "
                f"message than it expects: rank {source}: send({_text(theirs)}); rank {spec.rank}: recv({_text(own)}). "
                "Receive into a tensor of the sender's dtype and size"
            )


def _header(tensor: Tensor) -> bytes:
    return HEADER.pack(str(tensor.dtype).rpartition(".")[2].encode(), tensor.numel())


def _text(header: bytes) -> str:
    name, count = HEADER.unpack(header)
    return f"{name.rstrip(bytes(1)).decode()}, {count} elements"
