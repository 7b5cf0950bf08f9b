"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..dispatch.tensor_data import as_tensor
from . import constraints
from .cauchy import Cauchy
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(TransformedDistribution):
    """The half-Cauchy distribution (`torch.distributions.HalfCauchy`).

    Density 2 / (pi * scale * (1 + (x / scale)^2)) for x >= 0: that of |X| for a Cauchy X.

    Args:
        scale: The scale, positive.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.HalfCauchy(1.0).icdf(tt.tensor(0.5))
        tensor(1.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Cauchy

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale.new_full(self._extended_shape(), math.inf)

    @property
    def mode(self) -> Tensor:
        return _ops.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        z = value / self.scale
        log_density = math.log(2 / math.pi) - self.scale.log() - z.square().log1p()
        return _ops.where(value >= 0, log_density, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return math.log(2 * math.pi) + self.scale.log()
