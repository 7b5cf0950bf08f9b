"""Rendezvous: agreement of the agents of several nodes on the participants
(`torch.distributed.elastic.rendezvous`).

- `parameters` parses the options of a rendezvous.
- `hosting` finds or serves the store.
- `state` is the value on which agents agree.
- `keep_alive` detects agents that are gone.
- `handler` is one agent's part in the rendezvous.
- `errors` defines its exceptions.

The state is one value in the store, which agents update by compare-and-set. A round starts without
participants, and agents without running workers join it. Once enough agents have joined, the round is
settled, and they start workers. An agent that sees a worker fail, a node leave or a node arrive starts the
next round. All agents then end their workers and join that round.
"""

from .errors import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousTimeoutError,
)
from .handler import RendezvousHandler, RendezvousInfo
from .parameters import RendezvousParameters

__all__ = [
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousHandler",
    "RendezvousInfo",
    "RendezvousParameters",
    "RendezvousTimeoutError",
]
