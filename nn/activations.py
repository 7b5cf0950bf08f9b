"""Activations with PyTorch's Python signatures; `functional` re-exports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dispatch.core.tensor_function import overridable
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
    """`value` where the input is not above the threshold (`torch.nn.functional.threshold`).

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
    """`leaky_relu` with a slope drawn for each element while training, else their mean (`torch.nn.functional.rrelu`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.rrelu(tt.tensor([-2.0, 3.0]), 0.25, 0.75)
        tensor([-1.,  3.])
    """
    return (_ops.rrelu_ if inplace else _ops.rrelu)(input, lower, upper, training)


@overridable
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """The input where it is positive, else times `negative_slope` (`torch.nn.functional.leaky_relu`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.leaky_relu(tt.tensor([-2.0, 3.0]), 0.5)
        tensor([-1.,  3.])
    """
    return (_ops.leaky_relu_ if inplace else _ops.leaky_relu)(input, negative_slope)


@overridable
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """The input times its sigmoid (`torch.nn.functional.silu`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.silu(tt.tensor([0.0]))
        tensor([0.])
    """
    return (_ops.silu_ if inplace else _ops.silu)(input)


@overridable
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`input` above zero, alpha * (exp(input) - 1) below (`torch.nn.functional.elu`; Clevert et al., 2016).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.elu(tt.tensor([-100.0, 2.0]))
        tensor([-1.,  2.])
    """
    return (_ops.elu_ if inplace else _ops.elu)(input, alpha)


@overridable
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu` with self-normalising constants (`torch.nn.functional.selu`; Klambauer et al., 2017).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.selu(tt.tensor([1.0]))
        tensor([1.0507])
    """
    return (_ops.selu_ if inplace else _ops.selu)(input)


@overridable
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`elu` of input / alpha, scaled back (`torch.nn.functional.celu`; Barron, 2017).

    Raises RuntimeError for an alpha of 0.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.celu(tt.tensor([-100.0, 2.0]), 2.0)
        tensor([-2.,  2.])
    """
    return (_ops.celu_ if inplace else _ops.celu)(input, alpha)


@overridable
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Held to [min_val, max_val] (`torch.nn.functional.hardtanh`).

    Raises ValueError where `min_val` is above `max_val`.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.hardtanh(tt.tensor([-3.0, 0.5]))
        tensor([-1.0000,  0.5000])
    """
    return (_ops.hardtanh_ if inplace else _ops.hardtanh)(input, min_val, max_val)


@overridable
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(0, input), 6) (`torch.nn.functional.relu6`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.relu6(tt.tensor([-1.0, 8.0]))
        tensor([0., 6.])
    """
    return (_ops.relu6_ if inplace else _ops.relu6)(input)


@overridable
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * relu6(input + 3) / 6 (`torch.nn.functional.hardswish`; Howard et al., 2019).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.hardswish(tt.tensor([-4.0, 3.0]))
        tensor([-0.,  3.])
    """
    return (_ops.hardswish_ if inplace else _ops.hardswish)(input)


@overridable
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(input + 3) / 6 (`torch.nn.functional.hardsigmoid`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.hardsigmoid(tt.tensor([0.0, 3.0]))
        tensor([0.5000, 1.0000])
    """
    return (_ops.hardsigmoid_ if inplace else _ops.hardsigmoid)(input)


@overridable
def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """0 within [-lambd, lambd] (`torch.nn.functional.hardshrink`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.hardshrink(tt.tensor([0.4, 2.0]))
        tensor([0., 2.])
    """
    return _ops.hardshrink(input, lambd, out=out)  # type: ignore[arg-type]


@overridable
def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Nearer to zero by `lambd`, 0 where it is that near (`torch.nn.functional.softshrink`).

    Raises RuntimeError for a negative `lambd`.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.softshrink(tt.tensor([0.4, 2.0]))
        tensor([0.0000, 1.5000])
    """
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd:g}.")
    return _ops.softshrink(input, lambd, out=out)  # type: ignore[arg-type]


@overridable
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * tanh(softplus(input)) (`torch.nn.functional.mish`; Misra, 2019).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.mish(tt.tensor([0.0, 30.0]))
        tensor([ 0., 30.])
    """
    return (_ops.mish_ if inplace else _ops.mish)(input)


@overridable
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(sigmoid(input)), accurate where the sigmoid underflows (`torch.nn.functional.logsigmoid`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.logsigmoid(tt.tensor([-200.0]))
        tensor([-200.])
    """
    return _ops.log_sigmoid(input, out=out)  # type: ignore[arg-type]


@overridable
def softsign(input: Tensor) -> Tensor:
    """input / (1 + |input|) (`torch.nn.functional.softsign`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.softsign(tt.tensor([3.0]))
        tensor([0.7500])
    """
    return _ops.div(input, _ops.add(_ops.abs(input), 1))


@overridable
def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input) (`torch.nn.functional.tanhshrink`).

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.tanhshrink(tt.tensor([0.0]))
        tensor([0.])
    """
    return _ops.sub(input, _ops.tanh(input))


@overridable
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Half of a dimension, gated by the sigmoid of the other half (`torch.nn.functional.glu`; Dauphin et al., 2017).

    Raises RuntimeError for an odd size.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.glu(tt.tensor([2.0, 0.0]))
        tensor([1.])
    """
    return _ops.glu(input, dim)


@overridable
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`input` where it is positive, else times a weight: one, or one for each channel (`torch.nn.functional.prelu`).

    Args:
        input: (N, C, ...) or any shape with a single weight.
        weight: (C) or (1), of the input's dtype.

    Raises RuntimeError where the weights are neither.

    Example:
        >>> import triten as tt
        >>> tt.nn.functional.prelu(tt.tensor([-4.0, 2.0]), tt.tensor([0.25]))
        tensor([-1.,  2.])
    """
    return _ops.prelu(input, weight)
