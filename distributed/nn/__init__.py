"""Communication that has gradients (`torch.distributed.nn`): without a process group, a ValueError."""

from .functional import all_gather, all_reduce, all_to_all, broadcast, gather, reduce, reduce_scatter, scatter

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
