"""A store in one process, which others reach over TCP."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from ..errors import DistNetworkError, DistStoreError, QueueEmptyError
from .store import DEFAULT_TIMEOUT, Presence, Store, as_bytes, seconds_of
from .tcp_server import ANSWER, EMPTY, LEAVE, WATCH, TCPStoreServer
from .wire import receive, send

__all__ = ["TCPStore"]

RETRY = 0.05
"""Seconds between two tries to reach a server that is not there yet."""
GRACE = 5.0
"""Seconds beyond a time limit after which a server that has not answered is taken for lost."""
WORKERS = "__workers__"
"""The key under which processes that have come are counted."""


class _Connected(Presence):
    """Presence of a process, detected through its own connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def leave(self) -> None:
        try:
            send(self._connection, [LEAVE])
            receive(self._connection)
        except (OSError, DistNetworkError):
            pass  # the master has gone before
        self._connection.close()


class TCPStore(Store):
    """Values in the process that is the master, over TCP (`torch.distributed.TCPStore`).

    Args:
        host_name: the master's name or address.
        port: its port; 0 has the master choose one, which `port` then tells.
        world_size: the number of processes that use the store, the master among them; None for any number.
        is_master: True if this process holds the values.
        timeout: Time limit for the master, and for values.
        wait_for_workers: If True, the master waits for all processes.
        multi_tenant: If True, a master whose port is already served by this process uses that server.
        use_libuv: Ignored; accepted for compatibility with PyTorch.

    Raises:
        DistNetworkError: the port is taken, or the master does not answer in time.

    Example:
        >>> import triten as tt
        >>> master = tt.distributed.TCPStore("localhost", 0, is_master=True)
        >>> other = tt.distributed.TCPStore("localhost", master.port)
        >>> other.set("key", "value"); master.get("key")
        b'value'
    """

    _servers: ClassVar[dict[int, TCPStoreServer]] = {}

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        use_libuv: bool = True,
    ) -> None:
        super().__init__(timeout)
        self.host, self.port, self.world_size, self.is_master = host_name, port, world_size, is_master
        self.libuvBackend = use_libuv
        self._server: TCPStoreServer | None = None
        if is_master:
            shared_server = self._servers.get(port) if multi_tenant else None
            self._server = shared_server or TCPStoreServer(host_name, port)
            self.port = self._server.port
            if multi_tenant:
                self._servers[self.port] = self._server
        self._own = threading.local()
        self._has_met = False
        self._ask("num_keys")
        if world_size is not None and wait_for_workers:
            self._meet(world_size)

    def _meet(self, world_size: int) -> None:
        """Count this process; on the master, wait for all others."""
        self.add(WORKERS, 1)
        limit = time.monotonic() + self._timeout.total_seconds()
        while self.is_master and (num_workers := self.add(WORKERS, 0)) < world_size:
            if time.monotonic() > limit:
                raise DistStoreError(
                    f"TCPStore: {num_workers} of {world_size} processes connected to {self.host}:{self.port} within "
                    f"{self._timeout.total_seconds():g} s"
                )
            time.sleep(RETRY)

    def set(self, key: str, value: str | bytes) -> None:
        self._ask("set", key, as_bytes(value))

    def get(self, key: str) -> bytes:
        return self._ask("get", _text(self._timeout.total_seconds()), key)[0]

    def add(self, key: str, amount: int) -> int:
        return int(self._ask("add", key, _text(amount))[0])

    def append(self, key: str, value: str | bytes) -> None:
        self._ask("append", key, as_bytes(value))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        return self._ask("compare_set", key, as_bytes(expected_value), as_bytes(desired_value))[0]

    def delete_key(self, key: str) -> bool:
        return self._ask("delete_key", key)[0] == b"1"

    def num_keys(self) -> int:
        return int(self._ask("num_keys")[0])

    def check(self, keys: Sequence[str]) -> bool:
        return self._ask("check", *keys)[0] == b"1"

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        self._ask("wait", _text(seconds_of(timeout, self._timeout)), *keys)

    def queue_push(self, key: str, value: str | bytes) -> None:
        self._ask("queue_push", key, as_bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        return self._ask("queue_pop", _text(self._timeout.total_seconds() if block else 0.0), key)[0]

    def queue_len(self, key: str) -> int:
        return int(self._ask("queue_len", key)[0])

    def presence(self, key: str, value: bytes) -> Presence:
        connection = self._connect()
        send(connection, [WATCH, key.encode(), value])
        receive(connection)
        return _Connected(connection)

    def clone(self) -> TCPStore:
        return TCPStore(self.host, self.port, None, False, self._timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        return TCPStore, (self.host, self.port, None, False, self._timeout)

    def _ask(self, name: str, *fields: str | bytes) -> list[bytes]:
        """Send a request to the master and return its answer. Each thread has its own connection, so that no
        thread waits for another's value.
        """
        connection: socket.socket | None = getattr(self._own, "connection", None)
        if connection is None or self._own.process != os.getpid():  # a fork would read its parent's answers
            connection = self._own.connection = self._connect()
            self._own.process = os.getpid()
        waits = float(fields[0]) if name in ("get", "wait", "queue_pop") else self._timeout.total_seconds()
        connection.settimeout(waits + GRACE)
        try:
            send(connection, [name.encode(), *map(as_bytes, fields)])
            answer = receive(connection)
        except OSError as error:
            answer, reason = None, f": {error}"
        else:
            reason = ""
        if answer is None:
            connection.close()
            self._own.connection = None
            raise DistNetworkError(
                f"TCPStore: the connection to {self.host}:{self.port} was lost at {name}{reason}"
            )
        kind, *values = answer
        if kind == ANSWER:
            return values
        raise (QueueEmptyError if kind == EMPTY else DistStoreError)(values[0].decode())

    def _connect(self) -> socket.socket:
        # A master that was there once and is not now has ended.
        patience = (
            min(self._timeout.total_seconds(), GRACE) if self._has_met else self._timeout.total_seconds()
        )
        limit = time.monotonic() + patience
        while True:
            try:
                left = max(limit - time.monotonic(), RETRY)
                connection = socket.create_connection((self.host, self.port), timeout=left)
            except OSError as error:
                has_ended = self._has_met and isinstance(error, ConnectionRefusedError)
                if has_ended or time.monotonic() + RETRY > limit:
                    raise DistNetworkError(
                        f"TCPStore: no server at {self.host}:{self.port} within {patience:g} s: {error}"
                    ) from None
                time.sleep(RETRY)
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._has_met = True
            return connection


def _text(number: float) -> bytes:
    return repr(number).encode()
