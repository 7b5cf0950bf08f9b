"""Formulas of pointwise operators."""

from __future__ import annotations

from typing import Any

from ...generated import functions as ops


def scaled(grad: Any, alpha: Any) -> Any:
    """grad * alpha."""
    return grad if alpha == 1 else grad * alpha


def threshold_backward(grad: Any, result: Any, threshold: Any = 0) -> Any:
    """grad where the result exceeds the threshold, else zero."""
    return ops.threshold_backward(grad, result, threshold)
