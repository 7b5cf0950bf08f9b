"""Linear and bilinear layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...dispatch.generated import functions as _ops
from .. import functional as F
from .. import init
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["Bilinear", "Identity", "Linear", "NonDynamicallyQuantizableLinear"]


class Identity(Module):
    """Identity: returns its input, and ignores its constructor's arguments (`torch.nn.Identity`).

    Example:
        >>> import triten as tt
        >>> tt.nn.Identity(54, unused=True)(tt.ones(2)).tolist()
        [1.0, 1.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`."""
        return input


class Linear(Module):
    """Linear layer: an affine map of the last dimension (`torch.nn.Linear`).

        x @ weight.T + bias

    Args:
        in_features: The size of the input's last dimension.
        out_features: The size of the output's last dimension.
        bias: If True, add a learnable bias. Default: True.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (*, in_features), with any number of leading dimensions, also none.
        output: (*, out_features).

    Attributes:
        weight: A parameter of shape (out_features, in_features), initialized uniformly within ±1 /
            sqrt(in_features).
        bias: A parameter of shape (out_features,), initialized like `weight`; None if `bias` is False.

    Example:
        >>> import triten as tt
        >>> tt.nn.Linear(20, 30)(tt.randn(128, 20)).shape
        triten.Size([128, 30])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(_ops.empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the weight and bias uniformly in ±1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Map (*, in_features) to (*, out_features)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        kind = type(self.weight)
        own = f", weight={kind.__name__}" if hasattr(kind, "__tensor_dispatch__") else ""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}{own}"


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` by the name that it has inside attention (`torch.nn.modules.linear.NonDynamicallyQuantizableLinear`)."""


class Bilinear(Module):
    """Bilinear layer: a bilinear map of two inputs' last dimensions (`torch.nn.Bilinear`).

        out[k] = sum_ij input1[i] * weight[k, i, j] * input2[j] + bias[k]

    Args:
        in1_features, in2_features: The sizes of the inputs' last dimensions.
        out_features: The size of the output's last dimension.
        bias: If True, add a learnable bias. Default: True.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input1: (*, in1_features).
        input2: (*, in2_features), with the same leading dimensions.
        output: (*, out_features).

    Attributes:
        weight: A parameter of shape (out_features, in1_features, in2_features), initialized uniformly within ±1 /
            sqrt(in1_features).
        bias: A parameter of shape (out_features,), initialized like `weight`; None if `bias` is False.

    Raises:
        ValueError: `in1_features` is not positive.

    Example:
        >>> import triten as tt
        >>> tt.nn.Bilinear(20, 30, 40)(tt.randn(128, 20), tt.randn(128, 30)).shape
        triten.Size([128, 40])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        sizes = (out_features, in1_features, in2_features)
        self.weight = Parameter(_ops.empty(sizes, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the weight and bias uniformly in ±1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Map (*, in1_features) and (*, in2_features) to (*, out_features)."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
