"""Simulated ranks: a program of many ranks, observed from one (`FakeProcessGroup` of PyTorch).

Nothing is sent. Outputs repeat this rank's data once per rank: shapes, orders of calls and memory are right,
values are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from ...autograd import no_grad
from ...dispatch.tensor import Tensor
from ..reduce_op import Reduction
from ..stores.hash_store import HashStore
from ..work import DoneWork, Work
from .communicator import Communicator

__all__ = ["FakeCommunicator", "FakeStore"]


class FakeStore(HashStore):
    """A store for `init_process_group("fake", store=FakeStore(), ...)`."""


class FakeCommunicator(Communicator):
    """A group of processes of which one is there.

    Args:
        rank: Rank of this process.
        size: Simulated number of ranks.
        timeout: for programs that ask for it.
    """

    def __init__(self, rank: int, size: int, timeout: timedelta) -> None:
        self.rank, self.size, self.timeout = rank, size, timeout

    def all_reduce(self, tensor: Tensor, op: Reduction, waits: bool = True) -> Work:
        return DoneWork([tensor])

    def reduce(self, tensor: Tensor, op: Reduction, root: int, waits: bool = True) -> Work:
        return DoneWork([tensor])

    def broadcast(self, tensor: Tensor, root: int, waits: bool = True) -> Work:
        return DoneWork([tensor])

    def all_gather(self, output: Tensor, input: Tensor, waits: bool = True) -> Work:
        with no_grad():
            output.view(self.size, -1).copy_(input.view(1, -1))
        return DoneWork([output])

    def reduce_scatter(self, output: Tensor, input: Tensor, op: Reduction, waits: bool = True) -> Work:
        with no_grad():
            output.view(-1).copy_(input.view(self.size, -1)[self.rank])
        return DoneWork([output])

    def all_to_all(
        self,
        output: Tensor,
        input: Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        waits: bool = True,
    ) -> Work:
        with no_grad():
            if output.numel() == input.numel():
                output.view(-1).copy_(input.view(-1))
            else:
                output.zero_()
        return DoneWork([output])

    def gather(self, output: Tensor | None, input: Tensor, root: int, waits: bool = True) -> Work:
        return DoneWork() if output is None else self.all_gather(output, input)

    def scatter(self, output: Tensor, input: Tensor | None, root: int, waits: bool = True) -> Work:
        if input is not None:
            with no_grad():
                output.view(-1).copy_(input.view(self.size, -1)[self.rank])
        return DoneWork([output])

    def send(self, tensor: Tensor, peer: int, tag: int) -> Work:
        return DoneWork([tensor])

    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        return DoneWork([tensor])

    def barrier(self, waits: bool = True) -> Work:
        return DoneWork()

    def close(self) -> None:
        pass  # nothing was opened
