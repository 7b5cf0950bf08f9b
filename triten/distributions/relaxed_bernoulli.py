"""The relaxed Bernoulli distribution, and that of its logit."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..nn.functional import softplus
from . import constraints
from .distribution import Shape
from .probabilities import ByProbabilities
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(ByProbabilities):
    """The distribution of the logit of a relaxed Bernoulli number
    (`torch.distributions.relaxed_bernoulli.LogitRelaxedBernoulli`).

    (logits + L) / temperature for a logistic L. Source: C. J. Maddison, A. Mnih, Y. W. Teh, "The concrete
    distribution" (2017).

    Args:
        temperature: The temperature, positive.
        probs: The probability of 1, in [0, 1].
        logits: Its log-odds, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions.relaxed_bernoulli.LogitRelaxedBernoulli(tt.tensor(1.0), probs=0.5)
        >>> d.log_prob(tt.tensor(0.0))
        tensor(-1.3863)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.real
    _kept = ("temperature",)

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        shape, _ = self._take(probs, logits)
        super().__init__(shape, validate_args=validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(_ops.rand(shape, dtype=self.probs.dtype, device=self.probs.device))
        probs = clamp_probs(self.probs.expand(shape))
        logistic = u.log() - (-u).log1p()
        return (logistic + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        z = logits - value * self.temperature
        return self.temperature.log() + z - 2 * softplus(z)


class RelaxedBernoulli(TransformedDistribution):
    """A Bernoulli distribution made continuous, so that samples are differentiable
    (`torch.distributions.RelaxedBernoulli`).

    sigmoid((logits + L) / temperature) for a logistic L, which tends to 0 and 1 as the temperature falls.

    Args:
        temperature: The temperature, positive.
        probs: The probability of 1, in [0, 1].
        logits: Its log-odds, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions.RelaxedBernoulli(tt.tensor(0.5), probs=tt.tensor([0.1, 0.9]))
        >>> d.batch_shape
        triten.Size([2])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The log-odds."""
        logits: Tensor = self.base_dist.logits
        return logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        probs: Tensor = self.base_dist.probs
        return probs
