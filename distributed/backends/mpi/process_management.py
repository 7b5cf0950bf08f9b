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
        """Answer requests until MPI finalizes."""
        answers: dict[str, Callable[[dict[str, str]], str]] = {
            "init": lambda request: "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": lambda request: "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
            "get_appnum": lambda request: "cmd=appnum appnum=0",
            "get_my_kvsname": lambda request: f"cmd=my_kvsname kvsname={self.name}",
            "get_universe_size": lambda request: f"cmd=universe_size size={self.size}",
            "put": self.put,
            "get": self.get,
            "barrier_in": self.barrier,
            "finalize": lambda request: "cmd=finalize_ack",
        }
        for line in self.stream:
            command, _, value = line.rstrip("\n").partition(" value=")
            fields = dict(word.split("=", 1) for word in command.split() if "=" in word) | {"value": value}
            answer = answers.get(fields.get("cmd", ""))
            self.stream.write(f"{answer(fields) if answer else 'cmd=error rc=-1'}\n")
            self.stream.flush()

    def put(self, request: dict[str, str]) -> str:
        """Store a value."""
        self.store.set(request["key"], request["value"])
        return "cmd=put_result rc=0 msg=success"

    def get(self, request: dict[str, str]) -> str:
        """Look up a value that a rank has put before the last barrier."""
        if not self.store.check([request["key"]]):
            return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
        return f"cmd=get_result rc=0 msg=success value={self.store.get(request['key']).decode()}"

    def barrier(self, request: dict[str, str]) -> str:
        """Wait for all processes."""
        self.barriers += 1
        name = f"barrier {self.barriers}"
        if self.store.add(name, 1) == self.size:
            self.store.set(f"{name} through", b"")
        self.store.wait([f"{name} through"])
        return "cmd=barrier_out"


@contextmanager
def process_management(store: Store, rank: int, size: int) -> Iterator[None]:
    """Serve the process manager that MPI needs to start inside the block.

    Args:
        store: Store that only these processes use.
        rank: Rank of this process.
        size: the number of processes.
    """
    ours, theirs = socket.socketpair()
    manager = _ProcessManager(store, rank, size, ours)
    threading.Thread(target=manager.serve, name="PMI", daemon=True).start()
    variables = {"PMI_FD": str(theirs.detach()), "PMI_RANK": str(rank), "PMI_SIZE": str(size)}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:  # child processes must not inherit them
            del os.environ[name]
