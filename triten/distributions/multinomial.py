"""The multinomial distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.size import Size
from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution, Shape
from .utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """The multinomial distribution (`torch.distributions.Multinomial`).

    P(k) = n! / (k_1! * ... * k_K!) * p_1^k_1 * ... * p_K^k_K for counts k of sum n.

    Args:
        total_count: The number of trials n, one for the whole batch.
        probs: Weights along the last dimension, not negative; they are divided by their sum.
        logits: Logarithms of weights, real, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Multinomial(4, tt.tensor([1.0, 3.0])).mean
        tensor([1., 3.])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    total_count: int
    _kept = ("total_count",)

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _expand_parts(self, new: Any, shape: Size) -> None:
        new._categorical = self._categorical.expand(shape)
        new._binomial = self._binomial.expand(shape + self.event_shape)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts whose sum is the number of trials."""
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        probs: Tensor = self._categorical.probs
        return probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        logits: Tensor = self._categorical.logits
        return logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = tuple(sample_shape)
        drawn = self._categorical.sample((self.total_count, *shape))
        drawn = drawn.movedim(0, -1)
        counts = self.probs.new_zeros(self._extended_shape(shape))
        return counts.scatter_add_(-1, drawn, _ops.ones_like(drawn).to(counts.dtype))

    def entropy(self) -> Tensor:
        n = self.probs.new_full((), float(self.total_count))
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = self._binomial.log_prob(support).exp()
        arranged = (weights * (support + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - (n + 1).lgamma() + arranged

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        impossible = (value == 0) & (logits == -math.inf)
        powers = (logits.masked_fill(impossible, 0) * value).sum(-1)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + powers
