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
        """(N, C, *), or (C, *) without a batch."""
        self._check_input_dim(input)
        self._check_num_features(input)
        alone = input.dim() == self._get_no_batch_dim()
        batch = input.unsqueeze(0) if alone else input
        out = F.instance_norm(
            batch,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if alone else out


class InstanceNorm1d(_InstanceNorm):
    """1D instance normalization (`torch.nn.InstanceNorm1d`)."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """2D instance normalization (`torch.nn.InstanceNorm2d`)."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """3D instance normalization (`torch.nn.InstanceNorm3d`)."""

    ranks = (4, 5)
