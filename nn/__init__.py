"""Neural-network functions: `tt.nn.functional`."""

from __future__ import annotations

from . import functional

__all__ = ["functional"]
