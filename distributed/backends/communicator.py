"""What a backend does for a group of processes."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from ...dispatch.tensor import Tensor
from ..reduce_op import Reduction
from ..work import Work

__all__ = ["Communicator", "WrappingCommunicator"]


class Communicator(abc.ABC):
    """Collectives and messages among the processes of a group, on one kind of device.

    Tensors are contiguous, and none is a view of conjugates or negatives. What is written must not be read before the
    work has ended. `waits` says whether the caller waits for the work at once: then the communication may be over
    before the call returns.

    Attributes:
        rank: this process's number in the group.
        size: the number of processes.
        timeout: how long a communication may take.
    """

    rank: int
    size: int
    timeout: timedelta

    @abc.abstractmethod
    def all_reduce(self, tensor: Tensor, op: Reduction, waits: bool = True) -> Work:
        """Put the reduction of all processes' tensors in the place of each."""

    @abc.abstractmethod
    def reduce(self, tensor: Tensor, op: Reduction, root: int, waits: bool = True) -> Work:
        """Put the reduction of all processes' tensors in the place of that of `root`."""

    @abc.abstractmethod
    def broadcast(self, tensor: Tensor, root: int, waits: bool = True) -> Work:
        """Put the tensor of `root` in the place of each."""

    @abc.abstractmethod
    def all_gather(self, output: Tensor, input: Tensor, waits: bool = True) -> Work:
        """Put the tensors of all processes one after the other into each one's output."""

    @abc.abstractmethod
    def reduce_scatter(self, output: Tensor, input: Tensor, op: Reduction, waits: bool = True) -> Work:
        """Put a part, by the process's number, of the reduction of all inputs into each one's output."""

    @abc.abstractmethod
    def all_to_all(
        self,
        output: Tensor,
        input: Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        waits: bool = True,
    ) -> Work:
        """Send a part of the input, of as many elements as its count, to each process, and put what comes into the
        output."""

    @abc.abstractmethod
    def gather(self, output: Tensor | None, input: Tensor, root: int, waits: bool = True) -> Work:
        """Put the tensors of all processes one after the other into the output of `root`."""

    @abc.abstractmethod
    def scatter(self, output: Tensor, input: Tensor | None, root: int, waits: bool = True) -> Work:
        """Put a part, by the process's number, of the input of `root` into each one's output."""

    @abc.abstractmethod
    def send(self, tensor: Tensor, peer: int, tag: int) -> Work:
        """Send a tensor to a process."""

    @abc.abstractmethod
    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        """Put a tensor that a process sends, None for any one, in the place of this one."""

    @abc.abstractmethod
    def barrier(self, waits: bool = True) -> Work:
        """End once all processes have begun."""

    @contextmanager
    def coalescing(self) -> Iterator[None]:
        """What is begun inside may be sent together."""
        yield

    @abc.abstractmethod
    def close(self) -> None:
        """End it. What is under way is lost."""


class WrappingCommunicator(Communicator):
    """A communicator over another one, of the same processes, whose time limit is its own.

    Args:
        inner: what communicates.
    """

    def __init__(self, inner: Communicator) -> None:
        self.inner = inner
        self.rank, self.size = inner.rank, inner.size

    @property
    def timeout(self) -> timedelta:  # an attribute of others
        """How long a communication may take."""
        return self.inner.timeout

    @timeout.setter
    def timeout(self, value: timedelta) -> None:
        self.inner.timeout = value

    @contextmanager
    def coalescing(self) -> Iterator[None]:
        with self.inner.coalescing():
            yield
