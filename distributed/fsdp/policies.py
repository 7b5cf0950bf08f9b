"""Policies for the dtypes of a fully sharded module, and for the devices of its shards."""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of computation and communication (`torch.distributed.fsdp.MixedPrecisionPolicy`).

    The shards, and with them the optimizer's state, keep the parameters' own dtype.

    Attributes:
        param_dtype: Dtype of gathered parameters, forward and backward. None means the parameters' own.
        reduce_dtype: Dtype in which gradients are reduced and accumulated. None means the dtype of the
            computation.
        output_dtype: Dtype of forward's floating-point outputs. None leaves them unchanged.
        cast_forward_inputs: If True, cast forward's floating-point arguments to `param_dtype`. Default: True.

    Example:
        >>> import triten as tt
        >>> from triten.distributed.fsdp import MixedPrecisionPolicy
        >>> MixedPrecisionPolicy(param_dtype=tt.bfloat16, reduce_dtype=tt.float32).param_dtype
        triten.bfloat16
    """

    param_dtype: ScalarType | None = None
    reduce_dtype: ScalarType | None = None
    output_dtype: ScalarType | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Policy that keeps shards on the device of the computation (`torch.distributed.fsdp.OffloadPolicy`)."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Policy that keeps shards, their gradients and the optimizer's state on the host
    (`torch.distributed.fsdp.CPUOffloadPolicy`).

    Attributes:
        pin_memory: If True, pin the host memory, so that copies to and from a GPU are asynchronous. Default:
            True.
    """

    pin_memory: bool = True
