"""Options of a group's own methods, as PyTorch's modules pass them (`torch.distributed.AllreduceOptions`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from .reduce_op import ReduceOp, Reduction

__all__ = [
    "AllToAllOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "BarrierOptions",
    "BroadcastOptions",
    "GatherOptions",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
]


@dataclass
class AllToAllOptions:
    """Options of `all_to_all` (`torch.distributed.AllToAllOptions`); those of all others have these, too."""

    timeout: timedelta = timedelta(milliseconds=-1)
    asyncOp: bool = True  # PyTorch's name


@dataclass
class AllreduceOptions(AllToAllOptions):
    """Options of `ProcessGroup.allreduce` (`torch.distributed.AllreduceOptions`)."""

    reduceOp: Reduction = ReduceOp.SUM


@dataclass
class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of `all_reduce` of several tensors (`torch.distributed.AllreduceCoalescedOptions`)."""


@dataclass
class ReduceScatterOptions(AllreduceOptions):
    """Options of `reduce_scatter` (`torch.distributed.ReduceScatterOptions`)."""


@dataclass
class ReduceOptions(AllreduceOptions):
    """Options of `reduce` (`torch.distributed.ReduceOptions`)."""

    rootRank: int = 0
    rootTensor: int = 0


@dataclass
class BroadcastOptions(AllToAllOptions):
    """Options of `ProcessGroup.broadcast` (`torch.distributed.BroadcastOptions`)."""

    rootRank: int = 0
    rootTensor: int = 0


@dataclass
class GatherOptions(AllToAllOptions):
    """Options of `gather` (`torch.distributed.GatherOptions`)."""

    rootRank: int = 0


@dataclass
class ScatterOptions(GatherOptions):
    """Options of `scatter` (`torch.distributed.ScatterOptions`)."""


@dataclass
class BarrierOptions(AllToAllOptions):
    """Options of `ProcessGroup.barrier` (`torch.distributed.BarrierOptions`)."""

    device_ids: list[int] = field(default_factory=list)
    device: Any = None
