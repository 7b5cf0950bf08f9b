"""The half-normal distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["HalfNormal"]


class HalfNormal(TransformedDistribution):
    """The half-normal distribution (`torch.distributions.HalfNormal`).

    Density sqrt(2 / pi) / scale * exp(-(x / scale)^2 / 2) for x >= 0: that of |X| for a normal X.

    Args:
        scale: The scale, positive.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.HalfNormal(1.0).mean
        tensor(0.7979)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Normal

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return _ops.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        log_density = self.base_dist.log_prob(value) + math.log(2.0)
        return _ops.where(value >= 0, log_density, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2.0)
