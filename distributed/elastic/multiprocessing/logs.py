"""Destinations of the output of workers."""

from __future__ import annotations

import enum
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "Std", "WorkerLogs"]

_EACH = re.compile(r"\d+:[0-3](,\d+:[0-3])*")


class Std(enum.IntFlag):
    """Which streams: ``Std.OUT``, ``Std.ERR``, both or none (`Std`)."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = 3

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """Parse an option: ``"3"`` for all workers, ``"0:1,1:2"`` for each local rank.

        Raises:
            ValueError: it says neither.
        """
        if re.fullmatch("[0-3]", vm):
            return cls(int(vm))
        if _EACH.fullmatch(vm):
            return {int(rank): cls(int(which)) for rank, which in (each.split(":") for each in vm.split(","))}
        raise ValueError(
            f"streams: expected 0 (none), 1 (stdout), 2 (stderr), 3 (both), or these by local rank (0:1,1:3), "
            f"but got {vm!r}"
        )


@dataclass(frozen=True)
class WorkerLogs:
    """Destinations of a worker's streams.

    Attributes:
        stdout: File for stdout. None means the agent's own stdout.
        stderr: File for stderr. None means the agent's own stderr.
        shows_stdout: If True, the agent also displays the lines of that file.
        shows_stderr: If True, the agent also displays the lines of that file.
        error_file: File for the worker's error; ``""`` for none.
    """

    stdout: str | None
    stderr: str | None
    shows_stdout: bool
    shows_stderr: bool
    error_file: str


LogsDest = dict[int, WorkerLogs]
"""Destinations of the streams of all workers, by local rank."""


class LogsSpecs:
    """Which streams of workers go to files, and which are shown (`LogsSpecs`).

    A directory for each run holds one for each attempt and in that one for each local rank:
    ``<log_dir>/<run_id>_<random>/attempt_0/1/stdout.log``, ``stderr.log`` and ``error.json``.

    Args:
        log_dir: the directory; None for one among the system's temporary files, which is removed after a run that
            ended well and wrote nothing there; ``/dev/null`` for no file at all.
        redirects: Streams that are redirected to files, for all workers or by local rank.
        tee: Streams that go to files and are also displayed, each line with its worker's name.
        local_ranks_filter: the workers of which something is shown; None for all.

    Raises:
        NotADirectoryError: there is a file where the directory should be.
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | Mapping[int, Std] = Std.NONE,
        tee: Std | Mapping[int, Std] = Std.NONE,
        local_ranks_filter: Collection[int] | None = None,
    ) -> None:
        if log_dir and log_dir != os.devnull and os.path.isfile(log_dir):
            raise NotADirectoryError(f"log_dir: expected a directory, but {log_dir} is a file")
        self.root_log_dir, self.redirects, self.tee = log_dir, redirects, tee
        self.local_ranks_filter = local_ranks_filter
        self._run_dir: str | None = None

    def reify(self, run_id: str, attempt: int, workers: int) -> LogsDest:
        """Make the directories of an attempt, and say where the streams of its workers go.

        Args:
            run_id: the run's name.
            attempt: Number of earlier starts of the workers.
            workers: Number of workers.
        """
        directory = None if self.root_log_dir == os.devnull else self._attempt(run_id, attempt)
        return {rank: self._of(rank, directory) for rank in range(workers)}

    def remove_if_unused(self) -> None:
        """Remove the run's directory if it is a temporary one into which no stream went."""
        if self._run_dir is not None and self.root_log_dir is None and not (self.redirects or self.tee):
            shutil.rmtree(self._run_dir, ignore_errors=True)
            self._run_dir = None

    def _attempt(self, run_id: str, attempt: int) -> str:
        if self._run_dir is None:
            if self.root_log_dir is not None:
                os.makedirs(self.root_log_dir, exist_ok=True)
            name = re.sub(r"[^\w.-]", "_", run_id)
            self._run_dir = tempfile.mkdtemp(prefix=f"{name}_", dir=self.root_log_dir)
        directory = os.path.join(self._run_dir, f"attempt_{attempt}")
        number = 0
        while os.path.exists(directory):  # nodes came or went, and no attempt was used up
            number += 1
            directory = os.path.join(self._run_dir, f"attempt_{attempt}.{number}")
        os.makedirs(directory)
        return directory

    def _of(self, rank: int, directory: str | None) -> WorkerLogs:
        shown = self.local_ranks_filter is None or rank in self.local_ranks_filter
        tee = _of_rank(self.tee, rank)
        files = tee | _of_rank(self.redirects, rank)
        if directory is None:
            out, err = (os.devnull if files & each or not shown else None for each in (Std.OUT, Std.ERR))
            return WorkerLogs(out, err, False, False, "")
        rank_directory = os.path.join(directory, str(rank))
        os.mkdir(rank_directory)
        out, err = (
            os.path.join(rank_directory, name) if files & each else None if shown else os.devnull
            for each, name in ((Std.OUT, "stdout.log"), (Std.ERR, "stderr.log"))
        )
        shows_out, shows_err = (bool(tee & each) and shown for each in (Std.OUT, Std.ERR))
        return WorkerLogs(out, err, shows_out, shows_err, os.path.join(rank_directory, "error.json"))


DefaultLogsSpecs = LogsSpecs
"""PyTorch's name of the class above, which has an abstract one over it."""


def _of_rank(streams: Std | Mapping[int, Std], rank: int) -> Std:
    return streams if isinstance(streams, Std) else streams.get(rank, Std.NONE)
