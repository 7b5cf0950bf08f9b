"""How parameters of a fully sharded module are computed with, and where their shards lie."""

from __future__ import annotations

from dataclasses import dataclass

from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of computation and communication (`torch.distributed.fsdp.MixedPrecisionPolicy`).

    The shards, and with them the optimizer's state, keep the parameters' own dtype.

    Attributes:
        param_dtype: in which parameters are gathered and forward and backward compute; None for their own.
        reduce_dtype: in which gradients are reduced, and added up where they are not reduced yet; None for that of
            computation.
        output_dtype: to which floating-point results of forward are cast; None leaves them.
        cast_forward_inputs: whether floating-point arguments of forward are cast to `param_dtype`.

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
    """Shards lie where the modules compute (`torch.distributed.fsdp.OffloadPolicy`)."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Shards, their gradients and the optimizer's state lie in the host's memory
    (`torch.distributed.fsdp.CPUOffloadPolicy`).

    Attributes:
        pin_memory: whether that is pinned, so that copies to and from a GPU do not wait.
    """

    pin_memory: bool = True
