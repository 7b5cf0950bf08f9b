"""Fused loss: a linear layer followed by cross entropy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import functional as F
from .linear import Linear
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["LinearCrossEntropyLoss"]


class LinearCrossEntropyLoss(Module):
    """`CrossEntropyLoss` of `Linear` (`torch.nn.LinearCrossEntropyLoss`): the last layer of a classifier with its loss.

    Args:
        in_features: the inputs' size.
        num_classes: The number of classes.
        out_features: further dimensions of the targets.
        bias: If True, the layer has a bias. Default: False.
        device, dtype: The device and dtype of the parameters.
        reduction, ignore_index, label_smoothing: as of `CrossEntropyLoss`.
        weight: The weights of the classes.
        options: PyTorch's chunking options; ignored with a warning.

    Raises:
        RuntimeError: a weight of another shape, or a smoothing that is no share.

    Example:
        >>> import triten as tt
        >>> loss = tt.nn.LinearCrossEntropyLoss(3, 2)
        >>> loss(tt.zeros(1, 3), tt.tensor([0]))
        tensor(0.6931, grad_fn=<NllLossForwardBackward0>)
    """

    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: object = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__()
        self.reduction = reduction
        self.register_buffer("weight", weight)
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        rows = math.prod(self.out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """(N, in_features) or (in_features), and classes or their probabilities."""
        sizes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*sizes, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(sizes),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
