"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..nn.functional import softplus
from . import constraints
from .distribution import Shape
from .gamma import Gamma
from .probabilities import ByProbabilities
from .utils import lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(ByProbabilities):
    """The negative binomial distribution (`torch.distributions.NegativeBinomial`).

    P(k) = gamma(n + k) / (k! * gamma(n)) * (1 - p)^n * p^k: the number of successes before the n-th failure.

    Args:
        total_count: The number of failures n, not negative.
        probs: The probability of success, in [0, 1).
        logits: Its log-odds, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.NegativeBinomial(3.0, probs=tt.tensor(0.5)).mean
        tensor(3.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        _, (count,) = self._take(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        # A negative binomial is a Poisson distribution with gamma-distributed rates.
        with no_grad():
            return _ops.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        unnormalized = -n * softplus(logits) - value * softplus(-logits)
        normalization = n.lgamma() + (1.0 + value).lgamma() - (n + value).lgamma()
        # A count of 0 contributes nothing; its terms are infinite.
        return unnormalized - normalization.masked_fill(n + value == 0.0, 0.0)
