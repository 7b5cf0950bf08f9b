"""The Pareto distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all, is_number

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """The Pareto distribution of the first kind (`torch.distributions.Pareto`).

    Density alpha * scale^alpha / x^(alpha + 1) for x >= scale.

    Args:
        scale: The lower end, positive.
        alpha: The power, positive.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Pareto(1.0, 2.0).mean
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "alpha": constraints.positive,
        "scale": constraints.positive,
    }

    def __init__(
        self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(
            alpha if is_number(scale) and is_number(alpha) else self.alpha, validate_args=validate_args
        )
        transforms = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From the scale up."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        mean = self.alpha * self.scale / (self.alpha - 1)
        return _ops.where(self.alpha > 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha
        variance = self.scale.square() * a / ((a - 1).square() * (a - 2))
        return _ops.where(a > 2, variance, math.inf)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
