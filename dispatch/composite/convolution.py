"""Convolutions as users call them, over the one `convolution` operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..generated.functions import convolution


def conv2d(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    """`torch.nn.functional.conv2d`; an input without batch dimension gets one for the call."""
    if input._spec.ndim == 3:
        batched = convolution(
            input.unsqueeze(0), weight, bias, stride, padding, dilation, False, (0, 0), groups
        )
        return batched.squeeze(0)
    return convolution(input, weight, bias, stride, padding, dilation, False, (0, 0), groups)
