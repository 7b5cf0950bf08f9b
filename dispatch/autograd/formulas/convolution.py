"""Formulas of convolutions and pooling."""

from __future__ import annotations

from typing import Any

from ...generated import functions as ops


def convolution_of(input: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """The forward convolution, without bias."""
    return ops.convolution(input, weight, None, stride, padding, dilation, False, (0, 0), groups)
