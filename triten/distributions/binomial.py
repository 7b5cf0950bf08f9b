"""The binomial distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..nn.functional import softplus
from . import constraints
from .distribution import Shape
from .probabilities import ByProbabilities

__all__ = ["Binomial"]


class Binomial(ByProbabilities):
    """The binomial distribution (`torch.distributions.Binomial`).

    P(k) = n! / (k! * (n - k)!) * p^k * (1 - p)^(n - k) with n the total count.

    Args:
        total_count: The number of trials, an integer that is not negative.
        probs: The probability of success, in [0, 1].
        logits: Its log-odds, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Binomial(4, probs=tt.tensor(0.5)).mean
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Tensor | int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        _, (count,) = self._take(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The integers up to the count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return _ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        log_coefficient = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        # n log(1 - p), in the form that cancels nothing for large logits.
        return log_coefficient + value * logits - n * softplus(logits)

    def entropy(self) -> Tensor:
        count = int(self.total_count.max())
        if not bool((self.total_count == count).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        logs = self.log_prob(self.enumerate_support(False))
        return -(logs.exp() * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = int(self.total_count.max())
        if not bool((self.total_count == count).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = _ops.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        return self._values_of_support(values, expand)
