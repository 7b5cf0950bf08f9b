"""Layers that normalise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch.generated import functions as _ops
from ...runtime.scalar_type import int64
from .. import functional as F
from .. import init
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


class _Affine(Module):
    """A weight of ones and a bias of zeros, or neither, or the weight alone."""

    def _register_affine(
        self,
        sizes: int | Sequence[int],
        weight: bool,
        bias: bool,
        device: DeviceLike,
        dtype: ScalarType | None,
    ) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            made = Parameter(_ops.empty(sizes, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)

    def _reset_affine(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


def _sizes(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(_Affine):
    """Each sample less its mean, over its deviation (`torch.nn.LayerNorm`; Ba, Kiros and Hinton, 2016).

    Args:
        normalized_shape: the last dimensions' sizes.
        eps: what is added to the variance.
        elementwise_affine, bias: whether there are a weight and a bias.

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
        """A weight of ones, a bias of zeros."""
        self._reset_affine()

    def forward(self, input: Tensor) -> Tensor:
        """As many elements as the input."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


class RMSNorm(_Affine):
    """Each sample over the root of its squares' mean (`torch.nn.RMSNorm`; Zhang and Sennrich, 2019).

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
        """A weight of ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """As many elements as the input."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class _Channels(_Affine):
    """Normalisation of channels, with running statistics on request."""

    ranks: tuple[int, ...]
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: DeviceLike,
        dtype: ScalarType | None,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._register_affine(num_features, affine, affine and bias, device, dtype)
        if track_running_stats:
            self.register_buffer("running_mean", _ops.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", _ops.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", _ops.zeros((), dtype=int64, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """A running mean of zeros and a running variance of ones."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """The statistics, a weight of ones, a bias of zeros."""
        self.reset_running_stats()
        self._reset_affine()

    def _check_rank(self, input: Tensor) -> None:
        if input.dim() not in self.ranks:
            wanted = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        key = prefix + "num_batches_tracked"
        if local_metadata.get("version", 1) < 2 and self.track_running_stats and key not in state_dict:
            # The first version did not count.
            state_dict[key] = _ops.zeros((), dtype=int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Channels):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *); while training the running statistics are brought on by `momentum`, None for their mean."""
        self._check_rank(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or self.running_mean is None
        keeps = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keeps else None,
            self.running_var if keeps else None,
            self.weight,
            self.bias,
            by_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Each channel of (N, C) or (N, C, L) less its mean, over its deviation (`torch.nn.BatchNorm1d`)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of (N, C, H, W) less its mean, over its deviation (`torch.nn.BatchNorm2d`; Ioffe and Szegedy, 2015).

    Args:
        num_features: channels.
        eps: what is added to the variance.
        momentum: how much of a batch the running statistics take on; None for the mean of all batches.
        affine, bias: whether there are a weight and a bias.
        track_running_stats: whether there are running statistics, which stand for the batch's outside training.

    Raises:
        ValueError: for an input of other dimensions.

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.BatchNorm2d(3)
        >>> layer(tt.randn(2, 3, 4, 4)).shape, layer.num_batches_tracked.item()
        (triten.Size([2, 3, 4, 4]), 1)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Each channel of (N, C, D, H, W) less its mean, over its deviation (`torch.nn.BatchNorm3d`)."""

    ranks = (5,)


class _InstanceNorm(_Channels):
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

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *), or (C, *) without a batch."""
        self._check_rank(input)
        alone = input.dim() == self.ranks[0]
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
    """Each channel of each sample less its mean, over its deviation, along lines (`torch.nn.InstanceNorm1d`)."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each sample less its mean, over its deviation, over planes (`torch.nn.InstanceNorm2d`)."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each sample less its mean, over its deviation, over volumes (`torch.nn.InstanceNorm3d`)."""

    ranks = (4, 5)


class GroupNorm(_Affine):
    """Groups of channels of each sample less their mean, over their deviation (`torch.nn.GroupNorm`; Wu and He, 2018).

    Raises ValueError unless the groups divide the channels.

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
        """A weight of ones, a bias of zeros."""
        self._reset_affine()

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *) as it is."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"


class LocalResponseNorm(Module):
    """Each element over a power of the squares of nearby channels (`torch.nn.LocalResponseNorm`; Krizhevsky, 2012)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """As many elements as the input."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
