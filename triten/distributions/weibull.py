"""The Weibull distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant, is_number

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """The Weibull distribution of two parameters (`torch.distributions.Weibull`).

    P(X > x) = exp(-(x / scale)^concentration) for x >= 0. The mode is 0 for concentrations up to 1, where
    PyTorch has nan.

    Args:
        scale: The scale, positive.
        concentration: The shape, positive.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Weibull(2.0, 1.0).mean
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive

    def __init__(
        self, scale: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        both = is_number(scale) and is_number(concentration)
        base = Exponential(1.0 if both else _ops.ones_like(self.scale), validate_args=validate_args)
        self.concentration_reciprocal = self.concentration.reciprocal()
        power = PowerTransform(self.concentration_reciprocal)
        super().__init__(base, [power, AffineTransform(0, self.scale)], validate_args=validate_args)

    def _moment(self, order: int) -> Tensor:
        """Compute the logarithm of a moment for scale 1."""
        return (1 + order / self.concentration).lgamma()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1).exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return _ops.where(k > 1, self.scale * ((k - 1) / k).clamp(min=0).pow(k.reciprocal()), 0.0)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (self._moment(2).exp() - (2 * self._moment(1)).exp())

    def entropy(self) -> Tensor:
        k = self.concentration
        return euler_constant * (1 - k.reciprocal()) + (self.scale / k).log() + 1
