"""Settings of the older wrapper, under PyTorch's names (`torch.distributed.fsdp.api`).

Programs may compare and store them. `FullyShardedDataParallel` itself raises an error that names the
arguments of `fully_shard`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ...nn.modules.batchnorm import _BatchNorm
from ...nn.modules.module import Module
from ...runtime.scalar_type import dtype as ScalarType

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class ShardingStrategy(Enum):
    """Which states each process has a part of (`torch.distributed.fsdp.ShardingStrategy`)."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters are gathered in backward (`torch.distributed.fsdp.BackwardPrefetch`)."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """The kind of a module's state (`torch.distributed.fsdp.StateDictType`)."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """Kind of parameter key in an optimizer's state (`torch.distributed.fsdp.OptimStateKeyType`)."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class MixedPrecision:
    """Dtypes of parameters, reductions and buffers (`torch.distributed.fsdp.MixedPrecision`)."""

    param_dtype: ScalarType | None = None
    reduce_dtype: ScalarType | None = None
    buffer_dtype: ScalarType | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type[Module]] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Offloading of parameters to host memory (`torch.distributed.fsdp.CPUOffload`)."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """Options for a model's state (`torch.distributed.fsdp.StateDictConfig`)."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Options for a full state (`torch.distributed.fsdp.FullStateDictConfig`)."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Options for a state of local flat parameters (`torch.distributed.fsdp.LocalStateDictConfig`)."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Options for a sharded state (`torch.distributed.fsdp.ShardedStateDictConfig`)."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Options for an optimizer's state (`torch.distributed.fsdp.OptimStateDictConfig`)."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Options for an optimizer's full state (`torch.distributed.fsdp.FullOptimStateDictConfig`)."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Options for the local part of an optimizer's state
    (`torch.distributed.fsdp.LocalOptimStateDictConfig`).
    """

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Options for an optimizer's sharded state (`torch.distributed.fsdp.ShardedOptimStateDictConfig`)."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """The kind and the place of a state (`torch.distributed.fsdp.StateDictSettings`)."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
