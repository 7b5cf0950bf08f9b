"""Activations with PyTorch's Python signatures; `functional` re-exports them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..dispatch.core.tensor_function import numpy_named, overridable
from ..dispatch.generated import functions as _ops

if TYPE_CHECKING:
    from ..dispatch.tensor import Tensor

__all__ = [
    "celu",
    "elu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu6",
    "rrelu",
    "selu",
    "silu",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
]


@overridable
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Replace elements that are not above the threshold with `value` (`torch.nn.functional.threshold`).

    Args:
        input: A tensor of real numbers.
        threshold: The number that elements have to be above in order to stay.
        value: The number that stands for the others.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.threshold(tt.tensor([-1.0, 2.0]), 0.5, 9.0)
        tensor([9., 2.])
    """
    return (_ops.threshold_ if inplace else _ops.threshold)(input, threshold, value)


@overridable
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Apply `leaky_relu` with a random slope for each element in training (`torch.nn.functional.rrelu`).

    Args:
        input: A floating tensor of any shape.
        lower: The smallest slope.
        upper: The largest slope.
        training: If True, slopes are drawn uniformly between the two; otherwise their mean is the slope. Default:
            False.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    References:
        Xu et al., Empirical evaluation of rectified activations in convolution network (2015).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.rrelu(tt.tensor([-2.0, 3.0]), 0.25, 0.75)
        tensor([-1.,  3.])
    """
    return (_ops.rrelu_ if inplace else _ops.rrelu)(input, lower, upper, training)


@overridable
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Compute `input` where it is positive, else `negative_slope * input` (`torch.nn.functional.leaky_relu`).

    Args:
        input: A floating tensor of any shape.
        negative_slope: The factor of negative elements.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.leaky_relu(tt.tensor([-2.0, 3.0]), 0.5)
        tensor([-1.,  3.])
    """
    return (_ops.leaky_relu_ if inplace else _ops.leaky_relu)(input, negative_slope)


@overridable
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Compute `input * sigmoid(input)` (`torch.nn.functional.silu`).

    Args:
        input: A floating tensor of any shape.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.silu(tt.tensor([0.0]))
        tensor([0.])
    """
    return (_ops.silu_ if inplace else _ops.silu)(input)


@overridable
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Compute `input` where it is positive, else alpha * (exp(input) - 1) (`torch.nn.functional.elu`).

    Args:
        input: A floating tensor of any shape.
        alpha: The limit for small elements is -alpha.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    References:
        Clevert et al., Fast and accurate deep network learning by exponential linear units (2016).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.elu(tt.tensor([-100.0, 2.0]))
        tensor([-1.,  2.])
    """
    return (_ops.elu_ if inplace else _ops.elu)(input, alpha)


@overridable
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply `elu` with constants that preserve mean and variance through layers (`torch.nn.functional.selu`).

    Args:
        input: A floating tensor of any shape.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    References:
        Klambauer et al., Self-normalizing neural networks (2017).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.selu(tt.tensor([1.0]))
        tensor([1.0507])
    """
    return (_ops.selu_ if inplace else _ops.selu)(input)


@overridable
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Compute max(0, input) + min(0, alpha * (exp(input / alpha) - 1)) (`torch.nn.functional.celu`).

    Args:
        input: A floating tensor of any shape.
        alpha: The limit for small elements is -alpha.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Raises:
        RuntimeError: `alpha` is 0.

    References:
        Barron, Continuously differentiable exponential linear units (2017).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.celu(tt.tensor([-100.0, 2.0]), 2.0)
        tensor([-2.,  2.])
    """
    return (_ops.celu_ if inplace else _ops.celu)(input, alpha)


@overridable
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Clamp `input` to [`min_val`, `max_val`] (`torch.nn.functional.hardtanh`).

    Args:
        input: A tensor of real numbers.
        min_val: The lower end.
        max_val: The upper end.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Raises:
        ValueError: `min_val` is above `max_val`.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.hardtanh(tt.tensor([-3.0, 0.5]))
        tensor([-1.0000,  0.5000])
    """
    return (_ops.hardtanh_ if inplace else _ops.hardtanh)(input, min_val, max_val)


@overridable
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Compute min(max(0, input), 6) (`torch.nn.functional.relu6`).

    Args:
        input: A tensor of real numbers.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.relu6(tt.tensor([-1.0, 8.0]))
        tensor([0., 6.])
    """
    return (_ops.relu6_ if inplace else _ops.relu6)(input)


@overridable
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Compute input * relu6(input + 3) / 6 (`torch.nn.functional.hardswish`).

    Args:
        input: A floating tensor of any shape.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    References:
        Howard et al., Searching for MobileNetV3 (2019).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.hardswish(tt.tensor([-4.0, 3.0]))
        tensor([-0.,  3.])
    """
    return (_ops.hardswish_ if inplace else _ops.hardswish)(input)


@overridable
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Compute relu6(input + 3) / 6 (`torch.nn.functional.hardsigmoid`).

    Args:
        input: A floating tensor of any shape.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.hardsigmoid(tt.tensor([0.0, 3.0]))
        tensor([0.5000, 1.0000])
    """
    return (_ops.hardsigmoid_ if inplace else _ops.hardsigmoid)(input)


@numpy_named
@overridable
def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Set elements in [-lambd, lambd] to 0 and keep the others (`torch.nn.functional.hardshrink`).

    Args:
        input: A floating tensor of any shape.
        lambd: The bound.
        out: The output tensor. Default: a new tensor.

    Returns:
        A tensor of `input`'s shape and dtype.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.hardshrink(tt.tensor([0.4, 2.0]))
        tensor([0., 2.])
    """
    return _ops.hardshrink(input, lambd, out=out)  # type: ignore[arg-type]


@numpy_named
@overridable
def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Shrink each element toward zero by `lambd`, at most to zero (`torch.nn.functional.softshrink`).

    Args:
        input: A floating tensor of any shape.
        lambd: The distance, finite and at least 0.
        out: The output tensor. Default: a new tensor.

    Returns:
        A tensor of `input`'s shape and dtype.

    Raises:
        RuntimeError: `lambd` is negative, infinite or NaN.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.softshrink(tt.tensor([0.4, 2.0]))
        tensor([0.0000, 1.5000])
    """
    if isinstance(lambd, int | float) and not 0 <= lambd < math.inf:
        raise RuntimeError(f"softshrink(): lambda must be finite and at least 0, but found {lambd:g}")
    return _ops.softshrink(input, lambd, out=out)  # type: ignore[arg-type]


@overridable
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Compute input * tanh(softplus(input)) (`torch.nn.functional.mish`).

    Args:
        input: A floating tensor of any shape.
        inplace: If True, write the result to `input` in-place. Default: False.

    Returns:
        A tensor of `input`'s shape and dtype; `input` itself if `inplace`.

    References:
        Misra, Mish: a self regularized non-monotonic activation function (2019).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.mish(tt.tensor([0.0, 30.0]))
        tensor([ 0., 30.])
    """
    return (_ops.mish_ if inplace else _ops.mish)(input)


@numpy_named
@overridable
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Compute log(sigmoid(input)), accurate where the sigmoid underflows (`torch.nn.functional.logsigmoid`).

    Args:
        input: A floating tensor of any shape.
        out: The output tensor. Default: a new tensor.

    Returns:
        A tensor of `input`'s shape and dtype.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.logsigmoid(tt.tensor([-200.0]))
        tensor([-200.])
    """
    return _ops.log_sigmoid(input, out=out)  # type: ignore[arg-type]


@overridable
def softsign(input: Tensor) -> Tensor:
    """Compute input / (1 + |input|) (`torch.nn.functional.softsign`).

    Args:
        input: A tensor of any shape.

    Returns:
        A tensor of `input`'s shape, of a floating dtype.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.softsign(tt.tensor([3.0]))
        tensor([0.7500])
    """
    return _ops.div(input, _ops.add(_ops.abs(input), 1))


@overridable
def tanhshrink(input: Tensor) -> Tensor:
    """Compute input - tanh(input) (`torch.nn.functional.tanhshrink`).

    Args:
        input: A tensor of any shape.

    Returns:
        A tensor of `input`'s shape, of a floating dtype.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.tanhshrink(tt.tensor([0.0]))
        tensor([0.])
    """
    return _ops.sub(input, _ops.tanh(input))


@overridable
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Multiply the first half of `dim` by the sigmoid of the second half (`torch.nn.functional.glu`).

    Args:
        input: A floating tensor of any shape.
        dim: The dimension, of an even size.

    Returns:
        A tensor of `input`'s shape with `dim` halved.

    Raises:
        RuntimeError: The size of `dim` is odd.

    References:
        Dauphin et al., Language modeling with gated convolutional networks (2017).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.glu(tt.tensor([2.0, 0.0]))
        tensor([1.])
    """
    return _ops.glu(input, dim)


@numpy_named
@overridable
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Compute `input` where it is positive, else `weight * input` (`torch.nn.functional.prelu`).

    Args:
        input: A tensor of shape (N, C, ...), or of any shape with a single weight.
        weight: A vector of C weights or of one, of `input`'s dtype.

    Returns:
        A tensor of `input`'s shape and dtype.

    Raises:
        RuntimeError: The weights are neither one nor one for each channel.

    References:
        He et al., Delving deep into rectifiers (2015).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.prelu(tt.tensor([-4.0, 2.0]), tt.tensor([0.25]))
        tensor([-1.,  2.])
    """
    return _ops.prelu(input, weight)
