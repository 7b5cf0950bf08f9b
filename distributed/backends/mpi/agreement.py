"""The comparison of calls before each collective of a group over MPI.

Each rank contributes its call's hash w and ~w to an all-reduce with MAX. The result is the largest hash and the
complement of the smallest one: each rank gets back what it gave only if all calls agree. The all-reduce is a persistent
one of 16 bytes for any number of ranks. It costs about 2 us between two processes of one machine, with all of Python
around it. Ranks whose calls differ tell each other by the store what they called.
"""

from __future__ import annotations

import threading
from array import array
from contextlib import suppress
from functools import partial
from operator import mul
from typing import TYPE_CHECKING, Any, NoReturn

from ..agreement import Words, described, exchange, hashed, mismatch, signed
from .jobs import Job, Jobs, meet, spin

if TYPE_CHECKING:
    from ...process_group import GroupSpec

__all__ = ["Agreement"]

PERSISTENT = 4, 0
"""The version of MPI's standard that has persistent collectives."""
SOON = range(100)
"""How often to ask for the end at once, as fast as can be."""


class _Repeated:
    """All-reduce that is restarted repeatedly, for an MPI without persistent collectives.

    Args:
        communicator: MPI's communicator.
        arguments: Arguments of the all-reduce.
    """

    def __init__(self, communicator: Any, *arguments: Any) -> None:
        self._begin = partial(communicator.Iallreduce, *arguments)
        self._request: Any = None

    def Start(self) -> None:
        """Begin it."""
        self._request = self._begin()

    def Test(self, status: Any = None) -> bool:
        """Return whether it has ended."""
        return bool(self._request.Test(status))

    def Free(self) -> None:
        """Give nothing back: each request ends by itself."""


class Agreement:
    """A group's comparison of calls before each collective.

    Args:
        mpi: the module `mpi4py.MPI`.
        communicator: MPI's, on which there are no other collectives.
        spec: the group.
    """

    def __init__(self, mpi: Any, communicator: Any, spec: GroupSpec) -> None:
        self._spec, self._comm = spec, communicator
        self._words = Words()
        self._known = self._words.known
        self._given, self._found = array("q", (0, 0)), array("q", (0, 0))
        repeated = (
            communicator.Allreduce_init
            if mpi.Get_version() >= PERSISTENT
            else partial(_Repeated, communicator)
        )
        self._request = repeated(self._given, self._found, mpi.MAX)
        self._sum = array("q", (0,))
        self._add = repeated(mpi.IN_PLACE, self._sum, mpi.SUM)
        self._factors: list[int] = []
        self._start, self._test = self._request.Start, self._request.Test
        self._mismatches = 0
        turn = threading.Lock()
        self._take, self._leave = turn.acquire, turn.release

    def compare(self, job: Job, jobs: Jobs, is_patient: bool) -> None:
        """Compare a call with those of the other ranks.

        Args:
            job: the call.
            jobs: the group's, which lose a communication where this one is interrupted: the other ranks go on to a
                communication that this rank does not begin.
            is_patient: whether this thread asks for ranks that are gone, and minds the time limit.

        Raises:
            DistBackendError: the calls differ, or other ranks do not come.
        """
        own_call, agreed_call, test = self._given, self._found, self._test
        text = None
        try:  # and no `with`, which takes 0.1 us more
            self._take()
            own_call[0], own_call[1] = self._known(job.call) or self._words.of(job.call)
            self._start()
            for _ in SOON:
                if test():
                    break
            else:
                self._wait(self._request, job, jobs, is_patient)
            if agreed_call != own_call:
                text = described(job.call)
            elif job.parts:
                text = self._compare_parts(job, jobs, is_patient)
            self._leave()
        except BaseException:
            jobs.lose_unless_lost(job, "was interrupted before it began")
            with suppress(RuntimeError):  # the interrupt came before the lock was taken
                self._leave()
            raise
        if text is not None:
            self._refuse(job.name, text, jobs.timeout.total_seconds())

    def _refuse(self, name: str, text: str, seconds: float) -> NoReturn:
        self._mismatches += 1
        raise mismatch(
            name, self._spec, exchange(self._spec, f"mismatch/{self._mismatches}", name, text, seconds)
        )

    def _compare_parts(self, job: Job, jobs: Jobs, is_patient: bool) -> str | None:
        """Return this rank's `all_to_all` as text if some rank expects another part than is sent to it."""
        size, parts = len(self._spec.ranks), job.parts
        factors = self._factors = self._factors or _factors(self._spec.rank, size)
        self._sum[0] = signed(sum(map(mul, factors, parts)))
        self._add.Start()
        self._wait(self._add, job, jobs, is_patient)
        if not self._sum[0]:
            return None
        return f"{described(job.call)} that sends {list(parts[:size])} elements and receives {list(parts[size:])}"

    @staticmethod
    def _wait(request: Any, job: Job, jobs: Jobs, is_patient: bool) -> None:
        if is_patient:
            spin(request, jobs, job, jobs.sequence)
        else:
            meet(lambda: request)

    def close(self) -> None:
        """Give the persistent requests back."""
        self._request.Free()
        self._add.Free()


def _factors(rank: int, size: int) -> list[int]:
    """Return the factors of what a rank sends to each other rank, then those of what it receives.

    A sender and its receiver have factors f and -f, which look random. Summed over all ranks, element counts times
    their factors are 0 if each receiver expects what is sent to it, and hardly ever otherwise.
    """
    sent = [hashed(f"{rank} {other}") for other in range(size)]
    return sent + [-hashed(f"{other} {rank}") for other in range(size)]
