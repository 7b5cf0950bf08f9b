"""MPI start-up without `mpiexec`: the Process Management Interface (PMI-1) over a store.

MPICH asks its process manager for the addresses of the other ranks, as lines of text over a socket. Here a
thread of the process itself answers. It keeps the published values in the store through which the processes
found each other.

Source: https://www.mpich.org, "PMI version 1 wire protocol".
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...stores.store import Store

__all__ = ["process_management"]


class _ProcessManager:
    """Answers one process.

    Args:
        store: where processes leave what others ask for.
        rank: the process's number.
        size: the number of processes.
        connection: this side of the socket.
    """

    def __init__(self, store: Store, rank: int, size: int, connection: socket.socket) -> None:
        self.store, self.rank, self.size = store, rank, size
        self.stream = connection.makefile("rw", newline="\n")
        # MPICH names shared memory after the values: a name that was used before would find what is left there.
        own = f"triten-{uuid.uuid4().hex}"
        self.name = store.compare_set("name", b"", own).decode()
        self.barriers = 0

    def serve(self) -> None:
        """Answer until the process is through with MPI."""
        answers: dict[str, Callable[[dict[str, str]], str]] = {
            "init": lambda given: "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": lambda given: "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
            "get_appnum": lambda given: "cmd=appnum appnum=0",
            "get_my_kvsname": lambda given: f"cmd=my_kvsname kvsname={self.name}",
            "get_universe_size": lambda given: f"cmd=universe_size size={self.size}",
            "put": self.put,
            "get": self.get,
            "barrier_in": self.barrier,
            "finalize": lambda given: "cmd=finalize_ack",
        }
        for line in self.stream:
            command, _, value = line.rstrip("\n").partition(" value=")
            given = dict(word.split("=", 1) for word in command.split() if "=" in word) | {"value": value}
            answer = answers.get(given.get("cmd", ""))
            self.stream.write(f"{answer(given) if answer else 'cmd=error rc=-1'}\n")
            self.stream.flush()

    def put(self, given: dict[str, str]) -> str:
        """Keep a value."""
        self.store.set(given["key"], given["value"])
        return "cmd=put_result rc=0 msg=success"

    def get(self, given: dict[str, str]) -> str:
        """Look up a value that a rank has put before the last barrier."""
        if not self.store.check([given["key"]]):
            return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
        return f"cmd=get_result rc=0 msg=success value={self.store.get(given['key']).decode()}"

    def barrier(self, given: dict[str, str]) -> str:
        """Wait for all processes."""
        self.barriers += 1
        name = f"barrier {self.barriers}"
        if self.store.add(name, 1) == self.size:
            self.store.set(f"{name} through", b"")
        self.store.wait([f"{name} through"])
        return "cmd=barrier_out"


@contextmanager
def process_management(store: Store, rank: int, size: int) -> Iterator[None]:
    """MPI may be started inside the block.

    Args:
        store: a store of these processes, and of nobody else.
        rank: Rank of this process.
        size: the number of processes.
    """
    ours, theirs = socket.socketpair()
    manager = _ProcessManager(store, rank, size, ours)
    threading.Thread(target=manager.serve, name="PMI", daemon=True).start()
    asked = {"PMI_FD": str(theirs.detach()), "PMI_RANK": str(rank), "PMI_SIZE": str(size)}
    os.environ.update(asked)
    try:
        yield
    finally:
        for name in asked:  # a process that this one starts has none of it
            del os.environ[name]
