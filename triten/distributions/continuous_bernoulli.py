"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..nn.functional import softplus
from . import constraints
from .distribution import Shape
from .exp_family import ExponentialFamily
from .probabilities import ByProbabilities
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ByProbabilities, ExponentialFamily):
    """The continuous Bernoulli distribution (`torch.distributions.ContinuousBernoulli`).

    Density C(p) * p^x * (1 - p)^(1 - x) for 0 <= x <= 1. Source: G. Loaiza-Ganem, J. P. Cunningham, "The continuous
    Bernoulli" (2019).

    Args:
        probs: The parameter p, in (0, 1).
        logits: Its log-odds, instead of `probs`.
        lims: Between these, formulas that divide by p - 1/2 give way to Taylor series.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.ContinuousBernoulli(probs=0.5).mean
        tensor(0.5000)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True
    _kept = ("_lims",)

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape, _ = self._take(probs, logits)
        if self._is_by_probs:
            if validate_args is not None and not bool(constraints.unit_interval.check(self.probs).all()):
                raise ValueError("The parameter probs has invalid values")
            self.__dict__["probs"] = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter p, between the smallest and the largest number that formulas can divide by."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        """Return where p is outside the limits."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """Return p where it is far from 1/2, elsewhere the lower limit."""
        return _ops.where(
            self._outside_unstable_region(), self.probs, self._lims[0] * _ops.ones_like(self.probs)
        )

    def _cont_bern_log_norm(self) -> Tensor:
        """Compute log C(p) = log(2 artanh(1 - 2 p) / (1 - 2 p))."""
        p = self._cut_probs()
        exact = ((-p).log1p() - p.log()).abs().log() - (1.0 - 2.0 * p).abs().log()
        x = (self.probs - 0.5).square()
        return _ops.where(
            self._outside_unstable_region(), exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        )

    @property
    def mean(self) -> Tensor:
        p = self._cut_probs()
        exact = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        x = self.probs - 0.5
        return _ops.where(
            self._outside_unstable_region(), exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x
        )

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def variance(self) -> Tensor:
        p = self._cut_probs()
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).square() + 1.0 / ((-p).log1p() - p.log()).square()
        x = (self.probs - 0.5).square()
        return _ops.where(
            self._outside_unstable_region(), exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        )

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(_ops.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return value * logits - softplus(logits) + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self._cut_probs()
        cdf = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        cdf = _ops.where(self._outside_unstable_region(), cdf, value)
        return _ops.where(value <= 0.0, 0.0, _ops.where(value >= 1.0, 1.0, cdf))

    def icdf(self, value: Tensor) -> Tensor:
        p = self._cut_probs()
        quantile = ((value * (2.0 * p - 1.0) - p).log1p() - (-p).log1p()) / (p.log() - (-p).log1p())
        return _ops.where(self._outside_unstable_region(), quantile, value)

    def entropy(self) -> Tensor:
        p = self.probs
        return -self._cont_bern_log_norm() - (-p).log1p() + self.mean * ((-p).log1p() - p.log())

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """log((exp(x) - 1) / x), by its Taylor series near zero."""
        (x,) = natural_params
        low, high = (math.log(limit / (1.0 - limit)) for limit in self._lims)
        far = (x <= low) | (x > high)
        cut = _ops.where(far, x, low * _ops.ones_like(x))
        exact = cut.expm1().abs().log() - cut.abs().log()
        return _ops.where(far, exact, 0.5 * x + x.square() / 24.0 - x.pow(4) / 2880.0)
