"""Node of a convolution that a mode or a subclass sees: its backward is one `convolution_backward`, as in PyTorch.

The node of a convolution that only this package sees saves less: an operand only if the other one's gradient needs it.
"""

from __future__ import annotations

from typing import Any

from ..generated.functions import conj_physical, convolution_backward
from .node import FREED, Node, unpack
from .recorder import recorded


class ConvolutionBackward0(Node):
    """Backward of `convolution` as one operator."""

    __slots__ = (
        "bias_spec",
        "dilation",
        "groups",
        "input",
        "input_version",
        "output_padding",
        "padding",
        "stride",
        "transposed",
        "weight",
        "weight_version",
    )

    bias_spec: Any
    dilation: Any
    groups: Any
    input: Any
    input_version: Any
    output_padding: Any
    padding: Any
    stride: Any
    transposed: Any
    weight: Any
    weight_version: Any

    def backward(self, grad: Any) -> Any:
        return convolution_backward(
            grad,
            _conjugated(unpack(self, self.input, self.input_version)),
            _conjugated(unpack(self, self.weight, self.weight_version)),
            [0] if self.bias_spec is None else list(self.bias_spec.sizes),
            self.stride,
            self.padding,
            self.dilation,
            self.transposed,
            self.output_padding,
            self.groups,
            [edge is not None for edge in self.next_edges],
        )

    def release(self) -> None:
        self.input = self.weight = FREED


def _conjugated(x: Any) -> Any:
    return conj_physical(x) if x._spec.dtype.is_complex else x


plan_convolution = recorded(
    ConvolutionBackward0,
    inputs="input weight bias",
    saves={"input": "input weight bias", "weight": "input weight bias"},
    specs="bias",
    statics="stride padding dilation transposed output_padding groups",
)
