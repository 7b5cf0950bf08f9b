"""A group of one process, which talks to itself: no library is needed."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from datetime import timedelta

from ...autograd import no_grad
from ...dispatch.tensor import Tensor
from ..errors import DistBackendError
from ..reduce_op import PremultipliedSum, Reduction
from ..work import DoneWork, Work
from .communicator import Communicator

__all__ = ["LoneCommunicator"]


class LoneCommunicator(Communicator):
    """Collectives of one process: a reduction of one tensor is that tensor.

    Args:
        timeout: for programs that ask for it.
    """

    def __init__(self, timeout: timedelta) -> None:
        self.rank, self.size, self.timeout = 0, 1, timeout
        self._sent: dict[int, deque[Tensor]] = defaultdict(deque)

    def all_reduce(self, tensor: Tensor, op: Reduction, waits: bool = True) -> Work:
        if isinstance(op, PremultipliedSum):
            with no_grad():
                tensor.mul_(op.factor)
        return DoneWork([tensor])

    def reduce(self, tensor: Tensor, op: Reduction, root: int, waits: bool = True) -> Work:
        return self.all_reduce(tensor, op)

    def broadcast(self, tensor: Tensor, root: int, waits: bool = True) -> Work:
        return DoneWork([tensor])

    def all_gather(self, output: Tensor, input: Tensor, waits: bool = True) -> Work:
        return _copied(output, input)

    def reduce_scatter(self, output: Tensor, input: Tensor, op: Reduction, waits: bool = True) -> Work:
        _copied(output, input)
        return self.all_reduce(output, op)

    def all_to_all(
        self,
        output: Tensor,
        input: Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        waits: bool = True,
    ) -> Work:
        return _copied(output, input)

    def gather(self, output: Tensor | None, input: Tensor, root: int, waits: bool = True) -> Work:
        return DoneWork() if output is None else _copied(output, input)

    def scatter(self, output: Tensor, input: Tensor | None, root: int, waits: bool = True) -> Work:
        return DoneWork() if input is None else _copied(output, input)

    def send(self, tensor: Tensor, peer: int, tag: int) -> Work:
        self._sent[tag].append(tensor.clone())
        return DoneWork([tensor])

    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        if not self._sent[tag]:
            raise DistBackendError(
                f"recv: no message with tag {tag} was sent, and this is the only rank of the group; send it first"
            )
        return _copied(tensor, self._sent[tag].popleft())

    def barrier(self, waits: bool = True) -> Work:
        return DoneWork()

    def close(self) -> None:
        self._sent.clear()


def _copied(output: Tensor, input: Tensor) -> Work:
    with no_grad():
        output.view(-1).copy_(input.view(-1))
    return DoneWork([output])
