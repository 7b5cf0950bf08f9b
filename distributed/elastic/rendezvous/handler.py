"""An agent's part in a rendezvous."""

from __future__ import annotations

import itertools
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ...errors import DistError
from ...stores.prefix_store import PrefixStore
from ...stores.tcp_server import TCPStoreServer
from .errors import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousTimeoutError,
)
from .hosting import find_store, own_address
from .keep_alive import KeepAlive
from .parameters import RendezvousParameters
from .state import Node, RendezvousState

__all__ = ["RendezvousHandler", "RendezvousInfo"]

STATE = "state"
POLL = 0.05
"""Seconds between two looks at the state, of few agents."""
MAX_POLLS_PER_SECOND = 1000
"""Maximum number of polls per second that the store's server receives from all agents together."""

logger = logging.getLogger(__name__)
_writes = itertools.count()


@dataclass(frozen=True)
class RendezvousInfo:
    """Result of a rendezvous between the nodes of a job (`RendezvousInfo`).

    Attributes:
        round: Number of earlier rounds.
        restarts: Number of restarts of the workers after a failure.
        rank: Rank of this node.
        nodes: The nodes, by rank.
        master_addr: Host of the workers' store.
        master_port: Port of the workers' store.
    """

    round: int
    restarts: int
    rank: int
    nodes: tuple[Node, ...]
    master_addr: str
    master_port: int


class RendezvousHandler:
    """Has this agent take part (`RendezvousHandler`).

    Args:
        parameters: the rendezvous.
        workers: how many workers this node starts.
        role: what these are for.
        pause: waits for some seconds, and raises where the agent is to end.

    Raises:
        RendezvousConnectionError: the store cannot be reached.
    """

    def __init__(
        self,
        parameters: RendezvousParameters,
        workers: int,
        role: str,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.parameters, self._pause = parameters, pause
        store, self._server = find_store(parameters, pause)
        self._is_alone = parameters.max_nodes == 1
        is_static = parameters.backend == "static"
        self.node = Node(
            f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
            own_address(parameters, self._server is not None or self._is_alone),
            workers,
            role,
            parameters.node_rank if is_static else -1,
            self._server is not None,
        )
        self._is_static = is_static
        self._store = PrefixStore(f"rendezvous/{parameters.run_id}", store)
        self._alive = None if self._is_alone else KeepAlive(self._store, self.node.name, parameters.timeouts)
        self._workers_server: TCPStoreServer | None = None
        self._next_look = 0.0
        self._is_lost: str | None = None

    def next_rendezvous(self) -> RendezvousInfo:
        """Join the next round, and wait until it is settled. No worker of this node may run.

        Raises:
            RendezvousClosedError: the job has ended.
            RendezvousTimeoutError: too few nodes came in time.
            RendezvousConnectionError: the store is lost.
        """
        limit = time.monotonic() + self.parameters.timeouts.join
        with self._asking():
            while True:
                state = self._settle(limit)
                rank = state.find(self.node.name)
                assert rank is not None
                info = RendezvousInfo(state.round, state.restarts, rank, state.participants, "", 0)
                master = self._serve_workers(info) if rank == 0 else self._master(info, limit)
                if master is not None:
                    return replace(info, master_addr=master[0], master_port=master[1])

    def is_current(self, info: RendezvousInfo) -> bool:
        """Return True if the round goes on, as far as this agent knows. The agent asks the store only at
        intervals.

        Nodes that have left or arrived end the round here.

        Raises:
            RendezvousClosedError: the job has ended.
            RendezvousConnectionError: the store is lost.
        """
        now = time.monotonic()
        if self._is_alone or now < self._next_look:
            return True
        self._next_look = now + self._interval(len(info.nodes))
        with self._asking():
            state = self._read()
            self._raise_if_ended(state)
            if state.round != info.round:
                return False
            if state.waiting and len(info.nodes) < self.parameters.max_nodes:
                return not self._replace(state, state.next_round(by_failure=False))
            following = info.nodes[(info.rank + 1) % len(info.nodes)]
            if self._alive is not None and self._alive.gone([following.name]):
                self._go_on_without(state, following)
            return True

    def fail(self, info: RendezvousInfo, reason: str) -> bool:
        """Tell the others that workers of this node have failed in a round.

        Returns:
            Whether all are to begin again; otherwise the job has ended.
        """
        try:
            with self._asking():
                while True:
                    state = self._read()
                    if state.end is not None:
                        return False
                    if state.round != info.round:
                        return True  # the others have begun again already
                    may_restart = state.restarts < self.parameters.max_restarts
                    following = state.next_round(by_failure=True) if may_restart else state.ended(reason)
                    if self._replace(state, following):
                        return may_restart
        except RendezvousConnectionError:
            return False

    def finish(self, info: RendezvousInfo) -> bool:
        """Tell the others that the workers of this node have ended well, and wait for those of the others.

        Returns:
            Whether the job has ended; otherwise all are to begin again.
        """
        try:
            with self._asking():
                while True:
                    state = self._read()
                    if state.end is not None:
                        return True
                    if state.round != info.round:
                        return False
                    if self.node.name not in state.done:
                        self._replace(state, state.done_by(self.node.name))
                    elif self.is_current(info):
                        self._pause(self._interval(len(info.nodes)))
                    else:
                        return False
        except (RendezvousConnectionError, RendezvousClosedError) as error:
            logger.warning("All workers of this node have ended well; of the other nodes: %s", error)
            return True

    def leave(self) -> None:
        """Tell the others that this node goes, by a signal. Those that can do without it begin again."""
        try:
            with self._asking():
                if self._server is not None:
                    self._end(f"the node {self.node.name}, which serves the store, was ended by a signal")
                while (state := self._read()).end is None:
                    is_in = state.is_settled and state.find(self.node.name) is not None
                    if is_in and self._go_on_without(state, self.node):
                        return
                    if not is_in and self._replace(state, state.without({self.node.name})):
                        return
        except RendezvousConnectionError:
            pass  # the store is gone, so no agent can be told

    def close(self, reason: str | None = None) -> None:
        """Take no part any more. An agent that serves the store waits until the others have heard how it ended.

        Args:
            reason: why the job ends, if it has not ended yet; None to say nothing of it.
        """
        try:
            with self._asking():
                if reason is not None:
                    self._end(reason)
                self._store.set(_heard(self.node.name), b"")
                if self._server is not None:
                    self._wait_until_heard()
        except RendezvousConnectionError:
            pass  # the store is gone, so no agent can be told
        if self._alive is not None:
            self._alive.stop()
        for server in (self._server, self._workers_server):
            if server is not None:
                server.close()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Wrap requests to the store; after the store is lost, raise at once."""
        if self._is_lost is not None:
            raise RendezvousConnectionError(self._is_lost)
        try:
            yield
        except DistError as error:
            self._is_lost = f"the rendezvous's store is lost: {error}"
            raise RendezvousConnectionError(self._is_lost) from error

    def _settle(self, limit: float) -> RendezvousState:
        """Join a round, and the state once it is settled with this node in it."""
        enough_since = None
        while True:
            state = self._read()
            self._raise_if_ended(state)
            num_nodes = len(state.participants)
            is_in = state.find(self.node.name) is not None
            now = time.monotonic()
            if state.is_settled and is_in:
                return state
            following = None
            if not is_in and self.node.name not in state.waiting:
                following = state.joined_by(self.node)
            elif not state.is_settled:
                enough = num_nodes >= self.parameters.min_nodes
                enough_since = (enough_since or now) if enough else None
                is_last_call_over = (
                    enough_since is not None and now - enough_since >= self.parameters.timeouts.last_call
                )
                if num_nodes == self.parameters.max_nodes or is_last_call_over:
                    following = state.settled()
            if following is not None and self._replace(state, following):
                continue
            gone = self._alive.gone(node.name for node in state.participants) if self._alive else set()
            if gone:
                self._replace(state, state.next_round(False) if state.is_settled else state.without(gone))
                continue
            if now > limit:
                self._replace(state, state.without({self.node.name}))
                raise RendezvousTimeoutError(
                    f"{num_nodes} of {self.parameters.min_nodes} nodes joined {self.parameters.host}:"
                    f"{self.parameters.port} within {self.parameters.timeouts.join:g} s"
                )
            self._pause(self._interval(num_nodes))

    def _serve_workers(self, info: RendezvousInfo) -> tuple[str, int]:
        """Serve a store for the workers, in which nothing is left of earlier ones, and tell the other agents of it."""
        if self._is_static and self._server is not None:
            self._server.begin_again(keep="rendezvous/")
            master = self.parameters.host, self._server.port
        else:
            if self._workers_server is not None:
                self._workers_server.close()
            self._workers_server = TCPStoreServer(self.node.address, 0)
            master = self.node.address, self._workers_server.port
        self._store.set(_master(info.round), f"{master[0]} {master[1]}")
        return master

    def _master(self, info: RendezvousInfo, limit: float) -> tuple[str, int] | None:
        """Return the host and port of the workers' store; None if the round has ended meanwhile."""
        key = _master(info.round)
        while not self._store.check([key]):
            if not self.is_current(info):
                return None
            if time.monotonic() > limit:
                raise RendezvousTimeoutError(
                    f"the node {info.nodes[0].name} did not start its workers' store"
                )
            self._pause(POLL)
        host, port = self._store.get(key).decode().split()
        return host, int(port)

    def _go_on_without(self, state: RendezvousState, node: Node) -> bool:
        """Have all begin again without a node, or end where that may not be. False where another agent was faster."""
        is_enough = len(state.participants) - 1 >= self.parameters.min_nodes
        if is_enough or state.restarts < self.parameters.max_restarts:
            return self._replace(state, state.next_round(by_failure=not is_enough))
        return self._replace(state, state.ended(f"the node {node.name} is gone, and no restart is left"))

    def _end(self, reason: str) -> None:
        while (state := self._read()).end is None:
            self._replace(state, state.ended(reason))

    def _wait_until_heard(self) -> None:
        limit = time.monotonic() + self.parameters.timeouts.close
        state = self._read()
        names = {node.name for node in state.participants} | set(state.waiting)
        while time.monotonic() < limit:
            names = {name for name in names if not self._store.check([_heard(name)])}
            if self._alive is not None:
                names -= self._alive.gone(names)
            if not names:
                return
            time.sleep(POLL)

    def _raise_if_ended(self, state: RendezvousState) -> None:
        if state.end is not None:
            how = f"has ended: {state.end}" if state.end else "has ended well"
            raise RendezvousClosedError(f"the job {self.parameters.run_id!r} {how}")

    def _interval(self, nodes: int) -> float:
        return max(POLL, nodes / MAX_POLLS_PER_SECOND)

    def _read(self) -> RendezvousState:
        if not self._store.check([STATE]):
            self._store.compare_set(STATE, b"", RendezvousState().to_bytes())
        return RendezvousState.from_bytes(self._store.get(STATE))

    def _replace(self, old: RendezvousState, new: RendezvousState) -> bool:
        """Replace the state in the store if it is still `old`, and return True on success."""
        mine = replace(new, writer=f"{self.node.name} {next(_writes)}").to_bytes()
        return self._store.compare_set(STATE, old.to_bytes(), mine) == mine


def _master(number: int) -> str:
    return f"master/{number}"


def _heard(name: str) -> str:
    return f"heard/{name}"
