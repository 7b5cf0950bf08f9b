"""Pointwise operators made of others."""

from __future__ import annotations

from typing import Any

from ..generated.functions import add


def add_scalar(self: Any, other: Any, alpha: Any) -> Any:
    """``add.Scalar``: a number in the second place."""
    return add(self, other, alpha=alpha)
