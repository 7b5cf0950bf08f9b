"""Signs of life of agents, by counters in their store."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from ...errors import DistError
from ...stores.store import Store
from .parameters import RendezvousTimeouts

__all__ = ["KeepAlive"]


class KeepAlive:
    """Counts for this agent, and watches others count. Clocks of different machines are not compared.

    Args:
        store: where the counters are.
        name: this agent's.
        timeouts: how often to count, and how many missing counts mean that an agent is gone.
    """

    def __init__(self, store: Store, name: str, timeouts: RendezvousTimeouts) -> None:
        self._store, self._name = store, name
        self._interval = timeouts.keep_alive
        self._patience = timeouts.keep_alive * timeouts.keep_alive_attempts
        self._seen: dict[str, tuple[int, float]] = {}
        self._next_look = 0.0
        self._stops = threading.Event()
        self._store.add(_key(name), 1)
        threading.Thread(target=self._count, name="rendezvous keep-alive", daemon=True).start()

    def stop(self) -> None:
        """Count no more."""
        self._stops.set()

    def gone(self, names: Iterable[str]) -> set[str]:
        """Return the agents that no longer count. Ask the store only at intervals, and return none in
        between.
        """
        now = time.monotonic()
        if now < self._next_look:
            return set()
        self._next_look = now + self._interval
        dead = set()
        for name in names:
            if name == self._name:
                continue
            count = self._store.add(_key(name), 0)
            before, since = self._seen.get(name, (-1, now))
            if count != before:
                self._seen[name] = count, now
            elif now - since > self._patience:
                dead.add(name)
        return dead

    def _count(self) -> None:
        try:
            while not self._stops.wait(self._interval):
                self._store.add(_key(self._name), 1)
        except DistError:
            pass  # the agent sees that the store is gone when it asks it for something


def _key(name: str) -> str:
    return f"alive/{name}"
