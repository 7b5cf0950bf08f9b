"""How processes find each other: by a URL, the environment, or MPI's launcher (`torch.distributed.rendezvous`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from .stores.file_store import FileStore
from .stores.store import DEFAULT_TIMEOUT, Store
from .stores.tcp_store import TCPStore

__all__ = ["Meeting", "register_rendezvous_handler", "rendezvous"]

Meeting: TypeAlias = tuple[Store, int, int]
"""A store of all processes, this process's number, and how many there are."""
MAX_PORTS = 1 << 16


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[Meeting]:
    """Meet the other processes of a program (`torch.distributed.rendezvous`).

    Args:
        url: ``env://`` for the variables MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, or what MPI's launcher or
            SLURM says where they are not set; ``tcp://host:port`` for a store that rank 0 serves there;
            ``file:///path`` for one in a file that all see; ``mpi://`` for MPI's launcher.
            ``?rank=0&world_size=2`` may follow.
        rank: Rank of this process, if the URL does not contain it.
        world_size: the number of processes, where the URL does not say it.
        kwargs: ``timeout``, how long to wait for the others.

    Returns:
        An iterator over one triple of a store, the rank and the number of processes.

    Raises:
        RuntimeError: there is no such scheme.
        ValueError: something that the scheme needs is missing.
    """
    if not isinstance(url, str):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    for name, value in (("rank", rank), ("world_size", world_size)):
        if not isinstance(value, int):
            raise RuntimeError(f"`{name}` must be an integer. {value}")
    parts = urlsplit(url)
    if parts.scheme not in _HANDLERS:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    query = dict(parse_qsl(parts.query))
    if (rank != -1 or world_size != -1) and ("rank" in query or "world_size" in query):
        raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
    arguments = {"rank": rank, "world_size": world_size}
    query.update({name: str(value) for name, value in arguments.items() if value != -1})
    if parts.scheme in _OWN:
        return _OWN[parts.scheme](url, query, kwargs.get("timeout", DEFAULT_TIMEOUT))
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return _HANDLERS[parts.scheme](parts._replace(query=text).geturl(), **kwargs)


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[Meeting]]) -> None:
    """Make another scheme known (`torch.distributed.register_rendezvous_handler`).

    Args:
        scheme: what URLs begin with.
        handler: called with the URL, which says ``rank`` and ``world_size`` in its query, and keyword arguments; gives
            an iterator over a store, the rank and the number of processes.

    Raises:
        RuntimeError: it is known already.
    """
    if scheme in _HANDLERS:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _HANDLERS[scheme] = handler


def _failed(scheme: str, text: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {text}")


def _number(query: dict[str, str], name: str, scheme: str) -> int:
    if name not in query:
        words = name.replace("_", " ")
        raise _failed(scheme, f"{words} parameter missing")
    try:
        return int(query[name])
    except ValueError:
        raise _failed(scheme, f"expected a number for {name}, but got {query[name]!r}") from None


def _checked(scheme: str, rank: int, size: int) -> tuple[int, int]:
    if not 0 <= rank < size:
        raise _failed(scheme, f"expected a rank from 0 to {size - 1} of {size} processes, but got {rank}")
    return rank, size


def _tcp_store(host: str, port: int, rank: int, size: int, timeout: timedelta) -> Store:
    if not 0 <= port < MAX_PORTS:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    # If the launcher serves a store, all ranks are its clients.
    is_served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return TCPStore(
        host,
        port,
        size,
        is_master=rank == 0 and not is_served,
        timeout=timeout,
        wait_for_workers=not is_served,
        multi_tenant=True,
    )


def _by_tcp(url: str, query: dict[str, str], timeout: timedelta) -> Iterator[Meeting]:
    parts = urlsplit(url)
    if parts.port is None or parts.hostname is None:
        raise _failed("tcp", "port number missing" if parts.hostname else "host missing")
    rank, size = _checked("tcp", _number(query, "rank", "tcp"), _number(query, "world_size", "tcp"))
    yield _tcp_store(parts.hostname, parts.port, rank, size, timeout), rank, size


def _by_file(url: str, query: dict[str, str], timeout: timedelta) -> Iterator[Meeting]:
    path = urlsplit(url).path
    if not path:
        raise _failed("file", "path missing")
    rank, size = _checked("file", _number(query, "rank", "file"), _number(query, "world_size", "file"))
    yield FileStore(path, size, timeout), rank, size


def _by_environment(url: str, query: dict[str, str], timeout: timedelta) -> Iterator[Meeting]:
    from .cluster_environment import cluster_environment

    launcher = cluster_environment()
    if launcher is not None and launcher.starts_mpi and not os.environ.get("MASTER_ADDR"):
        return _by_mpi(url, query, timeout)
    variables = {} if launcher is None else launcher.variables()
    variables |= {name: value for name, value in os.environ.items() if value}
    variables |= {name.upper(): value for name, value in query.items()}
    for variable in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        if variable not in variables:
            raise _failed(
                "env",
                f"environment variable {variable} expected, but not set. Start the program with "
                "`python -m triten.distributed.run --standalone --nproc-per-node N`, which sets it.",
            )
    rank, size = _checked("env", _number(variables, "RANK", "env"), _number(variables, "WORLD_SIZE", "env"))
    port = _number(variables, "MASTER_PORT", "env")
    return iter([(_tcp_store(variables["MASTER_ADDR"], port, rank, size, timeout), rank, size)])


def _by_mpi(url: str, query: dict[str, str], timeout: timedelta) -> Iterator[Meeting]:
    """MPI's launcher has started the processes: rank 0 tells the others by MPI where its store is."""
    from .backends.mpi.library import start

    mpi = start(None, int(query.get("rank", -1)), int(query.get("world_size", -1)))
    world = mpi.COMM_WORLD
    rank, size = world.rank, world.size
    names = world.allgather(mpi.Get_processor_name())
    host = "localhost" if len(set(names)) == 1 else names[0]
    store = TCPStore(host, 0, is_master=True, timeout=timeout) if rank == 0 else None
    port = world.bcast(None if store is None else store.port)
    yield store or TCPStore(host, port, timeout=timeout), rank, size


_OWN: dict[str, Callable[[str, dict[str, str], timedelta], Iterator[Meeting]]] = {
    "env": _by_environment,
    "tcp": _by_tcp,
    "file": _by_file,
    "mpi": _by_mpi,
}
_HANDLERS: dict[str, Callable[..., Iterator[Meeting]]] = dict(_OWN)
