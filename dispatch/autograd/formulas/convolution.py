"""Formulas of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...generated import functions as ops


def convolution_of(
    input: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int, sizes: Sequence[int]
) -> Any:
    """The forward convolution, without bias, cut to `sizes`: a transposed one may lack the last positions."""
    none = (0,) * len(stride)
    out = ops.convolution(input, weight, None, stride, padding, dilation, False, none, groups)
    for dim in range(2, len(sizes)):
        if out.shape[dim] != sizes[dim]:
            out = out.slice(dim, 0, sizes[dim])
    return out


def convolution_bias_backward(grad: Any) -> Any:
    """The sum over everything but channels."""
    return grad.sum((0, *range(2, grad.ndim)))
