"""Fused loss: a linear layer followed by cross entropy."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...runtime.scalar_type import bfloat16, float16, float32, float64
from .. import functional as F
from .linear import Linear
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Options of PyTorch's chunked linear cross entropy (`torch.nn.LinearCrossEntropyOptions`).

    They are checked, and change nothing: the logits are computed at once here.

    Args:
        allow_retain_graph: If True, a second backward is possible. Default: False.
        batch_chunk_size: The rows of a chunk; None means all. Default: None.
        chunking_method: "auto", "aspect_ratio", "aspect_ratio:N" or None. Default: "auto".
        acc_policy: "auto", "accurate", "balanced" or "compact". Default: "auto".
        acc_dtype: The dtype of sums: float16, bfloat16, float32, float64, or None. Default: None.

    Raises:
        ValueError: A value is not one of these.

    Example:
        >>> import triten as tt
        >>> tt.nn.LinearCrossEntropyOptions(batch_chunk_size=8).acc_policy
        'auto'
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: ScalarType | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        method = self.chunking_method
        if method not in (None, "auto") and not re.fullmatch("aspect_ratio(:0*[1-9][0-9]*)?", str(method)):
            raise ValueError(f"invalid chunking_method: {method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, float16, bfloat16, float32, float64):
            raise ValueError(
                f"acc_dtype must be float16, bfloat16, float32, float64 or None, got {self.acc_dtype!r}"
            )


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
