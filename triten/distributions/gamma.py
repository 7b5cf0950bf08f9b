"""The gamma distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..dispatch.tensor_data import as_tensor
from ..runtime.scalar_type import finfo
from . import constraints
from .distribution import Shape
from .exp_family import ExponentialFamily
from .utils import broadcast_all, is_number

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """The gamma distribution (`torch.distributions.Gamma`).

    Density rate^a * x^(a - 1) * exp(-rate * x) / gamma(a) for x >= 0, with a the concentration.

    Args:
        concentration: The shape, positive.
        rate: The rate, positive.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Samples are differentiable with respect to both parameters: that of the shape is the derivative at a fixed quantile.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Gamma(2.0, 1.0).log_prob(tt.tensor(1.0))
        tensor(-1.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        shape: Shape = () if is_number(concentration) and is_number(rate) else self.concentration.size()
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        made = _ops._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        # A sample is positive, and so is its logarithm finite.
        made.detach().clamp_(min=finfo(made.dtype).tiny)
        return made

    def log_prob(self, value: Tensor | float) -> Tensor:
        value = as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return _ops.xlogy(a, rate) + _ops.xlogy(a - 1, value) - rate * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _ops.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return (x + 1).lgamma() - (x + 1) * (-y).log()
