"""Averages of gradients, also in narrow dtypes (`torch.distributed.algorithms.ddp_comm_hooks.default_hooks`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....dispatch.tensor import Tensor
from ....futures import Future
from ....runtime.scalar_type import bfloat16, float16
from ....runtime.scalar_type import dtype as ScalarType
from ...collectives import all_reduce
from ...data_parallel.grad_bucket import GradBucket
from ...groups import group_or_default
from ...process_group import ProcessGroup

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, GradBucket], Future[Tensor]]


def future_of_sum(group: ProcessGroup, tensor: Tensor) -> Future[Tensor]:
    """Start an asynchronous all-reduce that sums a tensor, and return its future."""
    work = all_reduce(tensor, group=group, async_op=True)
    assert work is not None
    future: Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return future


def future_of_average(group: ProcessGroup, tensor: Tensor) -> Future[Tensor]:
    """Start an asynchronous all-reduce that averages a tensor, and return its future. Each rank divides
    before it sends.
    """
    return future_of_sum(group, tensor.div_(group.size()))


def allreduce_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[Tensor]:
    """Average gradients, as happens without a hook.

    Args:
        process_group: The group. None means all ranks.
        bucket: the gradients.
    """
    return future_of_average(group_or_default(process_group), bucket.buffer())


def _compressed(dtype: ScalarType, process_group: ProcessGroup | None, bucket: GradBucket) -> Future[Tensor]:
    group, buffer = group_or_default(process_group), bucket.buffer()
    narrow = buffer.to(dtype)
    narrow.div_(group.size())
    return future_of_sum(group, narrow).then(lambda done: buffer.copy_(done.value()))


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[Tensor]:
    """Average gradients in float16.

    Args:
        process_group: The group. None means all ranks.
        bucket: the gradients.
    """
    return _compressed(float16, process_group, bucket)


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: GradBucket) -> Future[Tensor]:
    """Average gradients in bfloat16.

    Args:
        process_group: The group. None means all ranks.
        bucket: the gradients.
    """
    return _compressed(bfloat16, process_group, bucket)


def _wrapped(hook: Hook, dtype: ScalarType, state: Any, bucket: GradBucket) -> Future[Tensor]:
    buffer = bucket.buffer()
    bucket.set_buffer(buffer.to(dtype))
    return hook(state, bucket).then(lambda done: buffer.copy_(done.value()))


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Wrap a hook so that it receives gradients in float16.

    Args:
        hook: the hook, `powerSGD_hook.powerSGD_hook` for instance.
    """

    def fp16_compress_wrapper_hook(hook_state: Any, bucket: GradBucket) -> Future[Tensor]:
        return _wrapped(hook, float16, hook_state, bucket)

    return fp16_compress_wrapper_hook


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Wrap a hook so that it receives gradients in bfloat16.

    Args:
        hook: the hook.
    """

    def bf16_compress_wrapper_hook(hook_state: Any, bucket: GradBucket) -> Future[Tensor]:
        return _wrapped(hook, bfloat16, hook_state, bucket)

    return bf16_compress_wrapper_hook
