"""The categorical distribution over unit vectors."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..nn.functional import one_hot
from ..runtime.size import Size
from . import constraints
from .categorical import Categorical
from .distribution import Distribution, Shape

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """The categorical distribution over unit vectors (`torch.distributions.OneHotCategorical`).

    P(e_i) = probs[i] of the unit vectors e_i.

    Args:
        probs: Weights along the last dimension, not negative; they are divided by their sum.
        logits: Logarithms of weights, real, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.OneHotCategorical(tt.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _expand_parts(self, new: Any, shape: Size) -> None:
        new._categorical = self._categorical.expand(shape)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

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
        return self.probs

    @property
    def mode(self) -> Tensor:
        return one_hot(self.probs.argmax(-1), self.probs.shape[-1]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        index = self._categorical.sample(sample_shape)
        return one_hot(index, self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        size = self._event_shape[0]
        values = _ops.eye(size, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((size, *([1] * len(self._batch_shape)), size))
        return values.expand((size, *self._batch_shape, size)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose samples have the gradient of the probabilities
    (`torch.distributions.OneHotCategoricalStraightThrough`).

    Source: Y. Bengio, N. Leonard, A. Courville, "Estimating or propagating gradients through stochastic neurons for
    conditional computation" (2013).

    Args:
        probs: Weights along the last dimension, not negative; they are divided by their sum.
        logits: Logarithms of weights, real, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> p = tt.tensor([0.0, 1.0], requires_grad=True)
        >>> tt.distributions.OneHotCategoricalStraightThrough(p).rsample().detach()
        tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = self.sample(sample_shape)
        return drawn + (self.probs - self.probs.detach())
