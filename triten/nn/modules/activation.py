"""Activation layers: a class holds a function, its options, and their `repr`."""

from __future__ import annotations

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


class CELU(_Activation):
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1)) (`torch.nn.CELU`)."""

    function = staticmethod(F.celu)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)


class ELU(_Activation):
    """x above zero, alpha (exp(x) - 1) below (`torch.nn.ELU`)."""

    function = staticmethod(F.elu)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)


class GELU(_Activation):
    """x times the normal distribution at x (`torch.nn.GELU`)."""

    function = staticmethod(F.gelu)

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(approximate=approximate)


class GLU(_Activation):
    """The first half of a dimension times the sigmoid of the second (`torch.nn.GLU`)."""

    function = staticmethod(F.glu)

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)


class Hardshrink(_Activation):
    """x outside [-lambd, lambd], zero inside (`torch.nn.Hardshrink`)."""

    function = staticmethod(F.hardshrink)
    unnamed = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)


class Hardsigmoid(_Activation):
    """min(max(x + 3, 0), 6) / 6 (`torch.nn.Hardsigmoid`)."""

    function = staticmethod(F.hardsigmoid)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class Hardswish(_Activation):
    """x min(max(x + 3, 0), 6) / 6 (`torch.nn.Hardswish`)."""

    function = staticmethod(F.hardswish)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class LeakyReLU(_Activation):
    """x above zero, negative_slope x below (`torch.nn.LeakyReLU`)."""

    function = staticmethod(F.leaky_relu)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(negative_slope=negative_slope, inplace=inplace)


class RReLU(_Activation):
    """x above zero, below it times a slope drawn for each element while training (`torch.nn.RReLU`).

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


class LogSigmoid(_Activation):
    """The logarithm of the sigmoid (`torch.nn.LogSigmoid`)."""

    function = staticmethod(F.logsigmoid)


class LogSoftmax(_Activation):
    """The logarithm of the softmax along `dim` (`torch.nn.LogSoftmax`)."""

    function = staticmethod(F.log_softmax)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)


class Mish(_Activation):
    """x tanh(softplus(x)) (`torch.nn.Mish`)."""

    function = staticmethod(F.mish)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class ReLU(_Activation):
    """max(x, 0) (`torch.nn.ReLU`)."""

    function = staticmethod(F.relu)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class ReLU6(_Activation):
    """min(max(x, 0), 6) (`torch.nn.ReLU6`)."""

    function = staticmethod(F.relu6)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class SELU(_Activation):
    """ELU, scaled so that mean and variance are kept (Klambauer et al., 2017) (`torch.nn.SELU`)."""

    function = staticmethod(F.selu)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class SiLU(_Activation):
    """x times its sigmoid (`torch.nn.SiLU`)."""

    function = staticmethod(F.silu)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x)) (`torch.nn.Sigmoid`)."""

    function = staticmethod(F.sigmoid)


class Softmax(_Activation):
    """exp(x) over its sum along `dim` (`torch.nn.Softmax`)."""

    function = staticmethod(F.softmax)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)


class Softmin(_Activation):
    """The softmax of -x along `dim` (`torch.nn.Softmin`)."""

    function = staticmethod(F.softmin)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)


class Softplus(_Activation):
    """log(1 + exp(beta x)) / beta; x itself where beta x exceeds the threshold (`torch.nn.Softplus`)."""

    function = staticmethod(F.softplus)

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)


class Softshrink(_Activation):
    """x moved toward zero by lambd, at most to zero (`torch.nn.Softshrink`)."""

    function = staticmethod(F.softshrink)
    unnamed = ("lambd",)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)


class Softsign(_Activation):
    """x / (1 + |x|) (`torch.nn.Softsign`)."""

    function = staticmethod(F.softsign)


class Tanh(_Activation):
    """The hyperbolic tangent (`torch.nn.Tanh`)."""

    function = staticmethod(F.tanh)


class Tanhshrink(_Activation):
    """x - tanh(x) (`torch.nn.Tanhshrink`)."""

    function = staticmethod(F.tanhshrink)


class Threshold(_Activation):
    """x above the threshold, `value` elsewhere (`torch.nn.Threshold`)."""

    function = staticmethod(F.threshold)

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(threshold=threshold, value=value, inplace=inplace)


class Hardtanh(_Activation):
    """x within [min_val, max_val] (`torch.nn.Hardtanh`). Raises AssertionError unless the one is below the other."""

    function = staticmethod(F.hardtanh)

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        if not max_val > min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        super().__init__(min_val=min_val, max_val=max_val, inplace=inplace)


class PReLU(Module):
    """x above zero, a learned slope times x below, one for all channels or one for each (`torch.nn.PReLU`)."""

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
        """(N, C, *) as it is."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """The softmax over channels of (C, H, W) or (N, C, H, W) (`torch.nn.Softmax2d`). Raises ValueError for others."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply softmax over the channels of (N, C, H, W) or (C, H, W)."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)
