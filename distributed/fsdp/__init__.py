"""Fully sharded data parallelism (`torch.distributed.fsdp`): each process keeps a part of all parameters, gradients and
optimizer states.

`sharding` has `fully_shard`; `fsdp_module` the methods that a module gets by it; `module_state` what happens around
forward and backward. There `parameter_group` has parameters gathered (`gathering`), freed (`freed`) and their gradients
reduced (`reduction`); `sharded_parameter` is one of them. `communication` orders it beside the computation.
"""

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names as _lazy_names

_NAMES = {
    ".communication": "AllGather ReduceScatter",
    ".fsdp_module": "FSDPModule UnshardHandle register_fsdp_forward_method share_comm_ctx",
    ".fully_sharded_data_parallel": "FullyShardedDataParallel",
    ".policies": "CPUOffloadPolicy MixedPrecisionPolicy OffloadPolicy",
    ".sharding": "fully_shard",
}

if TYPE_CHECKING:
    from .communication import AllGather as AllGather
    from .communication import ReduceScatter as ReduceScatter
    from .fsdp_module import FSDPModule as FSDPModule
    from .fsdp_module import UnshardHandle as UnshardHandle
    from .fsdp_module import register_fsdp_forward_method as register_fsdp_forward_method
    from .fsdp_module import share_comm_ctx as share_comm_ctx
    from .fully_sharded_data_parallel import FullyShardedDataParallel as FullyShardedDataParallel
    from .policies import CPUOffloadPolicy as CPUOffloadPolicy
    from .policies import MixedPrecisionPolicy as MixedPrecisionPolicy
    from .policies import OffloadPolicy as OffloadPolicy
    from .sharding import fully_shard as fully_shard

__getattr__, __dir__, __all__ = _lazy_names(__name__, _NAMES)
