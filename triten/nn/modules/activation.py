"""Activation layers: a class holds a function, its options, and their `repr`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...dispatch.generated import functions as _ops
from .. import functional as F
from ..init import constant_
from .attention import MultiheadAttention
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Activation(Module):
    """Base class of activations: a function of the input and of options, which are attributes."""

    function: Callable[..., Tensor]
    unnamed: tuple[str, ...] = ()
    """Options that are printed without their names."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = tuple(options)
        for name, value in options.items():
            setattr(self, name, value)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation function elementwise."""
        return type(self).function(input, **{name: getattr(self, name) for name in self._options})

    def extra_repr(self) -> str:
        shown = [(name, getattr(self, name)) for name in self._options]
        return ", ".join(
            str(value) if name in self.unnamed else f"{name}={value!r}"
            for name, value in shown
            if name != "inplace" or value
        )


class _PlainActivation(_Activation):
    """Base class of activations without options."""

    def __init__(self) -> None:
        super().__init__()


class CELU(_Activation):
    """Continuously differentiable exponential linear unit (`torch.nn.CELU`).

        max(0, x) + min(0, alpha * (exp(x / alpha) - 1))

    Args:
        alpha: The limit for large negative inputs, with the opposite sign. Default: 1.
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.CELU()(tt.tensor([0.0, 2.0])).tolist()
        [0.0, 2.0]
    """

    function = staticmethod(F.celu)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)


class ELU(_Activation):
    """Exponential linear unit (`torch.nn.ELU`).

        x if x > 0, alpha * (exp(x) - 1) otherwise

    Args:
        alpha: The limit for large negative inputs, with the opposite sign. Default: 1.
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.ELU()(tt.tensor([0.0, 2.0])).tolist()
        [0.0, 2.0]
    """

    function = staticmethod(F.elu)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)


class GELU(_Activation):
    """Gaussian error linear unit (`torch.nn.GELU`).

        x * (1 + erf(x / sqrt(2))) / 2

    With `approximate="tanh"` the result is

        0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))

    Args:
        approximate: `"tanh"` for the approximation below instead of the error function. Default: `"none"`.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.GELU()(tt.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8413])
    """

    function = staticmethod(F.gelu)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(approximate=approximate)


class GLU(_Activation):
    """Gated linear unit: the first half of a dimension times the sigmoid of the second half (`torch.nn.GLU`).

        a * sigmoid(b), where a and b are the halves of the input

    Args:
        dim: The dimension to split, of an even size. Default: -1.

    Shape:
        input: (*, 2 n, *), with 2 n at `dim`.
        output: (*, n, *).

    Example:
        >>> import triten as tt
        >>> tt.nn.GLU()(tt.tensor([2.0, 0.0])).tolist()
        [1.0]
    """

    function = staticmethod(F.glu)

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)


class Hardshrink(_Activation):
    """Hard shrinkage (`torch.nn.Hardshrink`).

        x if |x| > lambd, 0 otherwise

    Args:
        lambd: The distance from zero up to which elements become zero. Default: 0.5.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Hardshrink()(tt.tensor([-1.0, 0.25])).tolist()
        [-1.0, 0.0]
    """

    function = staticmethod(F.hardshrink)
    unnamed = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)


class Hardsigmoid(_Activation):
    """Piecewise linear approximation of the sigmoid (`torch.nn.Hardsigmoid`).

        min(max(x + 3, 0), 6) / 6

    Args:
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Hardsigmoid()(tt.tensor([-3.0, 0.0])).tolist()
        [0.0, 0.5]
    """

    function = staticmethod(F.hardsigmoid)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class Hardswish(_Activation):
    """Piecewise approximation of SiLU (`torch.nn.Hardswish`).

        x * min(max(x + 3, 0), 6) / 6

    Args:
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Hardswish()(tt.tensor([0.0, 3.0])).tolist()
        [0.0, 3.0]
    """

    function = staticmethod(F.hardswish)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class LeakyReLU(_Activation):
    """Leaky rectified linear unit (`torch.nn.LeakyReLU`).

        x if x > 0, negative_slope * x otherwise

    Args:
        negative_slope: The slope for negative inputs. Default: 0.01.
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.LeakyReLU(0.5)(tt.tensor([-2.0, 3.0])).tolist()
        [-1.0, 3.0]
    """

    function = staticmethod(F.leaky_relu)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(negative_slope=negative_slope, inplace=inplace)


class RReLU(_Activation):
    """Randomized leaky rectified linear unit (`torch.nn.RReLU`).

        x if x > 0, a * x otherwise

    In training, a is uniform between `lower` and `upper` for each element. In evaluation it is their mean.

    Args:
        lower: The lower bound of the slope a. Default: 1/8.
        upper: The upper bound of the slope a. Default: 1/3.
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.RReLU(0.25, 0.75).eval()(tt.tensor([-2.0, 3.0]))
        tensor([-1.,  3.])
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Apply randomized leaky ReLU; the shape is `input`'s."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class LogSigmoid(_PlainActivation):
    """Logarithm of the sigmoid (`torch.nn.LogSigmoid`).

        -ln(1 + e ** -x)

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.LogSigmoid()(tt.tensor([0.0]))
        tensor([-0.6931])
    """

    function = staticmethod(F.logsigmoid)


class LogSoftmax(_Activation):
    """Logarithm of the softmax along a dimension (`torch.nn.LogSoftmax`).

        x_i - log(sum_j exp(x_j))

    Args:
        dim: The dimension along which the exponentials of the results sum to 1. Default: None, which warns and
            takes 0 for inputs of 0, 1 or 3 dimensions, else 1.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.LogSoftmax(0)(tt.tensor([0.0, 0.0]))
        tensor([-0.6931, -0.6931])
    """

    function = staticmethod(F.log_softmax)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)


class Mish(_Activation):
    """Mish: a smooth, non-monotonic activation (`torch.nn.Mish`; Misra, 2019).

        x * tanh(ln(1 + e ** x))

    Args:
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Mish()(tt.tensor([0.0])).tolist()
        [0.0]
    """

    function = staticmethod(F.mish)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class ReLU(_Activation):
    """Rectified linear unit (`torch.nn.ReLU`).

        max(x, 0)

    Args:
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.ReLU()(tt.tensor([-1.0, 2.0])).tolist()
        [0.0, 2.0]
    """

    function = staticmethod(F.relu)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class ReLU6(_Activation):
    """Rectified linear unit up to 6 (`torch.nn.ReLU6`).

        min(max(x, 0), 6)

    Args:
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.ReLU6()(tt.tensor([-1.0, 8.0])).tolist()
        [0.0, 6.0]
    """

    function = staticmethod(F.relu6)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class SELU(_Activation):
    """Scaled exponential linear unit, which preserves mean and variance (`torch.nn.SELU`; Klambauer et al., 2017).

        scale * x if x > 0, scale * alpha * (e ** x - 1) otherwise, with scale = 1.0507 and alpha = 1.6733

    Args:
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.SELU()(tt.tensor([0.0, 1.0]))
        tensor([0.0000, 1.0507])
    """

    function = staticmethod(F.selu)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class SiLU(_Activation):
    """Sigmoid linear unit, or swish (`torch.nn.SiLU`).

        x / (1 + e ** -x)

    Args:
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.SiLU()(tt.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7311])
    """

    function = staticmethod(F.silu)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class Sigmoid(_PlainActivation):
    """Logistic sigmoid (`torch.nn.Sigmoid`).

        1 / (1 + e ** -x)

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Sigmoid()(tt.tensor([0.0])).tolist()
        [0.5]
    """

    function = staticmethod(F.sigmoid)


class Softmax(_Activation):
    """Softmax along a dimension (`torch.nn.Softmax`).

        exp(x_i) / sum_j exp(x_j)

    Use `LogSoftmax` before `NLLLoss`, or `CrossEntropyLoss` on the logits, which is more accurate.

    Args:
        dim: The dimension along which the results sum to 1. Default: None, which warns and takes 0 for inputs of 0,
            1 or 3 dimensions, else 1.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Softmax(0)(tt.tensor([0.0, 0.0])).tolist()
        [0.5, 0.5]
    """

    function = staticmethod(F.softmax)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)


class Softmin(_Activation):
    """Softmax of the negated input along a dimension (`torch.nn.Softmin`).

        exp(-x_i) / sum_j exp(-x_j)

    Args:
        dim: The dimension along which the results sum to 1. Default: None, which warns and takes 0 for inputs of 0,
            1 or 3 dimensions, else 1.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Softmin(0)(tt.tensor([0.0, 0.0])).tolist()
        [0.5, 0.5]
    """

    function = staticmethod(F.softmin)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)


class Softplus(_Activation):
    """Softplus, a smooth ReLU (`torch.nn.Softplus`).

        ln(1 + e ** (beta * x)) / beta

    Args:
        beta: The sharpness: larger values come closer to ReLU. Default: 1.
        threshold: The value of beta * x above which the result is x itself. Default: 20.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Softplus()(tt.tensor([0.0, 30.0]))
        tensor([ 0.6931, 30.0000])
    """

    function = staticmethod(F.softplus)

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)


class Softshrink(_Activation):
    """Soft shrinkage: each element moved toward zero (`torch.nn.Softshrink`).

        x - lambd if x > lambd, x + lambd if x < -lambd, 0 otherwise

    Args:
        lambd: The distance by which elements move, not negative. Default: 0.5.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Softshrink()(tt.tensor([-1.0, 0.25])).tolist()
        [-0.5, 0.0]
    """

    function = staticmethod(F.softshrink)
    unnamed = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)


class Softsign(_PlainActivation):
    """Softsign (`torch.nn.Softsign`).

        x / (1 + |x|)

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Softsign()(tt.tensor([-1.0, 3.0])).tolist()
        [-0.5, 0.75]
    """

    function = staticmethod(F.softsign)


class Tanh(_PlainActivation):
    """Hyperbolic tangent (`torch.nn.Tanh`).

        (e ** x - e ** -x) / (e ** x + e ** -x)

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Tanh()(tt.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """

    function = staticmethod(F.tanh)


class Tanhshrink(_PlainActivation):
    """Difference of the input and its hyperbolic tangent (`torch.nn.Tanhshrink`).

        x - tanh(x)

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Tanhshrink()(tt.tensor([0.0, 1.0]))
        tensor([0.0000, 0.2384])
    """

    function = staticmethod(F.tanhshrink)


class Threshold(_Activation):
    """Threshold: the input above a threshold, a constant elsewhere (`torch.nn.Threshold`).

        x if x > threshold, value otherwise

    Args:
        threshold: The number that an element must exceed to stay.
        value: The value of the other elements.
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.Threshold(0.5, -1.0)(tt.tensor([0.0, 2.0])).tolist()
        [-1.0, 2.0]
    """

    function = staticmethod(F.threshold)

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(threshold=threshold, value=value, inplace=inplace)


class Hardtanh(_Activation):
    """Clamping to an interval (`torch.nn.Hardtanh`).

        min(max(x, min_val), max_val)

    Args:
        min_val: The lower bound. Default: -1.
        max_val: The upper bound. Default: 1.
        inplace: If True, write the result into the input. Default: False.
        min_value, max_value: Former names of `min_val` and `max_val`, which warn.

    Shape:
        input: Any shape.
        output: The shape of the input.

    Raises:
        AssertionError: `max_val` is not above `min_val`.

    Example:
        >>> import triten as tt
        >>> tt.nn.Hardtanh()(tt.tensor([-2.0, 0.5])).tolist()
        [-1.0, 0.5]
    """

    function = staticmethod(F.hardtanh)

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        for name, value in (("min_value", min_value), ("max_value", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{name}` is deprecated and renamed to `{name[:-2]}`",
                    FutureWarning,
                    stacklevel=2,
                )
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        if not max_val > min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        super().__init__(min_val=min_val, max_val=max_val, inplace=inplace)


class PReLU(Module):
    """Parametric rectified linear unit: a learnable slope for negative inputs (`torch.nn.PReLU`; He et al., 2015).

        x if x > 0, weight * x otherwise

    Args:
        num_parameters: The number of slopes: 1, or the number of channels. Default: 1.
        init: The initial slope. Default: 0.25.
        device, dtype: The device and dtype of the parameter.

    Shape:
        input: (N, C, *); any shape with one slope.
        output: The shape of the input.

    Example:
        >>> import triten as tt
        >>> tt.nn.PReLU()(tt.tensor([-4.0, 2.0])).tolist()
        [-1.0, 2.0]
    """

    weight: Parameter

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(_ops.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Give all weights the initial value."""
        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Apply PReLU to an input (N, C, *)."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """Softmax over the channels of (C, H, W) or (N, C, H, W) (`torch.nn.Softmax2d`).

        exp(x_i) / sum_j exp(x_j)

    Shape:
        input: (C, H, W) or (N, C, H, W).
        output: The shape of the input.

    Raises:
        ValueError: The input has another number of dimensions.

    Example:
        >>> import triten as tt
        >>> tt.nn.Softmax2d()(tt.zeros(2, 1, 1)).tolist()
        [[[0.5]], [[0.5]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply softmax over the channels of (N, C, H, W) or (C, H, W).

        Raises:
            ValueError: The input has another number of dimensions.
        """
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)
