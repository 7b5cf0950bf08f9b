"""The functions of `distributed.nn` (`torch.distributed.nn.functional`)."""

from .. import all_gather, all_reduce, all_to_all, broadcast, gather, reduce, reduce_scatter, scatter

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
