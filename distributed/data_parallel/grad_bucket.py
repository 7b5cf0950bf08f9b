"""Bucket of gradients that a communication hook receives (`torch.distributed.GradBucket`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from .buckets import Bucket

__all__ = ["GradBucket"]


class GradBucket:
    """Gradients that are to be reduced together (`torch.distributed.GradBucket`).

    Args:
        bucket: the bucket.
        index: Index of the bucket.
        count: Number of buckets.
        buffer: Gradients that replace its own.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> def clipped(state, bucket):
        ...     total = dist.all_reduce(bucket.buffer().clamp_(-1, 1), async_op=True)
        ...     return total.get_future()
        >>> model = tt.nn.parallel.DistributedDataParallel(tt.nn.Linear(1, 1))
        >>> model.register_comm_hook(None, clipped)
        >>> model(tt.full((1,), 5.0)).backward()
        >>> model.module.weight.grad
        tensor([[1.]])
        >>> dist.destroy_process_group()
    """

    __slots__ = ("_bucket", "_buffer", "_count", "_index")

    def __init__(self, bucket: Bucket, index: int, count: int, buffer: Tensor | None = None) -> None:
        self._bucket, self._index, self._count = bucket, index, count
        self._buffer: Tensor = bucket.buffer if buffer is None else buffer

    def index(self) -> int:
        """Return the bucket's index, in the order in which buckets are reduced."""
        return self._index

    def buffer(self) -> Tensor:
        """Return the flat buffer of all gradients, which the hook may write, or the sparse gradient."""
        return self._buffer

    def gradients(self) -> list[Tensor]:
        """Return the gradients, as views of `buffer`."""
        if self._bucket.is_sparse:
            return [self._buffer]
        if self._buffer is self._bucket.buffer:
            return list(self._bucket.views)
        return self._bucket.views_of(self._buffer)

    def parameters(self) -> list[Tensor]:
        """Return the parameters, in the order of the gradients."""
        return list(self._bucket.params)

    def is_last(self) -> bool:
        """Return True if the bucket is the last of this backward."""
        return self._index == self._count - 1

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the flat buffer of gradients."""
        self._buffer = buffer
