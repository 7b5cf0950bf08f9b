"""Communication hooks of `DistributedDataParallel` (`torch.distributed.algorithms.ddp_comm_hooks`).

A hook takes a state and a `tt.distributed.GradBucket`, and returns a future of the reduced buffer.
`register_comm_hook` registers it.

Example:
    >>> import triten as tt
    >>> from triten import distributed as dist
    >>> from triten.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
    >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = tt.nn.parallel.DistributedDataParallel(tt.nn.Linear(1, 1))
    >>> register_ddp_comm_hook(DDPCommHookType.BF16_COMPRESS, model)
    >>> model(tt.ones(1)).backward()
    >>> dist.destroy_process_group()
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from . import debugging_hooks, default_hooks, post_localSGD_hook, powerSGD_hook

if TYPE_CHECKING:
    from ....nn.parallel.distributed import DistributedDataParallel

__all__ = [
    "DDPCommHookType",
    "debugging_hooks",
    "default_hooks",
    "post_localSGD_hook",
    "powerSGD_hook",
    "register_ddp_comm_hook",
]


class DDPCommHookType(Enum):
    """Hooks by name (`torch.distributed.algorithms.ddp_comm_hooks.DDPCommHookType`): the function, and a rank."""

    ALLREDUCE = ("allreduce_hook", 0)
    FP16_COMPRESS = ("fp16_compress_hook", 0)
    BF16_COMPRESS = ("bf16_compress_hook", 0)
    POWER_SGD = ("powerSGD_hook", 1)
    POWER_SGD_RANK2 = ("powerSGD_hook", 2)
    BATCHED_POWER_SGD = ("batched_powerSGD_hook", 1)
    BATCHED_POWER_SGD_RANK2 = ("batched_powerSGD_hook", 2)
    NOOP = ("noop_hook", 0)


def register_ddp_comm_hook(
    comm_hook_type: DDPCommHookType, model: DistributedDataParallel, state: Any = None
) -> None:
    """Have a module use a hook (`torch.distributed.algorithms.ddp_comm_hooks.register_ddp_comm_hook`).

    Args:
        comm_hook_type: the hook.
        model: the module.
        state: the group of processes; None for all.
    """
    name, rank = comm_hook_type.value
    if rank:
        state = powerSGD_hook.PowerSGDState(state, matrix_approximation_rank=rank)
        model.register_comm_hook(state, getattr(powerSGD_hook, name))
    elif name == "noop_hook":
        model.register_comm_hook(state, debugging_hooks.noop_hook)
    else:
        model.register_comm_hook(state, getattr(default_hooks, name))
