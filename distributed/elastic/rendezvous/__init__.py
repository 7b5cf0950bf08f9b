"""How the agents of several nodes agree on who takes part (`torch.distributed.elastic.rendezvous`).

`parameters` is what a command line says of it, `hosting` finds or serves the store, `state` is what the agents agree
on, `keep_alive` tells of agents that are gone, and `handler` is an agent's part in it; `errors` says what goes wrong.

The state is one value in the store, which agents replace if it is still as they read it. A round begins with nobody in
it; agents whose workers do not run join it; once enough have come it is settled, and they start workers. Whoever sees
a worker fail, a node go or a node come begins the next round, and all agents end their workers and join that one.
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
