"""Parameters of a rendezvous, parsed from the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "RendezvousParameters",
    "RendezvousTimeouts",
    "parse_rendezvous_config",
    "parse_rendezvous_endpoint",
]

DEFAULT_PORT = 29400
"""The port of an endpoint that names none."""
_HOST = re.compile(r"[\w.:%-]+")


@dataclass(frozen=True)
class RendezvousTimeouts:
    """How long agents wait, in seconds.

    Attributes:
        join: Time limit for the minimum number of nodes.
        last_call: Wait for further nodes after that.
        close: Wait for other agents to learn of the end, if this agent serves the store.
        read: Time limit for the store's answers.
        keep_alive: Interval between two heartbeats.
        keep_alive_attempts: Number of missing heartbeats after which a node is gone.
    """

    join: float = 600.0
    last_call: float = 30.0
    close: float = 30.0
    read: float = 60.0
    keep_alive: float = 5.0
    keep_alive_attempts: int = 3

    @staticmethod
    def from_config(config: Mapping[str, str]) -> RendezvousTimeouts:
        """Read PyTorch's names: ``join_timeout``, ``last_call_timeout``, ``keep_alive_interval`` and so on.

        Raises:
            ValueError: a value is no positive number.
        """
        default = RendezvousTimeouts()

        def number(key: str, otherwise: float) -> float:
            text = config.get(key)
            try:
                seconds = otherwise if text is None else float(text)
            except ValueError:
                seconds = 0.0
            if seconds <= 0:
                raise ValueError(f"rdzv-conf: expected a positive number for {key}, but got {text!r}")
            return seconds

        return RendezvousTimeouts(
            number("join_timeout", number("timeout", default.join)),
            number("last_call_timeout", default.last_call),
            number("close_timeout", default.close),
            number("read_timeout", default.read),
            number("keep_alive_interval", default.keep_alive),
            int(number("keep_alive_max_attempt", default.keep_alive_attempts)),
        )


@dataclass(frozen=True)
class RendezvousParameters:
    """A rendezvous (`RendezvousParameters`).

    Attributes:
        backend: ``"static"`` or ``"c10d"``. With ``"static"``, each node has a rank, and rank 0 serves the
            store. With ``"c10d"``, the node with the endpoint's address serves it.
        host: Name or address of the endpoint.
        port: Port of the endpoint. 0 chooses a free port, for one node.
        run_id: Name of the job.
        min_nodes: Minimum number of nodes.
        max_nodes: Maximum number of nodes.
        max_restarts: Maximum number of restarts of the workers after a failure.
        node_rank: Rank of this node, for ``"static"``.
        local_addr: Address through which other nodes reach this one. None means the address that reaches the
            store.
        is_host: True if this agent serves the store. None detects it.
        timeouts: Time limits.

    Raises:
        ValueError: these do not go together.
    """

    backend: str
    host: str
    port: int
    run_id: str
    min_nodes: int
    max_nodes: int
    max_restarts: int = 0
    node_rank: int = 0
    local_addr: str | None = None
    is_host: bool | None = None
    timeouts: RendezvousTimeouts = field(default_factory=RendezvousTimeouts)

    def __post_init__(self) -> None:
        if self.backend not in ("static", "c10d"):
            raise ValueError(f"rdzv-backend: expected 'static' or 'c10d', but got {self.backend!r}")
        if not 0 < self.min_nodes <= self.max_nodes:
            raise ValueError(f"nnodes: expected 0 < MIN <= MAX, but got {self.min_nodes}:{self.max_nodes}")
        if self.max_restarts < 0:
            raise ValueError(f"max-restarts: expected 0 or more, but got {self.max_restarts}")
        if self.backend == "static" and not 0 <= self.node_rank < self.max_nodes:
            raise ValueError(f"node-rank: expected 0 to {self.max_nodes - 1}, but got {self.node_rank}")
        if self.backend == "static" and self.min_nodes != self.max_nodes:
            raise ValueError(
                f"nnodes: expected one number for a static rendezvous, but got {self.min_nodes}:{self.max_nodes}; "
                "--rdzv-backend=c10d takes a range"
            )
        if not self.port and self.max_nodes > 1:
            raise ValueError("rdzv-endpoint: expected a port that other nodes know, but got 0")
        if not self.run_id:
            raise ValueError("rdzv-id: expected a name, but got ''")


def parse_rendezvous_endpoint(endpoint: str, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
    """Host and port of ``"host"``, ``"host:port"``, ``"[::1]:port"``; nothing is localhost.

    Raises:
        ValueError: it is none of these.
    """
    text = endpoint.strip()
    if not text:
        return "localhost", default_port
    if text.endswith("]") or ":" not in text:
        host, port = text, default_port
    else:
        host, _, digits = text.rpartition(":")
        port = int(digits) if re.fullmatch(r"\d{1,5}", digits) else -1
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not 0 <= port < 1 << 16:
        raise ValueError(f"rdzv-endpoint: expected a port from 0 to 65535, but got {endpoint!r}")
    if not _HOST.fullmatch(host):
        raise ValueError(f"rdzv-endpoint: expected a host's name or address, but got {endpoint!r}")
    return host, port


def parse_rendezvous_config(text: str) -> dict[str, str]:
    """Read ``"key=value,key=value"``.

    Raises:
        ValueError: a key or a value is missing.
    """
    config = {}
    for pair in filter(None, text.strip().split(",")):
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key or not value:
            raise ValueError(f"rdzv-conf: expected key=value,key=value, but got {text!r}")
        config[key] = value
    return config
