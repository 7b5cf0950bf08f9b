"""State of a rendezvous, and its transitions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

__all__ = ["Node", "RendezvousState"]


@dataclass(frozen=True)
class Node:
    """A node whose agent takes part.

    Attributes:
        name: Unique name of the agent.
        address: Address through which others reach it.
        workers: Number of its workers.
        role: Purpose of the workers.
        rank: Assigned rank of the node; -1 without one.
        is_host: True if it serves the store.
    """

    name: str
    address: str
    workers: int
    role: str
    rank: int = -1
    is_host: bool = False


@dataclass(frozen=True)
class RendezvousState:
    """Who takes part, and how far the job is.

    Attributes:
        round: Number of earlier rounds.
        restarts: Number of rounds that a failure caused.
        is_settled: True if the round's nodes are settled.
        participants: Participating nodes, after settlement in the order of their ranks.
        waiting: Names of nodes that arrived later.
        done: Names of nodes whose workers have ended successfully.
        end: None while the job runs, ``""`` after success, otherwise the reason of the end.
        writer: Agent that wrote this value, with a counter.
    """

    round: int = 0
    restarts: int = 0
    is_settled: bool = False
    participants: tuple[Node, ...] = ()
    waiting: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    end: str | None = None
    writer: str = ""

    def find(self, name: str) -> int | None:
        """Return a node's position among the participants; None if it is absent."""
        return next((index for index, node in enumerate(self.participants) if node.name == name), None)

    def joined_by(self, node: Node) -> RendezvousState | None:
        """With one more node, which waits if the round is settled; None where that has to wait for another change."""
        if self.is_settled:
            return replace(self, waiting=(*self.waiting, node.name))
        if node.rank >= 0 and any(other.rank == node.rank for other in self.participants):
            return None  # an agent that was started anew: the one before is still taken for alive
        return replace(self, participants=(*self.participants, node))

    def settled(self) -> RendezvousState:
        """With the nodes that have come: by rank where they have one, otherwise the store's before the others."""
        order = sorted(self.participants, key=lambda node: (node.rank, not node.is_host))
        return replace(self, is_settled=True, participants=tuple(order))

    def without(self, names: set[str]) -> RendezvousState:
        """Without nodes that are gone, in a round that is not settled."""
        return replace(
            self,
            participants=tuple(node for node in self.participants if node.name not in names),
            waiting=tuple(name for name in self.waiting if name not in names),
        )

    def next_round(self, by_failure: bool) -> RendezvousState:
        """Return the next round, without participants."""
        return RendezvousState(self.round + 1, self.restarts + by_failure)

    def done_by(self, name: str) -> RendezvousState:
        """Return the state with one more finished node; the last one ends the job."""
        done = (*self.done, name)
        is_all = len(done) == len(self.participants)
        return replace(self, done=done, end="" if is_all else None)

    def ended(self, reason: str) -> RendezvousState:
        """Return the state, closed for a reason."""
        return replace(self, end=reason)

    def to_bytes(self) -> bytes:
        """Serialize the state for the store."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(value: bytes) -> RendezvousState:
        """Parse the serialized state."""
        fields = json.loads(value)
        nodes = tuple(Node(**node) for node in fields.pop("participants"))
        waiting, done = tuple(fields.pop("waiting")), tuple(fields.pop("done"))
        return RendezvousState(participants=nodes, waiting=waiting, done=done, **fields)
