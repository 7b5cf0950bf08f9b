"""Starting the workers of this node from a program."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..elastic.agent import LocalElasticAgent, WorkerSpec
from ..elastic.multiprocessing.errors import ChildFailedError
from ..elastic.multiprocessing.logs import LogsSpecs
from ..elastic.multiprocessing.process_context import LAST_WAIT
from ..elastic.rendezvous.parameters import (
    RendezvousParameters,
    RendezvousTimeouts,
    parse_rendezvous_endpoint,
)
from ..elastic.signals import DEFAULT_SIGNALS

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass
class LaunchConfig:
    """How ranks are started (`torch.distributed.launcher.LaunchConfig`); options of `triten.distributed.run` have the
    same names.

    Attributes:
        min_nodes: Minimum number of nodes.
        max_nodes: Maximum number of nodes.
        nproc_per_node: Number of workers of this node.
        logs_specs: Destinations of their output.
        run_id: Name of the job, the same on all nodes; ``""`` generates one.
        role: Purpose of the workers.
        rdzv_endpoint: Endpoint of the rendezvous, ``"host:port"``.
        rdzv_backend: ``"c10d"`` or ``"static"``.
        rdzv_configs: ``join_timeout`` and others of `RendezvousTimeouts`, ``is_host``; ``rank`` for ``"static"``.
        max_restarts: Maximum number of restarts of all workers after a failure. Default: 3.
        monitor_interval: Maximum seconds between two checks of the workers. Default: 0.1.
        start_method: Method that starts a process for a function. Default: ``"spawn"``.
        log_line_prefix_template: Prefix of displayed output lines.
        local_addr: Address through which other nodes reach this one.
        signals_to_handle: Signals that the agent forwards to its workers.
        virtual_local_rank: If True, each worker sees only its own GPU.
        shutdown_timeout: Seconds that workers have to end before the agent kills them. None means
            TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or 30.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: Mapping[str, Any] = field(default_factory=dict)
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    local_addr: str | None = None
    signals_to_handle: str = DEFAULT_SIGNALS
    virtual_local_rank: bool = False
    shutdown_timeout: float | None = None

    def __post_init__(self) -> None:
        if self.nproc_per_node < 1:
            raise ValueError(f"nproc-per-node: expected 1 or more, but got {self.nproc_per_node}")
        if self.shutdown_timeout is None:
            self.shutdown_timeout = float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", LAST_WAIT))
        elif self.shutdown_timeout < 0:
            raise ValueError(f"shutdown-timeout: expected 0 or more, but got {self.shutdown_timeout}")

    def rendezvous(self) -> RendezvousParameters:
        """Return the parameters of the rendezvous.

        Raises:
            ValueError: that makes no sense.
        """
        config = {key: str(value) for key, value in self.rdzv_configs.items()}
        is_static = self.rdzv_backend == "static"
        if not self.rdzv_endpoint and self.max_nodes == 1 and not is_static:
            host, port = "127.0.0.1", 0
        else:
            host, port = parse_rendezvous_endpoint(self.rdzv_endpoint)
        is_host = config.get("is_host")
        hosts_store = None if is_host is None else _BOOLEANS.get(is_host.lower())
        if is_host is not None and hosts_store is None:
            raise ValueError(f"rdzv-conf: expected true or false for is_host, but got {is_host!r}")
        return RendezvousParameters(
            *(self.rdzv_backend, host, port, self.run_id or uuid.uuid4().hex),
            *(self.min_nodes, self.max_nodes, self.max_restarts),
            *(int(config.get("rank", 0)), self.local_addr, hosts_store),
            RendezvousTimeouts.from_config(config),
        )


class elastic_launch:
    """Starts workers on this node and waits for them (`torch.distributed.launcher.elastic_launch`).

    Args:
        config: how.
        entrypoint: what they run: a function that another process can import, or a program.

    Example:
        >>> from triten.distributed.launcher import LaunchConfig, elastic_launch
        >>> config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, max_restarts=0)
        >>> elastic_launch(config, "sh")("-c", 'test "$WORLD_SIZE" = 2')
        {0: None, 1: None}
    """

    def __init__(self, config: LaunchConfig, entrypoint: Callable[..., Any] | str) -> None:
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        """Run them with these arguments.

        Returns:
            What each function returned, by rank; None for programs.

        Raises:
            ChildFailedError: workers failed, and no restart was left.
            SignalException: a signal ended this process's workers.
            RendezvousError: the nodes did not come together, or the job ended on another node.
        """
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(
    config: LaunchConfig, entrypoint: Callable[..., Any] | str, args: Sequence[Any]
) -> dict[int, Any]:
    """Run the agent of `elastic_launch` (`torch.distributed.launcher.launch_agent`)."""
    logs = config.logs_specs or LogsSpecs()
    shutdown_timeout = LAST_WAIT if config.shutdown_timeout is None else config.shutdown_timeout
    spec = WorkerSpec(
        *(config.role, config.nproc_per_node, entrypoint, args, config.monitor_interval),
        *(config.start_method, config.log_line_prefix_template, config.virtual_local_rank),
        *(shutdown_timeout, config.signals_to_handle),
    )
    result = LocalElasticAgent(spec, config.rendezvous(), logs).run()
    if result.is_failed():
        raise ChildFailedError(_name(entrypoint, args), result.failures)
    logs.remove_if_unused()
    return result.return_values


def _name(entrypoint: Callable[..., Any] | str, args: Sequence[Any]) -> str:
    """Return a display name of what failed: a function's, a script's or a program's."""
    if not isinstance(entrypoint, str):
        return getattr(entrypoint, "__qualname__", repr(entrypoint))
    if entrypoint == sys.executable:
        return next((str(argument) for argument in args if not str(argument).startswith("-")), entrypoint)
    return entrypoint
