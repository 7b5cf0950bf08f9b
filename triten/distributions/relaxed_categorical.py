"""The relaxed categorical distribution, and that of its logarithm."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.size import Size
from . import constraints
from .categorical import Categorical
from .distribution import Distribution, Shape
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(Distribution):
    """The distribution of the logarithm of a relaxed categorical vector
    (`torch.distributions.relaxed_categorical.ExpRelaxedCategorical`).

    log softmax((logits + G) / temperature) for independent Gumbel numbers G. Source: C. J. Maddison, A. Mnih, Y. W.
    Teh, "The concrete distribution" (2017).

    Args:
        temperature: The temperature, positive.
        probs: Weights along the last dimension, not negative; they are divided by their sum.
        logits: Logarithms of weights, real, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions.relaxed_categorical.ExpRelaxedCategorical(tt.tensor(1.0), tt.ones(2))
        >>> d.rsample().exp().sum().item() > 0.999
        True
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    support = constraints.real_vector
    has_rsample = True
    _kept = ("temperature",)

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _expand_parts(self, new: Any, shape: Size) -> None:
        new._categorical = self._categorical.expand(shape)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        logits: Tensor = self._categorical.logits
        return logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        probs: Tensor = self._categorical.probs
        return probs

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        uniform = clamp_probs(_ops.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        gumbel = -(-uniform.log()).log()
        scores = (self.logits + gumbel) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        size = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        constant = math.lgamma(size) + (size - 1) * self.temperature.log()
        scores = logits - value * self.temperature
        return (scores - scores.logsumexp(-1, keepdim=True)).sum(-1) + constant


class RelaxedOneHotCategorical(TransformedDistribution):
    """A categorical distribution made continuous, so that samples are differentiable
    (`torch.distributions.RelaxedOneHotCategorical`).

    softmax((logits + G) / temperature) for independent Gumbel numbers G, which tends to unit vectors as the
    temperature falls.

    Args:
        temperature: The temperature, positive.
        probs: Weights along the last dimension, not negative; they are divided by their sum.
        logits: Logarithms of weights, real, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions.RelaxedOneHotCategorical(tt.tensor(0.5), tt.ones(3))
        >>> d.event_shape
        triten.Size([3])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs
