"""Instance normalization."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from .. import functional as F

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType
from .batchnorm import _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def _get_no_batch_dim(self) -> int:
        return self.ranks[0]

    def _check_num_features(self, input: Tensor) -> None:
        """Raise ValueError, or warn without affine parameters, unless the channels number `num_features`."""
        dim = input.dim() - self._get_no_batch_dim()
        channels = input.size(dim)
        if channels == self.num_features:
            return
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: {channels}."
            )
        warnings.warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing in "
            "num_features, which is not used because affine=False",
            stacklevel=3,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Normalize an input (N, C, *) or (C, *)."""
        self._check_input_dim(input)
        self._check_num_features(input)
        if input.dim() == self._get_no_batch_dim():
            return self._handle_no_batch_input(input)
        return self._apply_instance_norm(input)

    def _handle_no_batch_input(self, input: Tensor) -> Tensor:
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        """Normalize an input (N, C, *) whose sizes are checked."""
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm):
    """1D instance normalization: each channel of each sample by itself (`torch.nn.InstanceNorm1d`; Ulyanov et al.,
        2016).

        (x - mean) / sqrt(var + eps) * weight + bias

    Args:
        num_features: The number of channels C.
        eps: A number added to the variance, for numerical stability. Default: 1e-5.
        momentum: The weight of a batch in the running statistics. Default: 0.1.
        affine: If True, there is a learnable weight of each channel. Default: False.
        track_running_stats: If True, keep running statistics, which evaluation uses. Default: False.
        device, dtype: The device and dtype of the parameters.
        bias: If True and `affine` is True, there is a learnable bias of each channel. Default: True.

    Shape:
        input: (N, C, L) or (C, L).
        output: The shape of the input.

    Raises:
        ValueError: The input has another number of dimensions.

    Example:
        >>> import triten as tt
        >>> tt.nn.InstanceNorm1d(2)(tt.randn(3, 2, 5)).shape
        triten.Size([3, 2, 5])
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """2D instance normalization: each channel of each sample by itself (`torch.nn.InstanceNorm2d`; Ulyanov et al.,
        2016).

        (x - mean) / sqrt(var + eps) * weight + bias

    Args:
        num_features: The number of channels C.
        eps: A number added to the variance, for numerical stability. Default: 1e-5.
        momentum: The weight of a batch in the running statistics. Default: 0.1.
        affine: If True, there is a learnable weight of each channel. Default: False.
        track_running_stats: If True, keep running statistics, which evaluation uses. Default: False.
        device, dtype: The device and dtype of the parameters.
        bias: If True and `affine` is True, there is a learnable bias of each channel. Default: True.

    Shape:
        input: (N, C, H, W) or (C, H, W).
        output: The shape of the input.

    Raises:
        ValueError: The input has another number of dimensions.

    Example:
        >>> import triten as tt
        >>> tt.nn.InstanceNorm2d(2)(tt.randn(3, 2, 5, 5)).shape
        triten.Size([3, 2, 5, 5])
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """3D instance normalization: each channel of each sample by itself (`torch.nn.InstanceNorm3d`; Ulyanov et al.,
        2016).

        (x - mean) / sqrt(var + eps) * weight + bias

    Args:
        num_features: The number of channels C.
        eps: A number added to the variance, for numerical stability. Default: 1e-5.
        momentum: The weight of a batch in the running statistics. Default: 0.1.
        affine: If True, there is a learnable weight of each channel. Default: False.
        track_running_stats: If True, keep running statistics, which evaluation uses. Default: False.
        device, dtype: The device and dtype of the parameters.
        bias: If True and `affine` is True, there is a learnable bias of each channel. Default: True.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W).
        output: The shape of the input.

    Raises:
        ValueError: The input has another number of dimensions.

    Example:
        >>> import triten as tt
        >>> tt.nn.InstanceNorm3d(2)(tt.randn(3, 2, 1, 5, 5)).shape
        triten.Size([3, 2, 1, 5, 5])
    """

    ranks = (4, 5)
