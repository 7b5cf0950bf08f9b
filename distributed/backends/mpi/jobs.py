"""Communications one after the other: at once where they are short, in a thread where they take long or are waited for
later.

MPI moves data only inside of its own functions. Short ones are asked for again and again by whoever waits. Others are a
blocking call in the group's thread, which leaves Python to the program: so gradients travel while others are computed.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import DistBackendError
from ...work import DoneWork, Work

if TYPE_CHECKING:
    from ....dispatch.tensor import Tensor

__all__ = ["GroupName", "Job", "Jobs", "MessageWork"]

SPINS = 200
"""How often to ask for the end of a short communication before other threads and processes get the core in between."""


class GroupName(NamedTuple):
    """How errors speak of a process in its group."""

    name: str
    rank: int
    size: int

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.size} in group {self.name!r}"


class Job(NamedTuple):
    """A communication.

    Attributes:
        name: the function's, for errors.
        begin: starts it, and gives MPI's request.
        finish: what is left to do after its end.
        waits_for: what it waits for, for errors.
        is_short: whether it may be waited for at once.
        results: the tensors that it writes.
    """

    name: str
    begin: Callable[[], Any]
    finish: Callable[[], None] | None
    waits_for: str
    is_short: bool
    results: Sequence[Tensor] = ()


class JobWork(Work):
    """A job that a thread does."""

    def __init__(self, job: Job, jobs: Jobs) -> None:
        super().__init__(job.results)
        self.job = job
        self.jobs = jobs
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        limit = self.jobs.timeout if timeout is None else timeout
        if not self.ended.wait(limit.total_seconds()):
            raise self.jobs.lost(self.job, limit)
        if self.error is not None:
            raise self.error
        return True

    def is_completed(self) -> bool:
        return self.ended.is_set()

    def exception(self) -> BaseException | None:
        return self.error


class MessageWork(Work):
    """A message between two processes, which needs no turn: MPI's request itself."""

    def __init__(self, job: Job, jobs: Jobs, request: Any, source: Callable[[Any], int] | None = None) -> None:
        super().__init__(job.results)
        self.job, self.jobs, self.request, self.source = job, jobs, request, source
        self.sender = -1

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._end(spin(self.request, self.jobs, self.job, timeout))
        return True

    def is_completed(self) -> bool:
        if self.request is not None:
            status = self.jobs.mpi.Status()
            if not self.request.Test(status):
                return False
            self._end(status)
        return True

    def source_rank(self) -> int:
        return self.sender

    def _end(self, status: Any) -> None:
        if self.request is not None:
            self.request = None
            if self.source is not None:
                self.sender = self.source(status)
            if self.job.finish is not None:
                self.job.finish()


def spin(request: Any, jobs: Jobs, job: Job, timeout: timedelta | None = None) -> Any:
    """Ask for the end of a communication until it has come, and return MPI's status.

    Raises:
        DistBackendError: it does not come in time.
    """
    status = jobs.mpi.Status()
    if request is None:
        return status
    test = request.Test
    for _ in range(SPINS):
        if test(status):
            return status
    limit = jobs.timeout if timeout is None else timeout
    deadline = time.monotonic() + limit.total_seconds()
    while not test(status):
        os.sched_yield()
        if time.monotonic() > deadline:
            raise jobs.lost(job, limit)
    return status


class Jobs:
    """What a group's processes do together, in the order in which it is asked for.

    Args:
        mpi: the module `mpi4py.MPI`.
        group: the group, for errors.
        timeout: how long a communication may take.
    """

    def __init__(self, mpi: Any, group: GroupName, timeout: timedelta) -> None:
        self.mpi, self.group, self.timeout = mpi, group, timeout
        self._waiting: queue.SimpleQueue[JobWork | None] = queue.SimpleQueue()
        self._last: JobWork | None = None
        self._thread: threading.Thread | None = None
        self._lost: DistBackendError | None = None

    def do(self, job: Job, waits: bool) -> Work:
        """Do a job, or have it done.

        Args:
            job: the job.
            waits: whether the caller waits for its end at once.

        Raises:
            DistBackendError: an earlier communication of the group was lost.
        """
        if self._lost is not None:
            raise DistBackendError(f"{job.name}: {self.group} has failed before: {self._lost}")
        is_alone = self._last is None or self._last.ended.is_set()
        if waits and job.is_short and is_alone:
            spin(job.begin(), self, job)
            if job.finish is not None:
                job.finish()
            return DoneWork(job.results)
        work = self._last = JobWork(job, self)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"MPI {self.group.name}", daemon=True)
            self._thread.start()
        self._waiting.put(work)
        return work

    def message(self, job: Job, source: Callable[[Any], int] | None = None) -> Work:
        """Begin a message."""
        if self._lost is not None:
            raise DistBackendError(f"{job.name}: {self.group} has failed before: {self._lost}")
        return MessageWork(job, self, job.begin(), source)

    def lost(self, job: Job, limit: timedelta) -> DistBackendError:
        """What to raise for a job that has not ended in time; the group is of no use any more."""
        self._lost = DistBackendError(
            f"{job.name}: {self.group} waited {limit.total_seconds():g} s for {job.waits_for}"
        )
        return self._lost

    @property
    def is_idle(self) -> bool:
        """Whether everything has ended well."""
        return self._lost is None and (self._last is None or self._last.ended.is_set())

    def close(self) -> None:
        """End the thread, after what it has to do."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (work := self._waiting.get()) is not None:
            try:
                work.job.begin().Wait()
                if work.job.finish is not None:
                    work.job.finish()
            except Exception as error:  # whoever waits gets it
                work.error = error
            finally:
                work.ended.set()

