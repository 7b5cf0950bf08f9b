"""CUDA tensors over a host backend: copied to the host, and results copied back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...autograd import no_grad
from ...dispatch.tensor import Tensor
from ..reduce_op import Reduction
from ..work import FollowedWork, Work
from .communicator import WrappingCommunicator

__all__ = ["StagedCommunicator"]


class StagedCommunicator(WrappingCommunicator):
    """A group's communication by copies on the host.

    Args:
        inner: Communicator to which calls are forwarded.
    """

    def all_reduce(self, tensor: Tensor, op: Reduction, waits: bool = True) -> Work:
        return _written(tensor, lambda copy: self.inner.all_reduce(copy, op, waits))

    def reduce(self, tensor: Tensor, op: Reduction, root: int, waits: bool = True) -> Work:
        return _written(tensor, lambda copy: self.inner.reduce(copy, op, root, waits))

    def broadcast(self, tensor: Tensor, root: int, waits: bool = True) -> Work:
        return _written(tensor, lambda copy: self.inner.broadcast(copy, root, waits))

    def all_gather(self, output: Tensor, input: Tensor, waits: bool = True) -> Work:
        return _written(output, lambda copy: self.inner.all_gather(copy, input.cpu(), waits))

    def reduce_scatter(self, output: Tensor, input: Tensor, op: Reduction, waits: bool = True) -> Work:
        return _written(output, lambda copy: self.inner.reduce_scatter(copy, input.cpu(), op, waits))

    def all_to_all(
        self,
        output: Tensor,
        input: Tensor,
        output_counts: Sequence[int],
        input_counts: Sequence[int],
        waits: bool = True,
    ) -> Work:
        return _written(
            output, lambda copy: self.inner.all_to_all(copy, input.cpu(), output_counts, input_counts, waits)
        )

    def gather(self, output: Tensor | None, input: Tensor, root: int, waits: bool = True) -> Work:
        if output is None:
            return self.inner.gather(None, input.cpu(), root, waits)
        return _written(output, lambda copy: self.inner.gather(copy, input.cpu(), root, waits))

    def scatter(self, output: Tensor, input: Tensor | None, root: int, waits: bool = True) -> Work:
        source = None if input is None else input.cpu()
        return _written(output, lambda copy: self.inner.scatter(copy, source, root, waits))

    def send(self, tensor: Tensor, peer: int, tag: int) -> Work:
        return self.inner.send(tensor.cpu(), peer, tag)

    def receive(self, tensor: Tensor, peer: int | None, tag: int) -> Work:
        return _written(tensor, lambda copy: self.inner.receive(copy, peer, tag))

    def barrier(self, waits: bool = True) -> Work:
        return self.inner.barrier(waits)

    def close(self) -> None:
        pass  # the host's is ended by its group


def _written(tensor: Tensor, begin: Callable[[Tensor], Work]) -> Work:
    copy = tensor.detach().cpu()

    def take() -> None:
        with no_grad():
            tensor.copy_(copy)

    return FollowedWork(begin(copy), take, [tensor])
