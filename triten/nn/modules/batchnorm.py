"""Batch normalization, and the base of layers with running statistics of channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...dispatch.generated import functions as _ops
from ...dispatch.tensor_data import tensor
from ...runtime.scalar_type import int64
from .. import functional as F

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType
from .affine import _Affine
from .module import Module

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"]


class _NormBase(_Affine):
    """Base class of channel normalization, optionally with running statistics."""

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
            self.register_buffer("num_batches_tracked", tensor(0, dtype=int64, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running mean to zeros and the running variance to ones."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset the running statistics, the weight to ones and the bias to zeros."""
        self.reset_running_stats()
        self._reset_affine()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self.ranks:
            expected = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

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


class _BatchNorm(_NormBase):
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
        """Normalize an input (N, C, *). In training, update the running statistics by `momentum`; None averages."""
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or self.running_mean is None
        keeps = not self.training or self.track_running_stats
        mean = self.running_mean if keeps else None
        var = self.running_var if keeps else None
        return self._batch_norm(input, mean, var, by_batch, momentum)

    def _batch_norm(
        self, input: Tensor, mean: Tensor | None, var: Tensor | None, by_batch: bool, momentum: float
    ) -> Tensor:
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch normalization of (N, C) or (N, C, L) (`torch.nn.BatchNorm1d`; Ioffe and Szegedy, 2015).

        (x - mean) / sqrt(var + eps) * weight + bias

    The mean and the biased variance of each channel are those of the batch in training. In evaluation they are the
    running statistics, which training updates with the unbiased variance

        running = (1 - momentum) * running + momentum * batch

    Args:
        num_features: The number of channels C.
        eps: A number added to the variance, for numerical stability. Default: 1e-5.
        momentum: The weight of a batch in the running statistics; None for a cumulative average. Default: 0.1.
        affine: If True, there is a learnable weight of each channel. Default: True.
        track_running_stats: If True, keep running statistics. If False, evaluation also uses the batch's. Default:
            True.
        device, dtype: The device and dtype of the parameters.
        bias: If True and `affine` is True, there is a learnable bias of each channel. Default: True.

    Shape:
        input: (N, C) or (N, C, L).
        output: The shape of the input.

    Attributes:
        weight: A parameter of shape (C,), which begins with ones; None if `affine` is False.
        bias: A parameter of shape (C,), which begins with zeros, or None.
        running_mean, running_var: Buffers of shape (C,), which begin with zeros and ones, or None.

    Raises:
        ValueError: The input has another number of dimensions.

    Example:
        >>> import triten as tt
        >>> tt.nn.BatchNorm1d(1, affine=False)(tt.tensor([[1.0], [3.0]])).round().tolist()
        [[-1.0], [1.0]]
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of (N, C, H, W) (`torch.nn.BatchNorm2d`; Ioffe and Szegedy, 2015).

        (x - mean) / sqrt(var + eps) * weight + bias

    The mean and the biased variance of each channel are those of the batch in training. In evaluation they are the
    running statistics, which training updates with the unbiased variance

        running = (1 - momentum) * running + momentum * batch

    Args:
        num_features: The number of channels C.
        eps: A number added to the variance, for numerical stability. Default: 1e-5.
        momentum: The weight of a batch in the running statistics; None for a cumulative average. Default: 0.1.
        affine: If True, there is a learnable weight of each channel. Default: True.
        track_running_stats: If True, keep running statistics. If False, evaluation also uses the batch's. Default:
            True.
        device, dtype: The device and dtype of the parameters.
        bias: If True and `affine` is True, there is a learnable bias of each channel. Default: True.

    Shape:
        input: (N, C, H, W).
        output: The shape of the input.

    Attributes:
        weight: A parameter of shape (C,), which begins with ones; None if `affine` is False.
        bias: A parameter of shape (C,), which begins with zeros, or None.
        running_mean, running_var: Buffers of shape (C,), which begin with zeros and ones, or None.

    Raises:
        ValueError: The input has another number of dimensions.

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.BatchNorm2d(3)
        >>> layer(tt.randn(2, 3, 4, 4)).shape, layer.num_batches_tracked.item()
        (triten.Size([2, 3, 4, 4]), 1)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of (N, C, D, H, W) (`torch.nn.BatchNorm3d`; Ioffe and Szegedy, 2015).

        (x - mean) / sqrt(var + eps) * weight + bias

    The mean and the biased variance of each channel are those of the batch in training. In evaluation they are the
    running statistics, which training updates with the unbiased variance

        running = (1 - momentum) * running + momentum * batch

    Args:
        num_features: The number of channels C.
        eps: A number added to the variance, for numerical stability. Default: 1e-5.
        momentum: The weight of a batch in the running statistics; None for a cumulative average. Default: 0.1.
        affine: If True, there is a learnable weight of each channel. Default: True.
        track_running_stats: If True, keep running statistics. If False, evaluation also uses the batch's. Default:
            True.
        device, dtype: The device and dtype of the parameters.
        bias: If True and `affine` is True, there is a learnable bias of each channel. Default: True.

    Shape:
        input: (N, C, D, H, W).
        output: The shape of the input.

    Attributes:
        weight: A parameter of shape (C,), which begins with ones; None if `affine` is False.
        bias: A parameter of shape (C,), which begins with zeros, or None.
        running_mean, running_var: Buffers of shape (C,), which begin with zeros and ones, or None.

    Raises:
        ValueError: The input has another number of dimensions.

    Example:
        >>> import triten as tt
        >>> tt.nn.BatchNorm3d(3)(tt.randn(2, 3, 1, 4, 4)).shape
        triten.Size([2, 3, 1, 4, 4])
    """

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all processes of a group (`torch.nn.SyncBatchNorm`).

    In training, means and variances are those of all processes' batches, on the CPU, too. With one process, or without
    a process group, it is `BatchNorm1d` to `BatchNorm3d` in one, for any number of dimensions.

    Args:
        num_features, eps, momentum, affine, track_running_stats, bias: as in `BatchNorm2d`.
        process_group: A process group of `tt.distributed`. Default: None, all processes.

    Raises:
        ValueError: for an input of fewer than two dimensions.

    Example:
        >>> import triten as tt
        >>> model = tt.nn.Sequential(tt.nn.Conv2d(3, 4, 1), tt.nn.BatchNorm2d(4))
        >>> tt.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1].__class__.__name__
        'SyncBatchNorm'
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: object = None,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _batch_norm(
        self, input: Tensor, mean: Tensor | None, var: Tensor | None, by_batch: bool, momentum: float
    ) -> Tensor:
        if by_batch and self.training:
            from ...distributed.process_group import GroupMember

            group: Any = self.process_group or GroupMember.WORLD
            if group is not None and group.size() > 1:
                from .sync_batch_norm import SyncBatchNormFunction

                out: Tensor = SyncBatchNormFunction.apply(
                    input, self.weight, self.bias, mean, var, self.eps, momentum, group
                )
                return out
        return super()._batch_norm(input, mean, var, by_batch, momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: object = None) -> Module:
        """Replace each batch norm of a module by a `SyncBatchNorm` with the same parameters and buffers."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name, parameter in module._parameters.items():
                converted.register_parameter(name, parameter)
            for name, buffer in module._buffers.items():
                converted.register_buffer(name, buffer)
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Have the batch norms in a module normalize by their batches alone (`torch.func.replace_all_batch_norm_modules_`).

    Their running statistics go, so that `tt.func.vmap` may map over calls of the module.

    Args:
        root: the module, which is changed.

    Returns:
        The module.

    Example:
        >>> import triten as tt
        >>> net = tt.func.replace_all_batch_norm_modules_(tt.nn.Sequential(tt.nn.BatchNorm1d(2)))
        >>> net[0].running_mean is None, net[0].track_running_stats
        (True, False)
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root
