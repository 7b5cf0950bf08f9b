"""The store of a rendezvous: served by the agent that can, reached by the others."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import timedelta

from ...errors import DistNetworkError
from ...stores.hash_store import HashStore
from ...stores.store import Store
from ...stores.tcp_server import TCPStoreServer
from ...stores.tcp_store import TCPStore
from .errors import RendezvousConnectionError
from .parameters import RendezvousParameters

__all__ = ["find_store", "own_address"]

RETRY = 0.1
"""Seconds between two tries to reach a store that is not served yet."""


def find_store(
    parameters: RendezvousParameters, pause: Callable[[float], None]
) -> tuple[Store, TCPStoreServer | None]:
    """Serve the store, or reach the one that another agent serves.

    Args:
        parameters: the rendezvous.
        pause: waits for some seconds, and raises where the agent is to end.

    Returns:
        The store, and its server where it is here.

    Raises:
        RendezvousConnectionError: it cannot be served here, or was not served in time.
    """
    host, port = parameters.host, parameters.port
    timeout = timedelta(seconds=parameters.timeouts.read)
    if parameters.max_nodes == 1 and not port:
        return HashStore(timeout), None
    server = _serve(parameters)
    limit = time.monotonic() + parameters.timeouts.join
    while server is None:
        try:
            socket.create_connection((host, port), timeout=parameters.timeouts.read).close()
            break
        except OSError as error:
            if time.monotonic() > limit:
                raise RendezvousConnectionError(
                    f"no agent serves {host}:{port} within {parameters.timeouts.join:g} s: {error}"
                ) from None
        pause(RETRY)
    try:
        return TCPStore(host, port if server is None else server.port, timeout=timeout), server
    except DistNetworkError as error:
        raise RendezvousConnectionError(str(error)) from error


def _serve(parameters: RendezvousParameters) -> TCPStoreServer | None:
    """Start the store's server, if this process hosts it."""
    host, port = parameters.host, parameters.port
    is_ours = parameters.is_host
    if is_ours is None:
        is_ours = parameters.node_rank == 0 if parameters.backend == "static" else _is_own(host)
    if not is_ours:
        return None
    try:
        return TCPStoreServer(host, port)
    except DistNetworkError as error:
        if parameters.backend == "c10d" and parameters.is_host is None:
            return None  # another agent on this machine serves it
        raise RendezvousConnectionError(str(error)) from error


def _is_own(host: str) -> bool:
    """Return True if a host is this machine: a socket can bind to it."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as tried:
            tried.bind(address)
    except OSError:
        return False
    return True


def own_address(parameters: RendezvousParameters, is_host: bool) -> str:
    """Return the address through which other nodes reach this one: the local address that reaches their
    store.
    """
    if parameters.local_addr is not None:
        return parameters.local_addr
    if is_host:
        return parameters.host
    with socket.create_connection((parameters.host, parameters.port), parameters.timeouts.read) as connection:
        return str(connection.getsockname()[0])
