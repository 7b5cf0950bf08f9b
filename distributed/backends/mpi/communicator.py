"""A group's collectives and messages by MPI, of tensors on the host."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ....dispatch.tensor import Tensor
from ...errors import DistBackendError
from ...reduce_op import ReduceOp, Reduction
from ...work import Work
from ..agreement import Call, call_of, is_enabled
from ..communicator import Communicator
from .agreement import Agreement
from .jobs import Job, Jobs, Requests, meet
from .library import do_not_finalize, remove_names_of_shared_memory, start
from .messages import Headers
from .reductions import plan

if TYPE_CHECKING:
    from ...process_group import GroupSpec, ProcessGroup

__all__ = ["MPICommunicator", "connect"]

SHORT = 1 << 18
"""Bytes up to which a communication does not block inside of MPI, but is asked for its end."""
SHORT_REDUCTION = 1 << 23
"""Bytes up to which `all_reduce` counts as short; above, pieces that fit the cache pay off. If a program
computes meanwhile, or processes share processors, no reduction blocks. Then 20 MB of gradients cost a
processor 8 ms instead of 23.
"""
MAX_TAGS = 1 << 15
"""The tags that every MPI has."""
PIECE = 1 << 21
"""Bytes reduced at a time, so that the data of other ranks is still in the cache when it is added. For 64 MiB
among 2 processes of one machine this takes 16 ms instead of 63.
"""
EXCHANGE = 1
"""The tag of the messages that `all_to_all` is made of, on a communicator of their own."""

_BARRIER = call_of("barrier")
Array = np.ndarray[Any, Any]


def connect(group: ProcessGroup) -> MPICommunicator:
    """Create the communicator of a group. Every rank of the group calls this.

    Raises:
        DistBackendError: MPI runs with other processes, or has no communicator left.
    """
    spec = group.spec
    name = f"group {spec.name!r} ({spec.description})"
    try:
        return spec.failures.watch(lambda: _connect(group), spec.ranks, spec.timeout, name)
    except BaseException:
        remove_names_of_shared_memory()  # a rank that is gone has not removed them
        do_not_finalize()  # a thread may still wait inside of MPI
        raise


def _connect(group: ProcessGroup) -> MPICommunicator:
    spec = group.spec
    mpi = start(spec.store, spec.rank, group.size()) if group.parent is None else start(None, -1, -1)
    try:
        return MPICommunicator(mpi, _communicator(mpi, group), spec)
    except mpi.Exception as error:
        raise DistBackendError(
            f"rank {spec.rank} of {len(spec.ranks)} could not join group {spec.name!r}: MPI refused: {error}"
        ) from error


def _communicator(mpi: Any, group: ProcessGroup) -> Any:
    if group.parent is None:
        return mpi.COMM_WORLD.Dup()
    world = mpi.COMM_WORLD.Get_group()
    members = world.Incl(list(group.spec.ranks))
    try:
        return mpi.COMM_WORLD.Create_group(members, group.spec.tag % MAX_TAGS)
    finally:
        members.Free()
        world.Free()


def _bytes(tensor: Tensor) -> Array:
    """Return a contiguous tensor's memory as a 1-D array of bytes."""
    return tensor.host_array().reshape(-1).view(np.uint8)


def _numbers(tensor: Tensor) -> Array:
    """Return a contiguous tensor's elements as a 1-D array."""
    return tensor.host_array().reshape(-1)


class MPICommunicator(Communicator):
    """A group over MPI (`torch.distributed.ProcessGroupMPI`).

    Args:
        mpi: the module `mpi4py.MPI`.
        communicator: MPI's.
        spec: the group.
    """

    def __init__(self, mpi: Any, communicator: Any, spec: GroupSpec) -> None:
        self.mpi, self.comm = mpi, communicator
        self.rank, self.size = spec.rank, len(spec.ranks)
        self._exchange = communicator.Dup()
        checks = communicator.allreduce(is_enabled(), mpi.LAND)
        self._agreement = Agreement(mpi, self._exchange, spec) if checks else None
        self._header_comm = communicator.Dup() if checks else None
        self._headers = Headers(self._header_comm, spec) if checks else None
        self.jobs = Jobs(mpi, spec, self._agreement)
        self._everybody = range(self.size)
        self._longest_reduction = sys.maxsize if _is_crowded(mpi, communicator) else SHORT_REDUCTION

    @property
    def timeout(self) -> timedelta:
        """How long a communication may take."""
        return self.jobs.timeout

    @timeout.setter
    def timeout(self, value: timedelta) -> None:
        self.jobs.timeout = value

    def all_reduce(self, tensor: Tensor, op: Reduction, waits: bool = True) -> Work:
        out = _numbers(tensor)
        kind, reduction = tensor.dtype, op._name_ if isinstance(op, ReduceOp) else "PREMUL_SUM"
        how = plan("all_reduce", kind, op, self.size)
        total = how.before(out)
        arguments = self.mpi.IN_PLACE, total, how.operation(self.mpi)

        def block() -> None:
            # A sum of two is the same however it is computed; that of more must not depend on who waits.
            if self.size == 2 and self._computes_meanwhile(waits):
                meet(lambda: self.comm.Iallreduce(*arguments))
                return
            comm, step = self.comm, PIECE // total.itemsize
            for begin in range(0, total.size, step):
                comm.Allreduce(self.mpi.IN_PLACE, total[begin : begin + step], arguments[-1])

        call = "all_reduce", kind, out.size, reduction, None
        return self._all(call, "allreduce", arguments, tensor, waits, lambda: how.after(total, out), block)

    def reduce(self, tensor: Tensor, op: Reduction, root: int, waits: bool = True) -> Work:
        out = _numbers(tensor)
        how = plan("reduce", tensor.dtype, op, self.size)
        total = how.before(out)
        operation = how.operation(self.mpi)
        call = call_of("reduce", tensor.dtype, out.size, op, root)
        if self.rank != root:
            return self._all(call, "reduce", (total, None, operation, root), tensor, waits)
        arguments = self.mpi.IN_PLACE, total, operation, root
        return self._all(call, "reduce", arguments, tensor, waits, lambda: how.after(total, out))

    def broadcast(self, tensor: Tensor, root: int, waits: bool = True) -> Work:
        call = call_of("broadcast", tensor.dtype, tensor.numel(), root=root)
        return self._all(call, "bcast", (_bytes(tensor), root), tensor, waits)

    def all_gather(self, output: Tensor, input: Tensor, waits: bool = True) -> Work:
        call = call_of("all_gather", input.dtype, input.numel())
        return self._all(call, "allgather", (_bytes(input), _bytes(output)), output, waits)

    def reduce_scatter(self, output: Tensor, input: Tensor, op: Reduction, waits: bool = True) -> Work:
        out = _numbers(output)
        how = plan("reduce_scatter", output.dtype, op, self.size)
        source = how.before(_numbers(input))
        total = out if out.dtype == how.computes else np.empty(out.size, how.computes)
        arguments = source, total, how.operation(self.mpi)
        call = call_of("reduce_scatter", output.dtype, out.size, op)
        return self._all(
            call, "reduce_scatter_block", arguments, output, waits, lambda: how.after(total, out)
        )

    def all_to_all(
        self,
        output: Tensor,
        input: Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        waits: bool = True,
    ) -> Work:
        # Messages are faster than MPI_Alltoallv, and ranks need not agree on an algorithm: 20 ms instead of
        # 50 for 64 MiB to each of 2 processes of one machine.
        width = output.element_size()
        received_parts, sent_parts = (
            _parts(_bytes(output), output_counts, width),
            _parts(_bytes(input), input_counts, width),
        )

        if output_counts[self.rank] != input_counts[self.rank]:  # before MPI has any of the memory
            raise ValueError(
                f"all_to_all: rank {self.rank} sends itself {input_counts[self.rank]} elements and expects "
                f"{output_counts[self.rank]}"
            )

        def begin() -> list[Any]:
            comm, rank = self._exchange, self.rank
            other_ranks = [(rank + step) % self.size for step in range(1, self.size)]
            requests = [comm.Irecv(received_parts[peer], peer, EXCHANGE) for peer in other_ranks]
            requests += [comm.Isend(sent_parts[peer], peer, EXCHANGE) for peer in other_ranks]
            received_parts[rank][...] = sent_parts[rank]
            return requests

        is_short = max(output.nbytes, input.nbytes) <= SHORT
        job = Job(
            "all_to_all",
            lambda: Requests(self.mpi, begin()),
            lambda: Requests(self.mpi, begin()).wait_or_keep(output),
            None,
            "all ranks to call it",
            self._everybody,
            is_short,
            (output,),
            call_of("all_to_all", output.dtype),
            (*input_counts, *output_counts),
        )
        return self.jobs.do(job, waits)

    def gather(self, output: Tensor | None, input: Tensor, root: int, waits: bool = True) -> Work:
        out = None if output is None else _bytes(output)
        call = call_of("gather", input.dtype, input.numel(), root=root)
        return self._all(call, "gather", (_bytes(input), out, root), input, waits)

    def scatter(self, output: Tensor, input: Tensor | None, root: int, waits: bool = True) -> Work:
        source = None if input is None else _bytes(input)
        call = call_of("scatter", output.dtype, output.numel(), root=root)
        return self._all(call, "scatter", (source, _bytes(output), root), output, waits)

    def send(self, tensor: Tensor, peer: int, tag: int) -> Work:
        memory = _bytes(tensor)

        def begin() -> Any:
            if self._headers is not None:
                self._headers.send(tensor, peer, tag)
            return self.comm.Isend(memory, peer, tag)

        return self.jobs.message(
            Job("send", begin, begin, None, f"rank {peer} to receive", (peer,), True, [tensor])
        )

    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        memory = _bytes(tensor)
        source = self.mpi.ANY_SOURCE if peer is None else peer

        def begin() -> Any:
            return self.comm.Irecv(memory, source, tag)

        def take(status: Any, is_cut: bool) -> int:
            sender = int(status.Get_source())
            if self._headers is not None:
                fits = not is_cut and status.Get_count(self.mpi.BYTE) == memory.nbytes
                self._headers.check(tensor, sender, tag, fits)
            return sender

        waits_for = f"{'any rank' if peer is None else f'rank {peer}'} to send"
        peers = self._everybody if peer is None else (peer,)
        return self.jobs.message(Job("recv", begin, begin, None, waits_for, peers, True, [tensor]), take)

    def _computes_meanwhile(self, waits: bool) -> bool:
        """Return True on all ranks if any rank computes while it communicates."""
        computes = np.array([not waits], np.int8)
        meet(lambda: self.comm.Iallreduce(self.mpi.IN_PLACE, computes, self.mpi.MAX))
        return bool(computes[0])

    def barrier(self, waits: bool = True) -> Work:
        job = Job(
            "barrier",
            self.comm.Ibarrier,
            _waited(self.comm.Ibarrier),
            None,
            "all ranks to call it",
            self._everybody,
            True,
            (),
            _BARRIER,
        )
        return self.jobs.do(job, waits)

    def close(self) -> None:
        if self.jobs.close():
            if self._agreement is not None:
                self._agreement.close()
            for each in (self._header_comm, self._exchange, self.comm):  # MPI has only some 2,000
                if each is not None:
                    each.Free()

    def _all(
        self,
        called: Call,
        call: str,
        arguments: tuple[Any, ...],
        tensor: Tensor,
        waits: bool,
        finish: Callable[[], None] | None = None,
        block: Callable[[], Any] | None = None,
    ) -> Work:
        """Run a collective.

        Args:
            called: The call, which all ranks compare.
            call: Name of the MPI function, without the prefix I of its non-blocking form.
            arguments: Arguments of both forms.
            tensor: Tensor whose size decides if the collective is short.
            waits: True if the caller waits at once.
            finish: Callback that runs after the communication.
            block: Function that runs a long collective, if it is not MPI's own function.
        """
        comm = self.comm
        is_short = tensor.nbytes <= (SHORT if block is None else self._longest_reduction)

        def begin() -> Any:
            return getattr(comm, f"I{call}")(*arguments)

        # A call that blocks meets none that does not: all processes choose alike, by what is alike in all.
        if is_short:
            whole = _waited(begin)
        else:
            whole = block or (lambda: getattr(comm, call.capitalize())(*arguments))
        waits_for = "all ranks to call it"
        job = Job(called[0], begin, whole, finish, waits_for, self._everybody, is_short, (tensor,), called)
        return self.jobs.do(job, waits)


def _parts(memory: Array, counts: Sequence[int], width: int) -> list[Array]:
    """Split a 1-D array into parts of `counts` elements of `width` bytes each."""
    ends = [0, *accumulate(count * width for count in counts)]
    return [memory[begin:end] for begin, end in pairwise(ends)]


def _is_crowded(mpi: Any, communicator: Any) -> bool:
    """Return True if some ranks of a group share processors. Every wait then costs a context switch."""
    node_ranks = communicator.Split_type(mpi.COMM_TYPE_SHARED)
    crowded = node_ranks.size > len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else False
    node_ranks.Free()
    return bool(communicator.allreduce(crowded, mpi.LOR))


def _waited(begin: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that starts a communication and polls until it ends."""
    return lambda: meet(begin)
