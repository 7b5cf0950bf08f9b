"""Passes over graphs: shapes, splits, drawings, matches, fusion (`torch.fx.passes`), imported with their first use."""

from __future__ import annotations

from ...runtime.lazy_import import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {},
    (
        "fake_tensor_prop",
        "graph_drawer",
        "infra",
        "operator_support",
        "shape_prop",
        "split_module",
        "tools_common",
        "utils",
    ),
)
