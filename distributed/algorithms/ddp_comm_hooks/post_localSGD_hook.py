"""Averages over all processes first, and over those of a machine later
(`torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook`)."""

from __future__ import annotations

from ....dispatch.tensor import Tensor
from ....futures import Future
from ...data_parallel.grad_bucket import GradBucket
from ...groups import group_or_default
from ...process_group import ProcessGroup
from ...subgroups import new_subgroups
from .default_hooks import future_of_average

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """State of `post_localSGD_hook`.

    Args:
        process_group: Group that averages at first. None means all ranks.
        subgroup: Group that keeps averaging afterwards. None means the ranks of one machine.
        start_localSGD_iter: Number of backward passes that average over `process_group`.
        post_local_gradient_allreduce: If True, the subgroup averages gradients afterwards.
    """

    __slots__ = ("iter", "post_local_gradient_allreduce", "process_group", "start_localSGD_iter", "subgroup")

    def __init__(
        self,
        process_group: ProcessGroup | None,
        subgroup: ProcessGroup | None,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a backward, with its last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average gradients over all processes in the first backwards, then over a subgroup.

    An averager of parameters, such as `PeriodicModelAverager`, keeps subgroups together.

    Args:
        state: when, and over which processes.
        bucket: the gradients.
    """
    buffer = bucket.buffer()
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return future_of_average(group_or_default(state.process_group), buffer)
    if not state.post_local_gradient_allreduce:
        future: Future[Tensor] = Future()
        future.set_result(buffer)
        return future
    if state.subgroup is None:
        own, _ = new_subgroups()
        state.subgroup = group_or_default(own)
    return future_of_average(state.subgroup, buffer)
