"""Searches in graphs, and subgraphs as modules (`torch.fx.passes.utils`)."""

from __future__ import annotations

from ....runtime.lazy_import import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {".common": "HolderModule compare_graphs lift_subgraph_as_module"},
    ("common", "fuser_utils", "matcher_utils"),
)
