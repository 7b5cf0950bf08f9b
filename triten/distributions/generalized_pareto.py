"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from . import constraints
from .distribution import Distribution, Shape
from .utils import broadcast_all, is_number

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """The generalized Pareto distribution (`torch.distributions.GeneralizedPareto`).

    P(X > x) = (1 + concentration * z)^(-1 / concentration) with z = (x - loc) / scale >= 0; exp(-z) where the
    concentration is 0. Mean and variance are nan where they are not finite, from a concentration of 1 and of 1/2 on.

    Args:
        loc: The lower end, real.
        scale: The scale, positive.
        concentration: The shape, real; the support is bounded where it is negative.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.GeneralizedPareto(0.0, 1.0, 0.0).cdf(tt.tensor(0.0))
        tensor(0.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        shape: Shape = ()
        if not (is_number(loc) and is_number(scale) and is_number(concentration)):
            shape = self.loc.size()
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From `loc` up, to an upper end where the concentration is negative."""
        upper = _ops.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)

    @property
    def _is_exponential(self) -> Tensor:
        return self.concentration == 0

    @property
    def _safe_concentration(self) -> Tensor:
        return _ops.where(self._is_exponential, _ops.ones_like(self.concentration), self.concentration)

    @property
    def mean(self) -> Tensor:
        mean = self.loc + self.scale / (1 - self.concentration)
        return _ops.where(self.concentration < 1, mean, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        variance = self.scale.square() / ((1 - k).square() * (1 - 2 * k))
        return _ops.where(k < 0.5, variance, math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = _ops.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(noise)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Compute log P(X > value)."""
        z = (value - self.loc) / self.scale
        k = self._safe_concentration
        return _ops.where(self._is_exponential, -z, -(k * z).log1p() / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Compute log P(X <= value)."""
        return (-self.log_survival_function(value).exp()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        k = self._safe_concentration
        outside = (z < 0) | (1 + self.concentration * z < 0)
        log_density = _ops.where(self._is_exponential, -z, -(1 + 1 / k) * (k * z).log1p())
        return _ops.where(outside, -math.inf, log_density - self.scale.log())

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        k = self._safe_concentration
        survival = (-value).log1p()
        z = _ops.where(self._is_exponential, -survival, (-k * survival).expm1() / k)
        return self.loc + self.scale * z

    def entropy(self) -> Tensor:
        return 1 + self.scale.log() + self.concentration
