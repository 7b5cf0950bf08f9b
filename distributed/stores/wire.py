"""Requests and answers of a store over a connection: lists of byte strings, each with its length before it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

from ..errors import DistNetworkError

__all__ = ["MAX_BYTES", "receive", "send"]

MAX_BYTES = 1 << 28
"""Maximum length of a message; a longer one is not a message of a store."""
_LENGTH = struct.Struct("!I")


def send(connection: socket.socket, fields: Sequence[bytes]) -> None:
    """Send a message. Raises ValueError for one that no store takes, and OSError."""
    body = b"".join(part for field in fields for part in (_LENGTH.pack(len(field)), field))
    if len(body) > MAX_BYTES:
        raise ValueError(f"store: a message of {len(body)} bytes is longer than {MAX_BYTES}")
    connection.sendall(_LENGTH.pack(len(body)) + body)


def receive(connection: socket.socket) -> list[bytes] | None:
    """Return the next message, or None at the end of the connection.

    Raises:
        DistNetworkError: what came is no message.
        OSError: the connection broke.
    """
    head = _exactly(connection, _LENGTH.size)
    if head is None:
        return None
    (size,) = _LENGTH.unpack(head)
    body = _exactly(connection, size) if size <= MAX_BYTES else None
    if body is None:
        raise DistNetworkError(f"store: a message of {size} bytes was cut off, or is longer than {MAX_BYTES}")
    fields, offset = [], 0
    while offset < size:
        if size - offset < _LENGTH.size:
            raise DistNetworkError("store: a message ends in the middle of a length")
        (length,) = _LENGTH.unpack_from(body, offset)
        offset += _LENGTH.size
        if length > size - offset:
            raise DistNetworkError(
                f"store: a field of {length} bytes in a message that has {size - offset} left"
            )
        fields.append(body[offset : offset + length])
        offset += length
    return fields


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    parts, missing = [], size
    while missing:
        part = connection.recv(min(missing, 1 << 20))
        if not part:
            return None
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
