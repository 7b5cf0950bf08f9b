"""The process of a node that starts its workers, watches them, and starts them again."""

from __future__ import annotations

import logging
import os
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .multiprocessing.errors import ProcessFailure
from .multiprocessing.logs import LogsSpecs
from .multiprocessing.process_context import LAST_WAIT, PContext, RunProcsResult, start_processes
from .rendezvous.errors import RendezvousError
from .rendezvous.handler import RendezvousHandler, RendezvousInfo
from .rendezvous.parameters import RendezvousParameters
from .signals import DEFAULT_SIGNALS, DeathSignals, SignalException
from .worker_environment import first_rank, needs_one_thread, worker_environment

__all__ = ["LOCAL_RANK_ARGUMENT", "LocalElasticAgent", "RunResult", "WorkerSpec"]

LOCAL_RANK_ARGUMENT = "${local_rank}"
"""Placeholder of a worker's local rank in arguments."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerSpec:
    """Specification of a node's workers (`torch.distributed.elastic.agent.server.WorkerSpec`).

    Attributes:
        role: Purpose of the workers.
        local_world_size: Number of workers on the node.
        entrypoint: Function or program that they run.
        args: Its arguments. In a program's arguments, ``"${local_rank}"`` is replaced by the local rank.
        monitor_interval: Maximum seconds between two checks of the workers.
        start_method: Method that starts a process for a function.
        log_line_prefix_template: Prefix of displayed lines: ``"[${role_name}${local_rank}]:"``, and
            ``${rank}``.
        virtual_local_rank: If True, each worker sees only its own GPU, as the first.
        shutdown_timeout: Seconds that workers have to end before the agent kills them.
        signals_to_handle: Signals that the agent forwards to its workers.
    """

    role: str
    local_world_size: int
    entrypoint: Callable[..., Any] | str
    args: Sequence[Any] = ()
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: float = LAST_WAIT
    signals_to_handle: str = DEFAULT_SIGNALS


@dataclass
class RunResult:
    """How the workers of a node ended (`RunResult`).

    Attributes:
        return_values: Return values of the functions by rank; None for programs, empty after a failure.
        failures: Failures by rank.
    """

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Return True if any worker failed."""
        return bool(self.failures)


class LocalElasticAgent:
    """Runs the workers of this node (`LocalElasticAgent`).

    Args:
        spec: the workers.
        parameters: Parameters of the rendezvous.
        logs_specs: Destinations of the workers' output.
    """

    def __init__(self, spec: WorkerSpec, parameters: RendezvousParameters, logs_specs: LogsSpecs) -> None:
        self.spec, self.parameters, self.logs_specs = spec, parameters, logs_specs

    def run(self) -> RunResult:
        """Run the workers to their end, and again after failures as often as may be.

        Raises:
            SignalException: a signal ended the agent, and its workers with it.
            RendezvousError: the nodes did not come together, or the job ended on another node.
        """
        if needs_one_thread(self.spec.local_world_size):
            logger.warning(
                "Setting OMP_NUM_THREADS=1 for each worker, since there are several; set it to change that"
            )
        with DeathSignals(self.spec.signals_to_handle) as signals:
            handler = RendezvousHandler(
                self.parameters, self.spec.local_world_size, self.spec.role, signals.wait
            )
            try:
                while True:
                    result = self._attempt(handler, handler.next_rendezvous(), signals)
                    if result is not None:
                        handler.close()
                        return result
            except SignalException:
                handler.leave()
                handler.close()
                raise
            except RendezvousError:
                handler.close()
                raise
            except BaseException as error:
                handler.close(f"an agent failed: {error!r}")
                raise

    def _attempt(
        self, handler: RendezvousHandler, info: RendezvousInfo, signals: DeathSignals
    ) -> RunResult | None:
        """Run the workers once. None where they are to be run again."""
        workers = self._start(info)
        try:
            while True:
                signals.wait(self.spec.monitor_interval, workers.handles())
                failure = workers.first_failure()
                if failure is not None:
                    # The other nodes hear of it before this one waits for its other workers to end.
                    begins_again = self._tell(handler, info, failure)
                    result = workers.wait()
                    return None if begins_again or result is None else self._by_rank(info, result)
                result = workers.wait(0)
                if result is not None:
                    return self._by_rank(info, result) if handler.finish(info) else None
                if not handler.is_current(info):
                    logger.warning("[%s] Nodes have failed, come or gone; starting again", self.spec.role)
                    workers.close()
                    return None
        except SignalException as error:
            logger.warning("Received %s, ending the workers", error.sigval.name)
            workers.close(error.sigval, is_urgent=signals.has_come)
            raise
        except BaseException:
            workers.close()
            raise

    def _tell(self, handler: RendezvousHandler, info: RendezvousInfo, failure: ProcessFailure) -> bool:
        """Tell of a failure, and return whether all begin again."""
        how = (
            f"rank {first_rank(info) + failure.local_rank} (local rank {failure.local_rank} of {handler.node.name}, "
            f"pid {failure.pid}) ended with exit code {failure.exitcode}"
        )
        logger.error("[%s] %s", self.spec.role, how)
        begins_again = handler.fail(info, how)
        if begins_again:
            logger.warning(
                "[%s] Starting all workers again: restart %d of at most %d",
                *(self.spec.role, info.restarts + 1, self.parameters.max_restarts),
            )
        return begins_again

    def _start(self, info: RendezvousInfo) -> PContext:
        spec, base = self.spec, first_rank(info)
        ranks = range(spec.local_world_size)
        environments = {rank: self._environment(info, rank) for rank in ranks}
        template = string.Template(spec.log_line_prefix_template or f"[{spec.role}${{local_rank}}]:")
        prefixes = {
            rank: template.safe_substitute(role_name=spec.role, local_rank=rank, rank=base + rank)
            for rank in ranks
        }
        logs = self.logs_specs.reify(self.parameters.run_id, info.restarts, spec.local_world_size)
        args = {rank: [_with_local_rank(argument, rank) for argument in spec.args] for rank in ranks}
        return start_processes(
            *(spec.role, spec.entrypoint, args, environments, logs, prefixes),
            *(spec.start_method, spec.shutdown_timeout),
        )

    def _environment(self, info: RendezvousInfo, local_rank: int) -> dict[str, str]:
        made = worker_environment(info, local_rank) | {
            "TORCHELASTIC_MAX_RESTARTS": str(self.parameters.max_restarts),
            "TORCHELASTIC_RUN_ID": self.parameters.run_id,
        }
        if self.spec.virtual_local_rank:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            devices = visible.split(",") if visible else [str(rank) for rank in range(local_rank + 1)]
            if local_rank >= len(devices):
                raise RuntimeError(
                    f"virtual-local-rank: expected a GPU for local rank {local_rank}, but CUDA_VISIBLE_DEVICES is "
                    f"{visible!r}"
                )
            made |= {"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": devices[local_rank]}
        return made

    def _by_rank(self, info: RendezvousInfo, result: RunProcsResult) -> RunResult:
        base = first_rank(info)
        return RunResult(
            {base + rank: value for rank, value in result.return_values.items()},
            {base + rank: failure for rank, failure in result.failures.items()},
        )


def _with_local_rank(argument: Any, rank: int) -> Any:
    return argument.replace(LOCAL_RANK_ARGUMENT, str(rank)) if isinstance(argument, str) else argument
