"""What a backend does for a group of processes."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from datetime import timedelta

from ...dispatch.tensor import Tensor
from ..reduce_op import Reduction
from ..work import Work

__all__ = ["Communicator"]


class Communicator(abc.ABC):
    """Collectives and messages among the processes of a group, on one kind of device.

    Tensors are contiguous. What is written must not be read before the work has ended.

    Attributes:
        rank: this process's number in the group.
        size: the number of processes.
        timeout: how long a communication may take.
    """

    rank: int
    size: int
    timeout: timedelta

    @abc.abstractmethod
    def all_reduce(self, tensor: Tensor, op: Reduction) -> Work:
        """Put the reduction of all processes' tensors in the place of each."""

    @abc.abstractmethod
    def reduce(self, tensor: Tensor, op: Reduction, root: int) -> Work:
        """Put the reduction of all processes' tensors in the place of that of `root`."""

    @abc.abstractmethod
    def broadcast(self, tensor: Tensor, root: int) -> Work:
        """Put the tensor of `root` in the place of each."""

    @abc.abstractmethod
    def all_gather(self, output: Tensor, input: Tensor) -> Work:
        """Put the tensors of all processes one after the other into each one's output."""

    @abc.abstractmethod
    def reduce_scatter(self, output: Tensor, input: Tensor, op: Reduction) -> Work:
        """Put a part, by the process's number, of the reduction of all inputs into each one's output."""

    @abc.abstractmethod
    def all_to_all(
        self, output: Tensor, input: Tensor, output_counts: Sequence[int], input_counts: Sequence[int]
    ) -> Work:
        """Send a part of the input, as long as its count, to each process, and put what comes into the output."""

    @abc.abstractmethod
    def gather(self, output: Tensor | None, input: Tensor, root: int) -> Work:
        """Put the tensors of all processes one after the other into the output of `root`."""

    @abc.abstractmethod
    def scatter(self, output: Tensor, input: Tensor | None, root: int) -> Work:
        """Put a part, by the process's number, of the input of `root` into each one's output."""

    @abc.abstractmethod
    def send(self, tensor: Tensor, peer: int, tag: int) -> Work:
        """Send a tensor to a process."""

    @abc.abstractmethod
    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        """Put a tensor that a process sends, None for any one, in the place of this one."""

    @abc.abstractmethod
    def barrier(self) -> Work:
        """End once all processes have begun."""

    @abc.abstractmethod
    def subgroup(self, ranks: Sequence[int], tag: int, timeout: timedelta) -> Communicator:
        """A communicator of some of the processes, which each of them asks for, this one among them.

        Args:
            ranks: their numbers in this group, in the order of those in the new one.
            tag: a number that all give alike, and no other group that is made meanwhile.
            timeout: the time limit of the new group's communications.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """End it. What is under way is lost."""
