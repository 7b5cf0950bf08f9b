"""Interface of a backend to a process group."""

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
    """Collectives and messages among the ranks of a group, on one kind of device.

    Tensors are contiguous, and their conjugate and negative bits are not set. The caller must not read an
    output before the work has ended. If `waits` is True, the caller waits for the work at once; the
    communication may then end before the call returns.

    Attributes:
        rank: This process's rank in the group.
        size: Number of ranks.
        timeout: Timeout of a communication.
    """

    rank: int
    size: int
    timeout: timedelta

    @abc.abstractmethod
    def all_reduce(self, tensor: Tensor, op: Reduction, waits: bool = True) -> Work:
        """Reduce the tensors of all ranks, in-place on every rank."""

    @abc.abstractmethod
    def reduce(self, tensor: Tensor, op: Reduction, root: int, waits: bool = True) -> Work:
        """Reduce the tensors of all ranks, in-place on rank `root`."""

    @abc.abstractmethod
    def broadcast(self, tensor: Tensor, root: int, waits: bool = True) -> Work:
        """Broadcast the tensor of rank `root`, in-place on the other ranks."""

    @abc.abstractmethod
    def all_gather(self, output: Tensor, input: Tensor, waits: bool = True) -> Work:
        """Gather the tensors of all ranks, concatenated in each rank's output."""

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
        """Send `counts` elements of the input to each rank, and write the received elements to the output."""

    @abc.abstractmethod
    def gather(self, output: Tensor | None, input: Tensor, root: int, waits: bool = True) -> Work:
        """Gather the tensors of all ranks, concatenated in the output of `root`."""

    @abc.abstractmethod
    def scatter(self, output: Tensor, input: Tensor | None, root: int, waits: bool = True) -> Work:
        """Put a part, by the process's number, of the input of `root` into each one's output."""

    @abc.abstractmethod
    def send(self, tensor: Tensor, peer: int, tag: int) -> Work:
        """Send a tensor to a process."""

    @abc.abstractmethod
    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        """Receive a message into a tensor, from any rank if `peer` is None."""

    @abc.abstractmethod
    def barrier(self, waits: bool = True) -> Work:
        """Wait until all ranks have called it."""

    @contextmanager
    def coalescing(self) -> Iterator[None]:
        """Allow the backend to send the communications started inside this context together."""
        yield

    @abc.abstractmethod
    def close(self) -> None:
        """Close the communicator. Pending communications are lost."""


class WrappingCommunicator(Communicator):
    """Communicator that wraps another one with the same ranks, and has its own timeout.

    Args:
        inner: Communicator to which calls are forwarded.
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
