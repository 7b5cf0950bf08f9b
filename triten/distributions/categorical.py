"""The categorical distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.iterator.broadcast import broadcast_sizes
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import finfo
from ..runtime.size import Size
from . import constraints
from .distribution import Shape
from .probabilities import ByWeights

__all__ = ["Categorical"]


class Categorical(ByWeights):
    """The categorical distribution (`torch.distributions.Categorical`).

    P(i) = probs[i] for i = 0, ..., K - 1.

    Args:
        probs: Weights along the last dimension, not negative; they are divided by their sum.
        logits: Logarithms of weights, real, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Categorical(tt.tensor([1.0, 1.0, 2.0])).probs
        tensor([0.2500, 0.2500, 0.5000])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True
    _kept = ("_num_events",)

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        param = self._take(probs, logits)
        self._num_events = param.size(-1)
        super().__init__(param.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The indices."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return self._param.new_full(self._extended_shape(), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self._param.new_full(self._extended_shape(), math.nan)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = tuple(sample_shape)
        with no_grad():
            rows = self.probs.reshape((-1, self._num_events))
            drawn = _ops.multinomial(rows, Size(shape).numel(), True).t()
            return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        index = value.long().unsqueeze(-1)
        sizes = broadcast_sizes(tuple(index.shape[:-1]), tuple(self.logits.shape[:-1]))
        logits = self.logits.expand((*sizes, self._num_events))
        return logits.gather(-1, index.expand((*sizes, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = _ops.arange(self._num_events, device=self._param.device)
        return self._values_of_support(values, expand)
