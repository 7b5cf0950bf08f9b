"""Tensors of a GPU by a backend of the host: copied there, and what is written back again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from ...autograd import no_grad
from ...dispatch.tensor import Tensor
from ..reduce_op import Reduction
from ..work import FollowedWork, Work
from .communicator import Communicator

__all__ = ["StagedCommunicator"]


class StagedCommunicator(Communicator):
    """A group's communication by copies on the host.

    Args:
        host: what communicates there.
    """

    def __init__(self, host: Communicator) -> None:
        self.host = host
        self.rank, self.size = host.rank, host.size

    @property
    def timeout(self) -> timedelta:
        """How long a communication may take."""
        return self.host.timeout

    @timeout.setter
    def timeout(self, value: timedelta) -> None:
        self.host.timeout = value

    def all_reduce(self, tensor: Tensor, op: Reduction, waits: bool = True) -> Work:
        return _written(tensor, lambda copy: self.host.all_reduce(copy, op, waits))

    def reduce(self, tensor: Tensor, op: Reduction, root: int, waits: bool = True) -> Work:
        return _written(tensor, lambda copy: self.host.reduce(copy, op, root, waits))

    def broadcast(self, tensor: Tensor, root: int, waits: bool = True) -> Work:
        return _written(tensor, lambda copy: self.host.broadcast(copy, root, waits))

    def all_gather(self, output: Tensor, input: Tensor, waits: bool = True) -> Work:
        return _written(output, lambda copy: self.host.all_gather(copy, input.cpu(), waits))

    def reduce_scatter(self, output: Tensor, input: Tensor, op: Reduction, waits: bool = True) -> Work:
        return _written(output, lambda copy: self.host.reduce_scatter(copy, input.cpu(), op, waits))

    def all_to_all(
        self,
        output: Tensor,
        input: Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        waits: bool = True,
    ) -> Work:
        return _written(
            output, lambda copy: self.host.all_to_all(copy, input.cpu(), output_counts, input_counts, waits)
        )

    def gather(self, output: Tensor | None, input: Tensor, root: int, waits: bool = True) -> Work:
        if output is None:
            return self.host.gather(None, input.cpu(), root, waits)
        return _written(output, lambda copy: self.host.gather(copy, input.cpu(), root, waits))

    def scatter(self, output: Tensor, input: Tensor | None, root: int, waits: bool = True) -> Work:
        given = None if input is None else input.cpu()
        return _written(output, lambda copy: self.host.scatter(copy, given, root, waits))

    def send(self, tensor: Tensor, peer: int, tag: int) -> Work:
        return self.host.send(tensor.cpu(), peer, tag)

    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        return _written(tensor, lambda copy: self.host.receive(copy, peer, tag))

    def barrier(self, waits: bool = True) -> Work:
        return self.host.barrier(waits)

    def close(self) -> None:
        pass  # the host's is ended by its group


def _written(tensor: Tensor, begin: Callable[[Tensor], Work]) -> Work:
    copy = tensor.detach().cpu()

    def take() -> None:
        with no_grad():
            tensor.copy_(copy)

    return FollowedWork(begin(copy), take, [tensor])
