"""Normalization layers: over features, groups of channels, and neighboring channels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...dispatch.generated import functions as _ops
from .. import functional as F
from .. import init
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType
from .affine import _Affine

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def _sizes(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if not isinstance(normalized_shape, Iterable) else tuple(normalized_shape)


class LayerNorm(_Affine):
    """Layer normalization over the last dimensions (`torch.nn.LayerNorm`; Ba, Kiros and Hinton, 2016).

        (x - mean) / sqrt(var + eps) * weight + bias

    The mean and the biased variance are taken over the dimensions of `normalized_shape`, in training and evaluation
    alike.

    Args:
        normalized_shape: The sizes of the last dimensions, a tuple; an int for the last dimension alone.
        eps: A number added to the variance, for numerical stability. Default: 1e-5.
        elementwise_affine: If True, there is a learnable weight of each element. Default: True.
        bias: If True and `elementwise_affine` is True, there is a learnable bias of each element. Default: True.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (N, *normalized_shape), with any number of leading dimensions.
        output: The shape of the input.

    Attributes:
        weight: A parameter of shape `normalized_shape`, which begins with ones, or None.
        bias: A parameter of shape `normalized_shape`, which begins with zeros, or None.

    Example:
        >>> import triten as tt
        >>> tt.nn.LayerNorm(2)(tt.tensor([[1.0, 3.0]])).round().tolist()
        [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._register_affine(
            self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the weight to ones and the bias to zeros."""
        self._reset_affine()

    def forward(self, input: Tensor) -> Tensor:
        """Normalize `input` over the last dimensions, `normalized_shape`."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


class RMSNorm(_Affine):
    """Root mean square normalization (`torch.nn.RMSNorm`; Zhang and Sennrich, 2019).

        x / sqrt(mean(x^2) + eps) * weight

    Args:
        normalized_shape: The sizes of the last dimensions, a tuple; an int for the last dimension alone.
        eps: A number added to the mean square. Default: None, the machine epsilon of the input's dtype.
        elementwise_affine: If True, there is a learnable weight of each element. Default: True.
        device, dtype: The device and dtype of the parameters.

    Shape:
        input: (N, *normalized_shape), with any number of leading dimensions.
        output: The shape of the input.

    Attributes:
        weight: A parameter of shape `normalized_shape`, which begins with ones, or None.

    Example:
        >>> import triten as tt
        >>> tt.nn.RMSNorm(2)(tt.tensor([[2.0, -2.0]])).round().tolist()
        [[1.0, -1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        made = _ops.empty(self.normalized_shape, device=device, dtype=dtype) if elementwise_affine else None
        self.register_parameter("weight", None if made is None else Parameter(made))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Divide `input` by its root mean square over the last dimensions, `normalized_shape`."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Group normalization: groups of channels of each sample (`torch.nn.GroupNorm`; Wu and He, 2018).

        (x - mean) / sqrt(var + eps) * weight + bias

    The mean and the biased variance are those of a group of C / num_groups channels.

    Args:
        num_groups: The number of groups.
        num_channels: The number of channels C, a multiple of `num_groups`.
        eps: A number added to the variance, for numerical stability. Default: 1e-5.
        affine: If True, there is a learnable weight of each channel. Default: True.
        device, dtype: The device and dtype of the parameters.
        bias: If True and `affine` is True, there is a learnable bias of each channel. Default: True.

    Shape:
        input: (N, C, *).
        output: The shape of the input.

    Raises:
        ValueError: `num_groups` does not divide `num_channels`.

    Example:
        >>> import triten as tt
        >>> tt.nn.GroupNorm(2, 4)(tt.randn(3, 4, 5)).shape
        triten.Size([3, 4, 5])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._register_affine(num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the weight to ones and the bias to zeros."""
        self._reset_affine()

    def forward(self, input: Tensor) -> Tensor:
        """Normalize an input (N, C, *)."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"


class CrossMapLRN2d(Module):
    """Local response normalization of images over nearby channels, as Torch7 had it (`torch.nn.CrossMapLRN2d`).

    The divisor of channel c is (k + alpha / size * sum of squares) ** beta. The sum is over channel 0 and channels
    c - p + 1 to c + p - 1, with p = (size - 1) // 2 + 1. PyTorch keeps channel 0 in all sums too.

    Args:
        size: The number of channels in a sum.
        alpha: The factor of the sum. Default: 1e-4.
        beta: The exponent. Default: 0.75.
        k: The term that is added. Default: 1.

    Shape:
        Input and output (N, C, H, W).

    Raises:
        ValueError: The input has not four dimensions.

    Example:
        >>> import triten as tt
        >>> tt.nn.CrossMapLRN2d(2, alpha=2.0, beta=1.0)(tt.ones(1, 3, 1, 1)).flatten()
        tensor([0.5000, 0.3333, 0.3333])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Normalize each element of images (N, C, H, W).

        Raises:
            ValueError: The input does not have four dimensions.
        """
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = (self.size - 1) // 2 + 1
        channels = _ops.arange(input.shape[1], device=input.device)
        offsets = channels - channels[:, None]
        band = (offsets < reach) & ((offsets > -reach) | (channels == 0))
        sums = _ops.matmul(band.to(input.dtype), input.square().flatten(2)).reshape(input.shape)
        return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(Module):
    """Local response normalization over neighboring channels (`torch.nn.LocalResponseNorm`; Krizhevsky, 2012).

        out[c] = x[c] * (k + alpha / size * sum_i x[i]^2) ** (-beta), for the `size` channels i around c

    Args:
        size: The number of neighboring channels.
        alpha: The factor of the sum of squares. Default: 1e-4.
        beta: The exponent. Default: 0.75.
        k: A number added to the sum. Default: 1.

    Shape:
        input: (N, C, *).
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.LocalResponseNorm(2)(tt.ones(1, 4, 3)).shape
        triten.Size([1, 4, 3])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Normalize each element over `size` neighboring channels."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
