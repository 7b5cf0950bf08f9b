"""What a `DistributedDataParallel` does in a process whose batches are used up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...distributed.algorithms.join import JoinHook
from ...distributed.collectives import all_reduce
from ...distributed.data_parallel.module_states import sync_module_states

if TYPE_CHECKING:
    from .distributed import DistributedDataParallel

__all__ = ["DDPJoinHook"]


class DDPJoinHook(JoinHook):
    """Sends zeros for gradients, and takes what the last processes have at the end.

    Args:
        ddp: the module.
        divide_by_initial_world_size: whether sums are divided by the number of all processes.
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
        sent = [reducer._run_comm_hook(bucket) for bucket in reducer._get_zeros_like_grad_buckets()]
        if ddp.find_unused_parameters and not ddp.static_graph:
            all_reduce(reducer._get_local_used_map(), group=ddp.process_group)
        for each in sent:
            each.wait()
        reducer._push_all_rebuilt_params()

    def post_hook(self, is_last_joiner: bool) -> None:
        """The parameters and buffers of a process that had the most batches become those of all."""
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
