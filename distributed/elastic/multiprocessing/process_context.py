"""The workers of a node, which end together."""

from __future__ import annotations

import logging
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .command_worker import CommandWorker
from .errors import ProcessFailure
from .logs import LogsDest
from .tail_log import TailLog
from .worker import Worker

__all__ = ["PContext", "RunProcsResult", "start_processes"]

LAST_WAIT = 30.0
"""Seconds that a worker which was asked to end has for it before it is killed."""
LOOK = 0.1
"""Seconds between two looks at workers that were asked to end, where the system tells of no end."""
UNREAPED_WAIT = 5.0
"""Seconds to wait for the end of a worker that was killed, which one that hangs in a driver does not reach."""

logger = logging.getLogger(__name__)


@dataclass
class RunProcsResult:
    """How all workers of a node ended (`RunProcsResult`).

    Attributes:
        return_values: Return values of the functions by local rank; None for commands, empty after a failure.
        failures: Failures by local rank, the first failure first.
    """

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Return True if any worker failed."""
        return bool(self.failures)


class PContext:
    """Workers that have been started (`PContext`): see `start_processes`.

    Args:
        name: Name of their program, for messages.
        workers: The workers, by local rank.
        logs: Destinations of their streams.
        tails: Threads that display the logs.
        last_wait: Seconds that the other workers have to end after a failure.
    """

    def __init__(
        self, name: str, workers: Sequence[Worker], logs: LogsDest, tails: Sequence[TailLog], last_wait: float
    ) -> None:
        self.name, self.workers, self.logs = name, workers, logs
        self.last_wait = last_wait
        self._tails = [tail.start() for tail in tails]
        self._failures: dict[int, ProcessFailure] = {}

    def pids(self) -> dict[int, int]:
        """Return the workers' process ids, by local rank."""
        return {rank: worker.pid for rank, worker in enumerate(self.workers)}

    def handles(self) -> list[int]:
        """Files of which one is readable once `wait` has something to see."""
        return [handle for worker in self.workers if worker.exit_code is None for handle in worker.handles()]

    def _is_running(self) -> bool:
        return any(worker.exit_code is None for worker in self.workers)

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """Wait until all workers have ended, or one has failed, in which case the others are ended.

        Args:
            timeout: Seconds to wait; 0 only checks, negative waits indefinitely.
            period: at most how long to wait between two looks where the system tells of no end.

        Returns:
            How they ended; None while they run.
        """
        limit = time.monotonic() + timeout if timeout >= 0 else float("inf")
        while True:
            result = self._look()
            left = limit - time.monotonic()
            if result is not None or left <= 0:
                return result
            wait_for(self.handles(), min(left, period))

    def first_failure(self) -> ProcessFailure | None:
        """Return the first worker failure, while other workers may still run."""
        for rank, worker in enumerate(self.workers):
            self._runs(rank, worker)
        return next(iter(self._failures.values()), None)

    def close(
        self,
        death_sig: signal.Signals = signal.SIGTERM,
        timeout: float | None = None,
        is_urgent: Callable[[], bool] = lambda: False,
    ) -> None:
        """End the running workers, show their remaining output, and release all resources.

        Args:
            death_sig: Signal that asks them to end.
            timeout: Seconds that they have before they are killed.
            is_urgent: Function called at intervals, which returns True to kill them at once.
        """
        wait = self.last_wait if timeout is None else timeout
        running = {rank: worker for rank, worker in enumerate(self.workers) if worker.poll() is None}
        for rank, worker in running.items():
            logger.warning("Sending process %d (local rank %d) %s", worker.pid, rank, death_sig.name)
            worker.send(death_sig)
        self._wait_for_ends(wait, is_urgent)
        for rank, worker in running.items():
            if worker.poll() is None:
                logger.warning("Process %d (local rank %d) has not ended, sending SIGKILL", worker.pid, rank)
                worker.send(signal.SIGKILL)
        self._wait_for_ends(UNREAPED_WAIT, lambda: False)
        for worker in self.workers:
            if worker.poll() is None:
                logger.error("Process %d did not end by SIGKILL, and is left alone", worker.pid)
            worker.close()
        for tail in self._tails:
            tail.stop()

    def _wait_for_ends(self, seconds: float, is_urgent: Callable[[], bool]) -> None:
        limit = time.monotonic() + seconds
        while self._is_running() and not is_urgent() and (left := limit - time.monotonic()) > 0:
            wait_for(self.handles(), min(left, LOOK))
            for worker in self.workers:
                worker.poll()

    def _look(self) -> RunProcsResult | None:
        running = [rank for rank, worker in enumerate(self.workers) if self._runs(rank, worker)]
        if running and not self._failures:
            return None
        self.close()
        for rank in running:  # ended by us
            self._runs(rank, self.workers[rank])
        if self._failures:
            return RunProcsResult(failures=dict(self._failures))
        return RunProcsResult(return_values={rank: worker.result for rank, worker in enumerate(self.workers)})

    def _runs(self, rank: int, worker: Worker) -> bool:
        """Return True if a worker is still running. Record its failure if it failed."""
        if worker.exit_code is None and worker.poll() is None:
            return True
        if worker.exit_code and rank not in self._failures:
            self._failures[rank] = ProcessFailure(
                rank, worker.pid, worker.exit_code, self.logs[rank].error_file
            )
        return False


def wait_for(handles: Sequence[int], seconds: float) -> None:
    """Wait until one of some files can be read, or that long. Without files, wait that long."""
    waiting = select.poll()
    for handle in handles:
        waiting.register(handle, select.POLLIN)
    waiting.poll(max(0.0, seconds) * 1000)


def start_processes(
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: Mapping[int, Sequence[Any]],
    envs: Mapping[int, Mapping[str, str]],
    logs: LogsDest,
    log_line_prefixes: Mapping[int, str] | None = None,
    start_method: str = "spawn",
    last_wait: float = LAST_WAIT,
) -> PContext:
    """Start the workers of a node (`torch.distributed.elastic.multiprocessing.start_processes`).

    Args:
        name: the role, which stands before the local rank in lines that are shown: ``[default0]:``.
        entrypoint: a function or a program.
        args: arguments, by local rank.
        envs: the variables that each gets beside those of this process, by local rank.
        logs: Destinations of their streams, by local rank (`LogsSpecs.reify`).
        log_line_prefixes: Prefix of printed lines, by local rank. Default: role and rank.
        start_method: Method that starts a process for a function: ``"spawn"``, ``"fork"`` or
            ``"forkserver"``.
        last_wait: Seconds that workers have to end after a failure, before they are killed.

    Raises:
        ValueError: arguments, variables and logs are of different local ranks.
    """
    if not set(args) == set(envs) == set(logs) == set(range(len(args))):
        raise ValueError(
            f"start_processes: expected args, envs and logs of the local ranks 0 to {len(args) - 1}, but got "
            f"{sorted(args)}, {sorted(envs)} and {sorted(logs)}"
        )
    workers: list[Worker] = []
    try:
        for rank in range(len(args)):
            variables = {"TORCHELASTIC_ERROR_FILE": logs[rank].error_file, **envs[rank]}
            if isinstance(entrypoint, str):
                command = [entrypoint, *map(str, args[rank])]
                workers.append(CommandWorker(command, variables, logs[rank]))
            else:
                from .function_worker import FunctionWorker  # commands do without `multiprocessing`

                workers.append(FunctionWorker(entrypoint, args[rank], variables, logs[rank], start_method))
    except BaseException:
        PContext(name, workers, logs, (), last_wait).close()
        raise
    prefixes = {rank: (log_line_prefixes or {}).get(rank, f"[{name}{rank}]:") for rank in logs}
    out = [(prefixes[rank], each.stdout) for rank, each in logs.items() if each.shows_stdout and each.stdout]
    err = [(prefixes[rank], each.stderr) for rank, each in logs.items() if each.shows_stderr and each.stderr]
    return PContext(name, workers, logs, (TailLog(out, sys.stdout), TailLog(err, sys.stderr)), last_wait)
