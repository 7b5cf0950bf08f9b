"""The Kumaraswamy distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant, is_number

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution (`torch.distributions.Kumaraswamy`).

    P(X <= x) = 1 - (1 - x^a)^b for 0 <= x <= 1, a being `concentration1` and b `concentration0`. The mode
    is nan where the density has no greatest value inside.

    Args:
        concentration1: The shape a, positive.
        concentration0: The shape b, positive.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Kumaraswamy(1.0, 1.0).mean
        tensor(0.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        a, b = self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        numbers = is_number(concentration1) and is_number(concentration0)
        low, high = (0.0, 1.0) if numbers else (_ops.zeros_like(a), _ops.ones_like(a))
        base = Uniform(low, high, validate_args=validate_args)
        inner = PowerTransform(b.reciprocal()), AffineTransform(loc=1.0, scale=-1.0)
        transforms = [*inner, PowerTransform(a.reciprocal())]
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, order: int) -> Tensor:
        """E X^order = b B(1 + order / a, b)."""
        a, b = self.concentration1, self.concentration0
        first = 1 + order / a
        return (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp() * b

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        logs = ((a - 1) / (a * b - 1)).log() / a
        inner = (a >= 1) & (b >= 1) & ((a > 1) | (b > 1))
        return _ops.where(inner, logs.exp(), math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
