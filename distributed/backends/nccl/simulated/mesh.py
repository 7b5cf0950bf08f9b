"""Full mesh of connections between processes, which find each other through an id like NCCL's.

The id holds the port of the process that created it, which tells each process the ports of the others. The id
also holds a token; connections without the token are closed. All processes run on one machine.
"""

from __future__ import annotations

import queue
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

__all__ = ["ID_BYTES", "Mesh", "Message", "new_id"]

ID_BYTES = 128
"""The length of an id, NCCL's."""
LOCALHOST = "127.0.0.1"
TOKEN_BYTES = 16
LIMIT = 300.0
"""Seconds that a process waits for the others to come."""
PATIENCE = 5.0
"""Seconds to send the remaining messages on close."""
_ID = struct.Struct(f"!H{TOKEN_BYTES}s")
_HELLO = struct.Struct(f"!{TOKEN_BYTES}sIIH")
_HEAD = struct.Struct("!BHHQ")

DATA, ASK = 0, 1


class Message(NamedTuple):
    """Something that goes from one process to another.

    Attributes:
        kind: DATA for the bytes of a call, or ASK to request the bytes of a call that another rank waits for.
        key: Key of the call.
        text: Text of the call and its arguments.
        body: The bytes.
    """

    kind: int
    key: str
    text: str
    body: bytes


def new_id() -> bytes:
    """Return a new id, and start the thread through which its processes find each other."""
    listener = _listen()
    token = secrets.token_bytes(TOKEN_BYTES)
    threading.Thread(target=_introduce, args=(listener, token), name="NCCL bootstrap", daemon=True).start()
    return _ID.pack(listener.getsockname()[1], token).ljust(ID_BYTES, b"\0")


def _listen() -> socket.socket:
    listener = socket.create_server((LOCALHOST, 0), backlog=64)
    listener.settimeout(LIMIT)
    return listener


def _introduce(listener: socket.socket, token: bytes) -> None:
    """Tell each process the ports of all, once they have come."""
    connections: dict[int, tuple[socket.socket, int]] = {}
    size = 1
    with listener:
        while len(connections) < size:
            try:
                connection, _ = listener.accept()
            except OSError:  # some never came; those that did hear of it by the end of their connections
                break
            hello = _hello(connection, token)
            if hello is not None:
                rank, size, port = hello
                connections[rank] = connection, port
        ports = [connections[rank][1] if rank in connections else 0 for rank in range(size)]
        for connection, _ in connections.values():
            with connection:
                if 0 not in ports:
                    connection.sendall(struct.pack(f"!{size}H", *ports))


def _hello(connection: socket.socket, token: bytes) -> tuple[int, int, int] | None:
    """Return the rank, size and port of a connected process; close a connection without the token and return
    None.
    """
    connection.settimeout(LIMIT)
    message = _exactly(connection, _HELLO.size)
    if message is not None:
        received_token, rank, size, port = _HELLO.unpack(message)
        if secrets.compare_digest(received_token, token):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return rank, size, port
    connection.close()
    return None


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    """Receive `size` bytes. Return None at the end of the connection."""
    data, received = bytearray(size), 0
    while received < size:
        try:
            got = connection.recv_into(memoryview(data)[received:])
        except OSError:
            return None
        if not got:
            return None
        received += got
    return bytes(data)


class Mesh:
    """One process's connections with the others.

    Args:
        unique_id: the id, which all have.
        rank: Rank of this process.
        size: the number of processes.
        deliver: called in a thread with the sender of each message, and with None in the place of the message where
            the sender is gone.

    Raises:
        RuntimeError: not all processes came.
    """

    def __init__(
        self, unique_id: bytes, rank: int, size: int, deliver: Callable[[int, Message | None], None]
    ) -> None:
        self.rank, self.size, self._deliver = rank, size, deliver
        self._outgoing: queue.SimpleQueue[tuple[int, Message] | None] = queue.SimpleQueue()
        self._connections = self._connect(unique_id) if size > 1 else {}
        self._is_closing = False
        self._writer = threading.Thread(target=self._write, name="NCCL sender", daemon=True)
        self._writer.start()
        for peer, connection in self._connections.items():
            threading.Thread(
                target=self._read, args=(peer, connection), name="NCCL receiver", daemon=True
            ).start()

    def send(self, peer: int, message: Message) -> None:
        """Deliver a message to this process itself, or queue it for a peer. Does not block."""
        if peer == self.rank:
            self._deliver(peer, message)
        else:
            self._outgoing.put((peer, message))

    def close(self) -> None:
        """Send the remaining messages, and close the connections."""
        self._is_closing = True
        self._outgoing.put(None)
        self._writer.join(PATIENCE)

    def _connect(self, unique_id: bytes) -> dict[int, socket.socket]:
        port, token = _ID.unpack_from(unique_id)
        connections: dict[int, socket.socket] = {}
        with _listen() as listener:
            hello = _HELLO.pack(token, self.rank, self.size, listener.getsockname()[1])
            with socket.create_connection((LOCALHOST, port), LIMIT) as root:
                root.sendall(hello)
                port_table = _exactly(root, 2 * self.size)
            if port_table is None:
                raise RuntimeError(f"NCCL: fewer than {self.size} processes connected within {LIMIT:g} s")
            ports = struct.unpack(f"!{self.size}H", port_table)
            for peer in range(self.rank):
                connection = socket.create_connection((LOCALHOST, ports[peer]), LIMIT)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(hello)
                connections[peer] = connection
            while len(connections) < self.size - 1:
                connection, _ = listener.accept()
                came = _hello(connection, token)
                if came is not None:
                    connections[came[0]] = connection
        for connection in connections.values():
            connection.settimeout(None)
        return connections

    def _write(self) -> None:
        while (item := self._outgoing.get()) is not None:
            peer, message = item
            key, text = message.key.encode(), message.text.encode()
            head = _HEAD.pack(message.kind, len(key), len(text), len(message.body))
            try:
                self._connections[peer].sendall(head + key + text + message.body)
            except OSError:  # its end is noted where it is read from
                continue
        for connection in self._connections.values():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)

    def _read(self, peer: int, connection: socket.socket) -> None:
        while True:
            head = _exactly(connection, _HEAD.size)
            kind, keys, texts, size = _HEAD.unpack(head) if head is not None else (DATA, 0, 0, 0)
            rest = _exactly(connection, keys + texts + size) if head is not None else None
            if rest is None:
                connection.close()
                if not self._is_closing:
                    self._deliver(peer, None)
                return
            key, text = rest[:keys].decode(), rest[keys : keys + texts].decode()
            self._deliver(peer, Message(kind, key, text, rest[keys + texts :]))
