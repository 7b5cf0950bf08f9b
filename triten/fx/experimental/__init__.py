"""PyTorch's experimental features: fusion of layers, graphs of operators (`torch.fx.experimental`)."""

from __future__ import annotations

from ...runtime.lazy_import import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, {}, ("optimization", "proxy_tensor", "symbolic_shapes"))
