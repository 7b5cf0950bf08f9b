"""The Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..nn.functional import softplus
from . import constraints
from .distribution import Shape
from .exp_family import ExponentialFamily
from .probabilities import ByProbabilities
from .utils import broadcast_all

__all__ = ["Bernoulli"]


class Bernoulli(ByProbabilities, ExponentialFamily):
    """The Bernoulli distribution (`torch.distributions.Bernoulli`).

    P(1) = probs, P(0) = 1 - probs.

    Args:
        probs: The probability of 1, in [0, 1].
        logits: Its log-odds, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Bernoulli(probs=0.25).variance
        tensor(0.1875)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        shape, _ = self._take(probs, logits)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return _ops.where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return _ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return value * logits - softplus(logits)

    def entropy(self) -> Tensor:
        return softplus(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = _ops.arange(2, dtype=self._param.dtype, device=self._param.device)
        return self._values_of_support(values, expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return softplus(natural_params[0])
