"""Batch normalization folded into the layer before it, for inference (`torch.nn.utils.fusion`)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, TypeVar

from ...dispatch.generated import functions as _ops
from ..modules.module import Module
from ..modules.parameter import Parameter

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

Layer = TypeVar("Layer", bound=Module)

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _folded(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    dim: int,
) -> tuple[Parameter, Parameter]:
    """Fold batch normalization into a layer: return its new weight and bias. Output channels are dimension `dim`."""
    dtypes = weight.dtype, weight.dtype if bias is None else bias.dtype
    requires_grads = weight.requires_grad, bias is not None and bias.requires_grad
    factor = _ops.rsqrt(variance + eps) * (1 if scale is None else scale)
    centered = -mean if bias is None else bias - mean
    fused_bias = centered * factor + (0 if shift is None else shift)
    sizes = [-1 if d == dim else 1 for d in range(weight.ndim)]
    fused = weight * factor.reshape(sizes).to(weight.dtype)
    made, made_bias = (
        Parameter(each.detach().to(dtype), requires_grad)
        for each, dtype, requires_grad in zip((fused, fused_bias), dtypes, requires_grads, strict=True)
    )
    return made, made_bias


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Fold a batch norm into a convolution's weight and bias (`torch.nn.utils.fuse_conv_bn_weights`).

    Args:
        conv_w, conv_b: The convolution's weight and bias; the bias may be None.
        bn_rm, bn_rv: running mean and variance.
        bn_eps: Added to the variance.
        bn_w, bn_b: scale and shift, or None.
        transpose: If True, the convolution is transposed, its outputs along the second dimension. Default: False.

    Example:
        >>> import triten as tt
        >>> one = tt.ones(1)
        >>> weight, bias = tt.nn.utils.fuse_conv_bn_weights(tt.ones(1, 1, 1), None, one, one * 4, 0.0, None, None)
        >>> weight.item(), bias.item()
        (0.5, -0.5)
    """
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, int(transpose))


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Fold a batch norm into a linear layer's weight and bias (`torch.nn.utils.fuse_linear_bn_weights`).

    The arguments are those of `fuse_conv_bn_weights`.
    """
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fused(layer: Layer, bn: Module, dim: int) -> Layer:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = _folded(
        layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, dim
    )
    return fused


def fuse_conv_bn_eval(conv: Layer, bn: Module, transpose: bool = False) -> Layer:
    """Fuse a convolution and the batch norm after it into one convolution (`torch.nn.utils.fuse_conv_bn_eval`).

    Both modules are in evaluation mode and are not modified.

    Raises:
        AssertionError: A module is in training mode, or the batch norm has no running statistics.

    Example:
        >>> import triten as tt
        >>> conv, norm = tt.nn.Conv1d(2, 3, 1).eval(), tt.nn.BatchNorm1d(3).eval()
        >>> x = tt.randn(1, 2, 4)
        >>> tt.allclose(tt.nn.utils.fuse_conv_bn_eval(conv, norm)(x), norm(conv(x)), atol=1e-6)
        True
    """
    return _fused(conv, bn, int(transpose))


def fuse_linear_bn_eval(linear: Layer, bn: Module) -> Layer:
    """Fuse a linear layer and the batch norm after it into one linear layer (`torch.nn.utils.fuse_linear_bn_eval`).

    The batch norm has as many features as the layer has outputs, or one. See `fuse_conv_bn_eval`.

    Raises:
        AssertionError: The batch norm has another number of features.

    Example:
        >>> import triten as tt
        >>> linear, norm = tt.nn.Linear(2, 3).eval(), tt.nn.BatchNorm1d(3).eval()
        >>> x = tt.randn(4, 2)
        >>> tt.allclose(tt.nn.utils.fuse_linear_bn_eval(linear, norm)(x), norm(linear(x)), atol=1e-6)
        True
    """
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got linear.out_features="
            f"{linear.out_features} and bn.num_features={bn.num_features}"
        )
    return _fused(linear, bn, 0)
