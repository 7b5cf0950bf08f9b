"""A hook that sends nothing (`torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks`)."""

from __future__ import annotations

from typing import Any

from ....dispatch.tensor import Tensor
from ....futures import Future
from ...data_parallel.grad_bucket import GradBucket

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: GradBucket) -> Future[Tensor]:
    """Leave gradients unchanged, to measure the cost of their communication."""
    future: Future[Tensor] = Future()
    future.set_result(bucket.buffer())
    return future
