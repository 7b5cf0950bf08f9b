"""Fully sharded data parallelism (`torch.distributed.fsdp`): each process keeps a part of all parameters, gradients and
optimizer states.

`sharding` has `fully_shard`; `fsdp_module` the methods that a module gets by it; `module_state` what happens around
forward and backward. There `parameter_group` has parameters gathered (`gathering`), freed (`freed`) and their gradients
reduced (`reduction`); `sharded_parameter` is one of them. `communication` orders it beside the computation.
`api` and `wrap` have the settings and policies of the older wrapper, `FullyShardedDataParallel`, which is refused.
"""

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names as _lazy_names

_NAMES = {
    ".api": "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig LocalOptimStateDictConfig "
    "LocalStateDictConfig MixedPrecision OptimStateDictConfig OptimStateKeyType ShardedOptimStateDictConfig "
    "ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings StateDictType",
    ".communication": "AllGather ReduceScatter",
    ".fsdp_module": "FSDPModule UnshardHandle register_fsdp_forward_method share_comm_ctx",
    ".fully_sharded_data_parallel": "FullyShardedDataParallel",
    ".policies": "CPUOffloadPolicy MixedPrecisionPolicy OffloadPolicy",
    ".sharding": "fully_shard",
}

if TYPE_CHECKING:
    from .api import BackwardPrefetch as BackwardPrefetch
    from .api import CPUOffload as CPUOffload
    from .api import FullOptimStateDictConfig as FullOptimStateDictConfig
    from .api import FullStateDictConfig as FullStateDictConfig
    from .api import LocalOptimStateDictConfig as LocalOptimStateDictConfig
    from .api import LocalStateDictConfig as LocalStateDictConfig
    from .api import MixedPrecision as MixedPrecision
    from .api import OptimStateDictConfig as OptimStateDictConfig
    from .api import OptimStateKeyType as OptimStateKeyType
    from .api import ShardedOptimStateDictConfig as ShardedOptimStateDictConfig
    from .api import ShardedStateDictConfig as ShardedStateDictConfig
    from .api import ShardingStrategy as ShardingStrategy
    from .api import StateDictConfig as StateDictConfig
    from .api import StateDictSettings as StateDictSettings
    from .api import StateDictType as StateDictType
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

__getattr__, __dir__, __all__ = _lazy_names(__name__, _NAMES, ["api", "wrap"])
