"""Communications in order: short ones run at once, long or asynchronous ones in a thread.

MPI makes progress only inside its own functions. The waiting thread polls short communications. Long
communications run in the group's thread, which releases the GIL: gradients travel while the program computes
others.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import DistBackendError
from ...failures import ASK_AFTER
from ...work import DoneWork, Work

if TYPE_CHECKING:
    from ....dispatch.tensor import Tensor
    from ...process_group import GroupSpec
    from ..agreement import Call
    from .agreement import Agreement

__all__ = ["Job", "Jobs", "Requests", "meet", "spin"]

SPINS = 200
"""How often to ask for the end of a communication at once, as fast as can be."""
YIELDS = 100
"""How often to ask after that while others get the core in between; then there are naps."""
NAPS = 2e-5, 1e-3
"""Seconds of a nap at first, and at most: where processes share cores, those that are waited for need them."""


class Job(NamedTuple):
    """A communication.

    Attributes:
        name: Name of the function, for errors.
        begin: Function that starts it and returns MPI's request.
        block: Function that runs the whole communication.
        finish: Callback that runs after its end.
        waits_for: Description of what it waits for, for errors.
        peers: Ranks in the group that it waits for.
        is_short: True if the caller may wait for it at once.
        results: Tensors that it writes.
        call: Call that all ranks compare before it begins. Messages are not compared.
        parts: For `all_to_all`, the elements sent to each rank, then those received from each.
    """

    name: str
    begin: Callable[[], Any]
    block: Callable[[], Any]
    finish: Callable[[], None] | None
    waits_for: str
    peers: Sequence[int]
    is_short: bool
    results: Sequence[Tensor] = ()
    call: Call = ("message", None, None, None, None)
    parts: Sequence[int] = ()


class Requests:
    """Several of MPI's requests as one.

    Args:
        mpi: the module `mpi4py.MPI`.
        requests: the requests.
    """

    def __init__(self, mpi: Any, requests: list[Any]) -> None:
        self._all, self._wait = mpi.Request.Testall, mpi.Request.Waitall
        self._requests = requests

    def Test(self, status: Any = None) -> bool:
        """Return True if all requests have ended."""
        return bool(self._all(self._requests))

    def wait_or_keep(self, memory: Any) -> None:
        """Wait for all; where one fails, have the memory of the others stay as long as they may use it."""
        try:
            self._wait(self._requests)
        except Exception:
            keep(self, memory)
            raise


_kept: list[tuple[Any, Any]] = []
"""Abandoned communications whose memory MPI still reads or writes."""
_kept_lock = threading.Lock()


def keep(request: Any, memory: Any) -> None:
    """Keep the memory of a communication alive until MPI has finished with it."""
    _kept.append((request, memory))


def _release() -> None:
    """Release memory with which MPI has finished."""
    with _kept_lock:
        for each in tuple(_kept):
            with contextlib.suppress(RuntimeError):  # MPI raises it again; the waiting caller already got it
                if each[0].Test():
                    _kept.remove(each)


class _JobWork(Work):
    """A job that the group's thread does."""

    def __init__(self, job: Job, jobs: Jobs, sequence: int) -> None:
        super().__init__(job.results)
        self.job = job
        self.sequence = sequence
        self.jobs = jobs
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        patience: _Patience | None = None
        while not self.ended.wait(ASK_AFTER if patience is None else patience.next_question()):
            if patience is None:
                patience = _Patience(self.jobs, self.job, self.sequence, timeout, ASK_AFTER)
            patience.ask()
        if self.error is not None:
            raise self.error
        return True

    def is_completed(self) -> bool:
        return self.ended.is_set()

    def exception(self) -> BaseException | None:
        return self.error


class _MessageWork(Work):
    """A message between two processes, which needs no turn: MPI's request itself."""

    def __init__(
        self, job: Job, jobs: Jobs, request: Any, source: Callable[[Any, bool], int] | None = None
    ) -> None:
        super().__init__(job.results)
        self.job, self.jobs, self.request, self.source = job, jobs, request, source
        self.sender = -1
        self.error: DistBackendError | None = None

    def __del__(self) -> None:
        if self.request is not None:
            keep(self.request, self.job)

    def wait(self, timeout: timedelta | None = None) -> bool:
        if self.request is not None:
            self._end(lambda status: spin(self.request, self.jobs, self.job, 0, timeout, status))
        if self.error is not None:
            raise self.error
        return True

    def is_completed(self) -> bool:
        return self.request is None or self._end(self.request.Test)

    def exception(self) -> BaseException | None:
        return self.error

    def source_rank(self) -> int:
        return self.sender

    def _end(self, test: Callable[[Any], Any]) -> bool:
        """Process a received message if it has ended, and return True if so."""
        mpi = self.jobs.mpi
        status, is_cut = mpi.Status(), False
        try:
            try:
                if not test(status):
                    return False
            except mpi.Exception as error:
                is_cut = self.source is not None and error.Get_error_class() == mpi.ERR_TRUNCATE
                if not is_cut or self.jobs.agreement is None:
                    raise
            self.request = None
            if self.source is not None:
                self.sender = self.source(status, is_cut)
        except mpi.Exception as error:
            self.request, self.error = None, self.jobs.failure(self.job, error)
        except DistBackendError as error:
            if self.request is not None:  # it is waited for in vain, and may be waited for again
                raise
            self.error = error
        return True


class _Patience:
    """How long a communication is waited for yet, and what is asked meanwhile."""

    def __init__(
        self, jobs: Jobs, job: Job, sequence: int, timeout: timedelta | None, waited: float = 0.0
    ) -> None:
        self.jobs, self.job, self.sequence = jobs, job, sequence
        self.limit = jobs.timeout if timeout is None else timeout
        self.deadline = time.monotonic() + self.limit.total_seconds() - waited
        self.is_said = self.is_late = False
        self.gone: str | None = None

    def next_question(self) -> float:
        """Seconds until there is something to ask."""
        return max(min(ASK_AFTER, self.deadline - time.monotonic()), 0.0)

    def ask(self) -> None:
        """Ask whether it is of use to wait on.

        Raises:
            DistBackendError: it is not.
        """
        jobs, spec = self.jobs, self.jobs.spec
        if self.gone is not None:  # for a while, as what it has sent may be under way
            raise jobs.lose(self.job, f"waited for {self.job.waits_for}; {self.gone}")
        if not self.is_said:
            self.is_said = True
            spec.failures.waits(f"{spec.name}/{self.sequence}", self.job.name)
        ranks = [spec.ranks[each] for each in self.job.peers]
        self.gone = spec.failures.gone(ranks)
        if self.gone is None and time.monotonic() >= self.deadline:
            missing = spec.failures.missing(f"{spec.name}/{self.sequence}", self.job.name, ranks)
            raise jobs.lose(
                self.job, f"waited {self.limit.total_seconds():g} s for {self.job.waits_for}; {missing}"
            )


def spin(
    request: Any,
    jobs: Jobs,
    job: Job,
    sequence: int,
    timeout: timedelta | None = None,
    status: Any = None,
) -> bool:
    """Ask for the end of a communication until it has come, and return True.

    Raises:
        DistBackendError: it does not come in time, or somebody that it waits for is gone.
    """
    try:
        if _has_ended(request, status):
            return True
        patience, naps = _Patience(jobs, job, sequence, timeout), _naps()
        question = time.monotonic() + patience.next_question()
        while True:
            time.sleep(next(naps))
            if request.Test(status):
                return True
            if time.monotonic() > question:
                patience.ask()
                question = time.monotonic() + patience.next_question()
    except BaseException:  # an interrupt, too
        keep(request, job)
        raise


def _has_ended(request: Any, status: Any) -> bool:
    """Ask for a while whether a communication has ended."""
    test = request.Test
    for _ in range(SPINS):
        if test(status):
            return True
    for _ in range(YIELDS):
        os.sched_yield()
        if test(status):
            return True
    return False


def _naps() -> Iterator[float]:
    """Yield the seconds between polls, which grow exponentially up to a maximum."""
    nap, longest = NAPS
    while True:
        yield nap
        nap = min(nap * 1.125, longest)


def meet(begin: Callable[[], Any]) -> None:
    """Wait for a communication, and leave the core to others meanwhile: a call of MPI that blocks would take it."""
    request = begin()
    if not _has_ended(request, None):
        for nap in _naps():
            time.sleep(nap)
            if request.Test():
                return


class Jobs:
    """Queue of a group's communications, run in the order of the calls.

    Args:
        mpi: The module `mpi4py.MPI`.
        spec: The group.
        agreement: Compares calls between ranks before they start. None means no comparison.
    """

    def __init__(self, mpi: Any, spec: GroupSpec, agreement: Agreement | None) -> None:
        self.mpi, self.spec, self.timeout, self.agreement = mpi, spec, spec.timeout, agreement
        self.sequence = 0
        self._waiting: queue.SimpleQueue[_JobWork | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        # No more than the event: a communication that has ended keeps no tensors.
        self._last_end: threading.Event | None = None
        self._last: weakref.ref[_JobWork] | None = None
        self._thread: threading.Thread | None = None
        self._lost: DistBackendError | None = None

    def do(self, job: Job, waits: bool) -> Work:
        """Do a job, or have it done.

        Args:
            job: the job.
            waits: True if the caller waits for its end at once.

        Raises:
            DistBackendError: it failed, other ranks call something else, or an earlier communication of the group was
                lost.
        """
        if self._lost is not None:
            raise self._refusal(job)
        self.sequence += 1
        is_alone = self._last_end is None or self._last_end.is_set()
        if waits and job.is_short and is_alone:
            try:
                if self.agreement is not None:
                    self.agreement.compare(job, self, True)
                spin(job.begin(), self, job, self.sequence)
            except self.mpi.Exception as error:
                raise self.failure(job, error) from error
            if job.finish is not None:
                job.finish()
            return DoneWork(job.results)
        with self._lock:  # gradients of several devices arrive in several threads
            work = _JobWork(job, self, self.sequence)
            self._last_end, self._last = work.ended, weakref.ref(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"MPI {self.spec.name}", daemon=True)
                self._thread.start()
            self._waiting.put(work)
        return work

    def message(self, job: Job, source: Callable[[Any, bool], int] | None = None) -> Work:
        """Begin a message.

        Raises:
            DistBackendError: it failed, or an earlier communication of the group was lost.
        """
        if self._lost is not None:
            raise self._refusal(job)
        if _kept:
            _release()
        try:
            return _MessageWork(job, self, job.begin(), source)
        except (self.mpi.Exception, OverflowError) as error:  # a tag that is no C int
            raise self.failure(job, error) from error

    def lose(self, job: Job, why: str) -> DistBackendError:
        """Mark the group as lost, and return the error for a job that does not end."""
        self._lost = DistBackendError(f"{job.name}: {self._who()} {why}")
        return self._lost

    def lose_unless_lost(self, job: Job, why: str) -> None:
        """Let the group be of no use any more, unless it is already."""
        if self._lost is None:
            self.lose(job, why)

    def close(self) -> bool:
        """Finish the queued communications and end the thread.

        Returns:
            True if all communications that were started have ended.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            last = None if self._last is None else self._last()
            if self._lost is None and last is not None:
                with contextlib.suppress(Exception):  # the caller that waits for it gets it
                    last.wait()
            if self._lost is None:
                thread.join()
        return self._lost is None

    def _who(self) -> str:
        spec = self.spec
        return f"rank {spec.rank} of {len(spec.ranks)} in group {spec.name!r} ({spec.description})"

    def _refusal(self, job: Job) -> DistBackendError:
        return DistBackendError(f"{job.name}: {self._who()}: an earlier communication failed: {self._lost}")

    def failure(self, job: Job, error: Exception) -> DistBackendError:
        """Return the error for a job that MPI refused."""
        return DistBackendError(f"{job.name}: {self._who()}: MPI refused: {error}")

    def _run(self) -> None:
        while (work := self._waiting.get()) is not None:
            try:
                if self.agreement is not None:
                    self.agreement.compare(work.job, self, False)
                work.job.block()
                if work.job.finish is not None:
                    work.job.finish()
            except self.mpi.Exception as error:
                work.error = self.failure(work.job, error)
            except Exception as error:  # the waiting caller gets it
                work.error = error
            finally:
                work.ended.set()
            del work
