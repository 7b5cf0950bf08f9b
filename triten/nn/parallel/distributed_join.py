"""A `DistributedDataParallel` in processes with different numbers of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ...distributed.collectives import all_reduce
from ...distributed.data_parallel.module_states import sync_module_states
from ...distributed.reduce_op import ReduceOp

if TYPE_CHECKING:
    from ...distributed.process_group import ProcessGroup
    from ...runtime.device import device as Device
    from .distributed import DistributedDataParallel

__all__ = ["DDPJoinHook", "JoinableModule"]


class DDPJoinHook(JoinHook):
    """Sends zeros for gradients, and takes what the last processes have at the end.

    Args:
        ddp: the module.
        divide_by_initial_world_size: If True, sums are divided by the number of all processes.
    """

    def __init__(self, ddp: DistributedDataParallel, divide_by_initial_world_size: bool) -> None:
        self.ddp = ddp
        ddp._divide_by_initial_world_size = divide_by_initial_world_size

    def main_hook(self) -> None:
        """For each batch of others, what its forward and backward send, in their order."""
        ddp = self.ddp
        reducer = ddp.reducer
        if not reducer.has_rebuilt_buckets:
            reducer._rebuild_buckets()
        if ddp._syncs_buffers(after=False):
            ddp._sync_module_buffers(ddp._find_common_rank(ddp.process_group.rank(), False))
        ddp.require_forward_param_sync = ddp._check_global_requires_backward_grad_sync(is_joined_rank=True)
        if not ddp.require_forward_param_sync:
            return
        if ddp.static_graph and reducer._is_first_static:  # its first backward reports used parameters
            all_reduce(reducer._get_local_used_map(), group=ddp.process_group)
            reducer._is_first_static = False
        sent = [reducer._run_comm_hook(bucket) for bucket in reducer._get_zeros_like_grad_buckets()]
        if ddp.find_unused_parameters and not ddp.static_graph:
            all_reduce(reducer._get_local_used_map(), group=ddp.process_group)
        for each in sent:
            each.wait()
        reducer._push_all_rebuilt_params()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Broadcast the parameters and buffers of the process that joined last."""
        ddp = self.ddp
        root = ddp._find_common_rank(ddp.process_group.rank(), is_last_joiner)
        sync_module_states(
            ddp.module,
            ddp.process_group,
            ddp.broadcast_bucket_size,
            root,
            ddp.parameters_to_ignore,
            ddp.forward_sync_buffers,
        )


class JoinableModule(Joinable):
    """The part of a `DistributedDataParallel` that has to do with `join`."""

    device: Device
    process_group: ProcessGroup
    require_backward_grad_sync: bool

    def _check_global_requires_backward_grad_sync(self, is_joined_rank: bool) -> bool:
        """Tell those without batches whether this process's backward sends; for one of them, whether any does."""
        from ... import full

        value = 1.0 if not is_joined_rank and self.require_backward_grad_sync else 0.0
        flag = full((1,), value, device=self.device)
        all_reduce(flag, group=self.process_group)
        return bool(flag.item())

    def _find_common_rank(self, input_rank: int, rank_cond: bool) -> int:
        """Return the highest rank among the processes whose `rank_cond` is True."""
        from ... import tensor

        rank = tensor([input_rank if rank_cond else -1], device=self.device)
        all_reduce(rank, ReduceOp.MAX, self.process_group)
        common_rank = int(rank.item())
        if common_rank == -1:
            raise ValueError("BUG! Expected rank_cond to be true for at least one process.")
        return common_rank

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """Inside, processes may have different numbers of batches (`tt.distributed.algorithms.Join`).

        Args:
            divide_by_initial_world_size: If True, sums are divided by the number of all processes, or of those that
                still have batches. Default: True.
            enable: False if all are known to have as many.
            throw_on_early_termination: If True, raise in all processes as soon as one is without batches. Default:
                False.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook that runs in a process that has no more batches."""
        return DDPJoinHook(
            cast("DistributedDataParallel", self), kwargs.get("divide_by_initial_world_size", True)
        )

    @property
    def join_device(self) -> Device:
        """Device of the module."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group
