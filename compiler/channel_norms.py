"""Batch norms by running statistics: a scale and a shift of each channel, which an epilogue may apply.

The step has three results, of which only the first has elements.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Node
from ..runtime.memory_format import channels_last_strides
from ..runtime.tensor_spec import TensorSpec
from .fused_step import FusedStep
from .pointwise import bound_arguments

if TYPE_CHECKING:
    from .triton.pointwise import ElementWriter

OPERATOR = "aten::_native_batch_norm_legit_no_training"


def is_channels_last(spec: TensorSpec) -> bool:
    """Return True for a dense channels-last tensor of 4 or 5 dimensions that is not also contiguous."""
    if spec.ndim not in (4, 5) or spec.is_contiguous:
        return False
    return bool(spec.strides == channels_last_strides(spec.sizes))


@dataclass(frozen=True)
class ChannelNormCall(FusedStep):
    """Batch norm by running statistics.

    Attributes:
        node: The step, which has three results.
        input, mean, variance: The nodes of the normalized tensor and of the statistics.
        weight, bias: The nodes of the scale and the shift after it, or None.
        eps: Constant added to the variance.
    """

    node: Node
    input: Node
    weight: Node | None
    bias: Node | None
    mean: Node
    variance: Node
    eps: float

    @property
    def of_channels(self) -> list[Node]:
        """The operands that have a number for each channel."""
        return [node for node in (self.mean, self.variance, self.weight, self.bias) if node is not None]

    @property
    def operands(self) -> list[Any]:
        """All operands."""
        return [self.input, *self.of_channels]

    def operand_spec(self, node: Node) -> TensorSpec:
        """Return an operand's broadcast spec. A per-channel operand lies along the second dimension."""
        spec: TensorSpec = node.val
        if node is self.input:
            return spec
        behind = self.input.val.ndim - 2
        return spec.replace(sizes=(*spec.sizes, *[1] * behind), strides=(*spec.strides, *[0] * behind))

    def read_spec(self, operand: Node) -> TensorSpec | None:
        """Return the broadcast spec of a per-channel operand."""
        return None if operand is self.input else self.operand_spec(operand)

    def write_elements(self, writer: ElementWriter) -> dict[Node, str]:
        """Add the step to a pointwise CUDA kernel."""
        from .triton.channel_norms import normalised_elements

        return normalised_elements(self, writer)


def channel_norm_call(node: Node) -> ChannelNormCall | None:
    """Return the batch norm whose first result a step takes, if no other result is read; else None."""
    made = node.args[0] if node.target is operator.getitem and node.args[1] == 0 else None
    if not isinstance(made, Node) or not isinstance(made.target, OpOverload):
        return None
    if made.target._entry.name != OPERATOR or list(made.users) != [node]:
        return None
    source, weight, bias, mean, variance, _, eps = bound_arguments(made)
    tensors = [each for each in (source, weight, bias, mean, variance) if each is not None]
    if not all(isinstance(each, Node) and isinstance(each.val, TensorSpec) for each in tensors):
        return None
    orders = [(each.val.is_contiguous, is_channels_last(each.val)) for each in (source, node)]
    if isinstance(eps, Node) or orders[0] != orders[1] or not any(orders[0]):
        return None
    if (
        any(each.val.device is not source.val.device for each in tensors)
        or node.val.dtype is not source.val.dtype
    ):
        return None
    floats = all(each.val.dtype.is_floating_point and each.val.itemsize > 1 for each in tensors)
    return ChannelNormCall(made, source, weight, bias, mean, variance, float(eps)) if floats else None
