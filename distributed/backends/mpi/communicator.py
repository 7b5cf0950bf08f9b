"""A group's collectives and messages by MPI, of tensors on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from ....dispatch.tensor import Tensor
from ...reduce_op import Reduction
from ...work import Work
from ..communicator import Communicator
from .jobs import GroupName, Job, Jobs
from .reductions import Plan, plan

__all__ = ["MPICommunicator"]

SHORT = 1 << 14
"""Bytes up to which a communication is waited for at once."""

Array = np.ndarray[Any, Any]


def _bytes(tensor: Tensor) -> Array:
    """A contiguous tensor's memory."""
    return tensor.host_array().reshape(-1).view(np.uint8)


def _numbers(tensor: Tensor) -> Array:
    """A contiguous tensor's elements in one line."""
    return tensor.host_array().reshape(-1)


class MPICommunicator(Communicator):
    """A group over MPI (`torch.distributed.ProcessGroupMPI`).

    Args:
        mpi: the module `mpi4py.MPI`.
        communicator: MPI's.
        name: the group's.
        timeout: how long a communication may take.
    """

    def __init__(self, mpi: Any, communicator: Any, name: str, timeout: timedelta) -> None:
        self.mpi, self.comm, self.timeout = mpi, communicator, timeout
        self.rank, self.size = communicator.rank, communicator.size
        self.jobs = Jobs(mpi, GroupName(name, self.rank, self.size), timeout)

    def all_reduce(self, tensor: Tensor, op: Reduction, waits: bool = True) -> Work:
        how, out = plan("all_reduce", tensor.dtype, op, self.size), _numbers(tensor)
        given, total = self._given(how, out)
        return self._all(
            "all_reduce",
            lambda: self.comm.Iallreduce(given, total, self._operation(how)),
            lambda: how.after(total, out),
            tensor,
            waits,
        )

    def reduce(self, tensor: Tensor, op: Reduction, root: int, waits: bool = True) -> Work:
        how, out = plan("reduce", tensor.dtype, op, self.size), _numbers(tensor)
        given, total = self._given(how, out)
        is_root = self.rank == root
        if not is_root:
            given, total = how.before(out), np.empty(0, how.computes)
        return self._all(
            "reduce",
            lambda: self.comm.Ireduce(given, total if is_root else None, self._operation(how), root),
            (lambda: how.after(total, out)) if is_root else None,
            tensor,
            waits,
        )

    def broadcast(self, tensor: Tensor, root: int, waits: bool = True) -> Work:
        memory = _bytes(tensor)
        return self._all("broadcast", lambda: self.comm.Ibcast(memory, root), None, tensor, waits)

    def all_gather(self, output: Tensor, input: Tensor, waits: bool = True) -> Work:
        out, given = _bytes(output), _bytes(input)
        return self._all("all_gather", lambda: self.comm.Iallgather(given, out), None, output, waits)

    def reduce_scatter(self, output: Tensor, input: Tensor, op: Reduction, waits: bool = True) -> Work:
        how, out = plan("reduce_scatter", output.dtype, op, self.size), _numbers(output)
        given = how.before(_numbers(input))
        total = out if out.dtype == how.computes else np.empty(out.size, how.computes)
        return self._all(
            "reduce_scatter",
            lambda: self.comm.Ireduce_scatter_block(given, total, self._operation(how)),
            lambda: how.after(total, out),
            input,
            waits,
        )

    def all_to_all(
        self,
        output: Tensor,
        input: Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        waits: bool = True,
    ) -> Work:
        out, given = _bytes(output), _bytes(input)
        widths = output.element_size(), input.element_size()
        received, sent = (
            [count * width for count in counts]
            for counts, width in zip((output_counts, input_counts), widths, strict=True)
        )
        return self._all(
            "all_to_all",
            lambda: self.comm.Ialltoallv([given, sent], [out, received]),
            None,
            output,
            waits,
        )

    def gather(self, output: Tensor | None, input: Tensor, root: int, waits: bool = True) -> Work:
        given, out = _bytes(input), None if output is None else _bytes(output)
        return self._all("gather", lambda: self.comm.Igather(given, out, root), None, output or input, waits)

    def scatter(self, output: Tensor, input: Tensor | None, root: int, waits: bool = True) -> Work:
        out, given = _bytes(output), None if input is None else _bytes(input)
        return self._all("scatter", lambda: self.comm.Iscatter(given, out, root), None, output, waits)

    def send(self, tensor: Tensor, peer: int, tag: int) -> Work:
        memory = _bytes(tensor)
        job = Job("send", lambda: self.comm.Isend(memory, peer, tag), None, f"rank {peer} to receive", True)
        return self.jobs.message(job)

    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        memory = _bytes(tensor)
        source = self.mpi.ANY_SOURCE if peer is None else peer
        sender = "any rank" if peer is None else f"rank {peer}"
        job = Job(
            "recv",
            lambda: self.comm.Irecv(memory, source, tag),
            None,
            f"{sender} to send",
            True,
            [tensor],
        )
        return self.jobs.message(job, lambda status: int(status.Get_source()))

    def barrier(self, waits: bool = True) -> Work:
        job = Job("barrier", self.comm.Ibarrier, None, "all ranks to call it", True)
        return self.jobs.do(job, waits)

    def subgroup(self, ranks: Sequence[int], tag: int, timeout: timedelta, name: str = "") -> MPICommunicator:
        group = self.comm.Get_group().Incl(list(ranks))
        return MPICommunicator(self.mpi, self.comm.Create_group(group, tag), name, timeout)

    def close(self) -> None:
        self.jobs.close()

    def _given(self, how: Plan, out: Array) -> tuple[Any, Array]:
        """What MPI reads, and where it writes: the same memory where the numbers are added as they are."""
        given = how.before(out)
        return (self.mpi.IN_PLACE, out) if given is out else (self.mpi.IN_PLACE, given)

    def _operation(self, how: Plan) -> Any:
        return getattr(self.mpi, how.operation)

    def _all(
        self,
        name: str,
        begin: Callable[[], Any],
        finish: Callable[[], None] | None,
        tensor: Tensor,
        waits: bool,
    ) -> Work:
        is_short = tensor.nbytes <= SHORT
        return self.jobs.do(Job(name, begin, finish, "all ranks to call it", is_short, [tensor]), waits)
