"""A store served over TCP survives clients that do not speak its protocol."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
import struct
import threading
from typing import Any

import pytest

from triten.distributed import TCPStore
from triten.distributed.stores import wire


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> TCPStore:
    """Return a store and fail the test if one of its threads ends with an exception."""
    monkeypatch.setattr(threading, "excepthook", lambda given: pytest.fail(repr(given.exc_value)))
    return TCPStore("localhost", 0, is_master=True)


def client(store: TCPStore) -> socket.socket:
    return socket.create_connection(("localhost", store.port), timeout=30)


@pytest.mark.parametrize(
    "fields",
    [
        (),
        (b"\xff",),
        (b"set", b"\xff", b""),
        (b"get", b"nan", b"key"),
        (b"get", b"inf", b"key"),
        (b"wait", b"1e300", b"key"),
        (b"queue_pop", b"nan", b"key"),
        (b"add", b"key", b"1" * 6000),
        (b"set", b"key"),
        (b"set", b"1", b"2", b"3"),
    ],
)
def test_what_is_no_request_is_answered_so(store: TCPStore, fields: tuple[bytes, ...]) -> None:
    with client(store) as connection:
        wire.send(connection, fields)
        answer = wire.receive(connection)
        assert answer is not None and answer[0] == b"failed" and b"not a request" in answer[1]
        wire.send(connection, [b"num_keys"])
        assert wire.receive(connection) == [b"answer", b"0"]


def test_bytes_that_are_no_message_end_their_connection_alone(store: TCPStore) -> None:
    draws = random.Random(0)
    packets = [b"\xff" * 4 + draws.randbytes(draws.randrange(64)) for _ in range(20)]
    packets += [struct.pack("!II", 4, length) for length in (1, 1 << 31)]  # a field longer than its message
    for packet in packets:
        with client(store) as connection:
            connection.sendall(packet)
            with contextlib.suppress(ConnectionResetError):  # where the server had more to read
                assert connection.recv(1) == b""
    with client(store) as connection:
        wire.send(connection, [b"watch", b"\xff", b""])
        assert wire.receive(connection) == [b"answer"]
    store.set("key", "value")
    assert store.get("key") == b"value"


class _Listener:
    """A listener that cannot take the first connections, as where a process has too many files."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener, self.refusals = listener, 2

    def accept(self) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)


def test_too_many_files_for_a_while_do_not_end_the_server(store: TCPStore) -> None:
    server = store._server
    assert server is not None
    server.listener = _Listener(server.listener)  # type: ignore[assignment]
    for _ in range(4):  # the first one was waited for before
        other = TCPStore("localhost", store.port)
        other.set("key", "value")
    assert server.listener.refusals == 0  # type: ignore[attr-defined]
