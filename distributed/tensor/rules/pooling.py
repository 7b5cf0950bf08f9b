"""Pooling: parts along the batch and along channels, which no window spans."""

from __future__ import annotations

from ..placements import Shard
from .rule import Invocation, Rule, Strategy

__all__ = ["RULES"]


def _windows(call: Invocation, spatial: int) -> list[Strategy]:
    ndim = call.tensors[0].ndim
    if any(each.ndim != ndim for each in call.tensors):
        return []
    return [
        Strategy((Shard(dim),) * len(call.results), (Shard(dim),) * len(call.tensors))
        for dim in range(ndim - spatial)
    ]


_POOLS = (
    (1, "max_pool1d_with_indices adaptive_max_pool1d"),
    (
        2,
        "max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d "
        "_adaptive_avg_pool2d_backward adaptive_max_pool2d adaptive_max_pool2d_backward",
    ),
    (
        3,
        "max_pool3d_with_indices max_pool3d_with_indices_backward avg_pool3d avg_pool3d_backward _adaptive_avg_pool3d "
        "_adaptive_avg_pool3d_backward adaptive_max_pool3d adaptive_max_pool3d_backward",
    ),
)
RULES = {
    f"aten::{name}": Rule(lambda call, spatial=spatial: _windows(call, spatial))  # type: ignore[misc]
    for spatial, names in _POOLS
    for name in names.split()
}
"""The rules of the family."""
