"""The process that keeps the values of a `TCPStore`, and answers the others."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from ..errors import DistNetworkError, DistStoreError, QueueEmptyError
from .hash_store import HashStore
from .wire import receive, send

__all__ = ["ANSWER", "EMPTY", "FAILED", "LEAVE", "WATCH", "TCPStoreServer"]

ANSWER, FAILED, EMPTY = b"answer", b"failed", b"empty"
"""First field of an answer."""
WATCH, LEAVE = b"watch", b"leave"
"""Requests of a connection about itself: to keep a value once it breaks, and to keep none."""


CLOSED = (errno.EBADF, errno.EINVAL)
"""Error numbers of `accept` on a closed listener."""
PAUSE = 0.05
"""Seconds until connections are taken again where none could be."""


def _number(value: int) -> bytes:
    return str(int(value)).encode()


class TCPStoreServer:
    """Serves a `HashStore` to connections, each in a thread.

    Args:
        host: the name by which clients reach this process. A name of this machine's loopback has the server listen
            there alone, any other one on all of its addresses.
        port: the port; 0 for one that is free.

    Raises:
        DistNetworkError: the port cannot be had.
    """

    def __init__(self, host: str, port: int) -> None:
        self.values = HashStore()
        self.listener = _listen(host, port)
        self.port: int = self.listener.getsockname()[1]
        self._connections: set[socket.socket] = set()
        self._beginning, self._lock = 0, threading.Lock()
        threading.Thread(target=self._accept, name="TCPStore server", daemon=True).start()

    def close(self) -> None:
        """Stop listening, and end all connections."""
        for each in (self.listener, *tuple(self._connections)):
            with contextlib.suppress(OSError):  # the other side was faster
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def begin_again(self, keep: str) -> None:
        """Forget the values, and those that are to be kept once the connections of now break.

        Args:
            keep: values whose keys begin so stay.
        """
        with self._lock:
            self._beginning += 1
            self.values.clear(keep)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:
                if self.listener.fileno() < 0 or error.errno in CLOSED:
                    return
                time.sleep(PAUSE)  # too many files for now, or a client that is gone again
                continue
            self._connections.add(connection)
            served = threading.Thread(
                target=self._serve, args=(connection,), name="TCPStore connection", daemon=True
            )
            try:
                served.start()
            except RuntimeError:  # too many threads: this client is refused, and others are served on
                self._connections.discard(connection)
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        watched: dict[str, tuple[int, bytes]] = {}
        try:
            while (fields := receive(connection)) is not None:
                if fields[:1] == [WATCH] and len(fields) == 3:
                    watched[fields[1].decode(errors="replace")] = self._beginning, fields[2]
                    send(connection, [ANSWER])
                elif fields == [LEAVE]:
                    watched.clear()
                    send(connection, [ANSWER])
                else:
                    send(connection, self._answer(fields))
        except (OSError, DistNetworkError):
            pass  # a client that is gone, or that speaks something else, gets no answer
        finally:
            with self._lock:
                for key, (beginning, value) in watched.items():
                    if beginning == self._beginning:
                        self.values.compare_set(key, b"", value)  # what the process itself has said stays
            self._connections.discard(connection)
            connection.close()

    def _answer(self, fields: list[bytes]) -> list[bytes]:
        try:
            name, *arguments = fields
            return [ANSWER, *REQUESTS[name.decode()](self.values, *arguments)]
        except QueueEmptyError as error:
            return [EMPTY, str(error).encode()]
        except DistStoreError as error:
            return [FAILED, str(error).encode()]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            return [FAILED, f"not a request: {error}".encode()]


def _listen(host: str, port: int) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise DistNetworkError(f"TCPStore: cannot resolve the host {host!r}: {error}") from None
    family, _, _, _, address = addresses[0]
    is_local = str(address[0]) == "::1" or str(address[0]).startswith("127.")
    bind_address = address if is_local else ("", port)
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(bind_address)
        listener.listen(1024)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        raise DistNetworkError(
            f"TCPStore: the server could not listen on {host}:{port}"
            f"{' (EADDRINUSE)' if is_taken else ''}: {error.strerror}"
        ) from None
    return listener


def _wait(store: HashStore, seconds: bytes, *keys: bytes) -> list[bytes]:
    store.wait([key.decode() for key in keys], timedelta(seconds=float(seconds)))
    return []


def _get(store: HashStore, seconds: bytes, key: bytes) -> list[bytes]:
    _wait(store, seconds, key)
    return [store.get(key.decode())]


def _queue_pop(store: HashStore, seconds: bytes, key: bytes) -> list[bytes]:
    name = key.decode()
    if not float(seconds):
        return [store.queue_pop(name, block=False)]
    limited = store.view(timedelta(seconds=float(seconds)))
    return [limited.queue_pop(name)]


def _nothing(made: None) -> list[bytes]:
    return []


REQUESTS: dict[str, Callable[..., list[bytes]]] = {
    "set": lambda store, key, value: _nothing(store.set(key.decode(), value)),
    "get": _get,
    "add": lambda store, key, amount: [_number(store.add(key.decode(), int(amount)))],
    "append": lambda store, key, value: _nothing(store.append(key.decode(), value)),
    "compare_set": lambda store, key, old, new: [store.compare_set(key.decode(), old, new)],
    "delete_key": lambda store, key: [_number(store.delete_key(key.decode()))],
    "num_keys": lambda store: [_number(store.num_keys())],
    "check": lambda store, *keys: [_number(store.check([key.decode() for key in keys]))],
    "wait": _wait,
    "queue_push": lambda store, key, value: _nothing(store.queue_push(key.decode(), value)),
    "queue_pop": _queue_pop,
    "queue_len": lambda store, key: [_number(store.queue_len(key.decode()))],
}
"""Handlers of client requests; each takes the store and the request's fields."""
