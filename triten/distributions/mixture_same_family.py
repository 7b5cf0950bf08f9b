"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.size import Size
from . import constraints
from .categorical import Categorical
from .distribution import Distribution, Shape

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture of the distributions along the last batch dimension (`torch.distributions.MixtureSameFamily`).

    Density sum_k probs[k] * p_k(x).

    Args:
        mixture_distribution: A `Categorical` over the components.
        component_distribution: A batch of distributions, the last dimension of which are the components.
        validate_args: If True, validate values.

    Raises:
        ValueError: The first is not a `Categorical`, the second not a distribution, or the batches do not match.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions
        >>> m = d.MixtureSameFamily(d.Categorical(tt.ones(2)), d.Normal(tt.tensor([-1.0, 1.0]), 1.0))
        >>> m.mean, m.variance
        (tensor(0.), tensor(2.))
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    has_rsample = False
    _kept = ("_event_ndims", "_num_component")

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of torch.distributions.Distribution"
            )
        weights = mixture_distribution.batch_shape
        batch = component_distribution.batch_shape[:-1]
        for weight_size, component_size in zip(reversed(weights), reversed(batch), strict=False):
            if weight_size != 1 and component_size != 1 and weight_size != component_size:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({weights}) is not "
                    "compatible with `component_distribution."
                    f"batch_shape`({batch})"
                )
        expected = mixture_distribution.logits.shape[-1]
        num_components = component_distribution.batch_shape[-1]
        if expected != num_components:
            raise ValueError(
                f"`mixture_distribution component` ({expected}) does not equal "
                "`component_distribution.batch_shape[-1]` "
                f"({num_components})"
            )
        self._num_component = expected
        events = component_distribution.event_shape
        self._event_ndims = len(events)
        super().__init__(batch, events, validate_args=validate_args)

    def _expand_parts(self, new: Any, shape: Size) -> None:
        new._component_distribution = self._component_distribution.expand((*shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(shape)

    @constraints.dependent_property
    def support(self) -> Any:
        """That of the components."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution over the components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _pad_mixture_dimensions(self, weights: Tensor) -> Tensor:
        """Append event dimensions to the weights of the components."""
        return weights.reshape((*weights.shape, *([1] * self._event_ndims)))

    @property
    def mean(self) -> Tensor:
        probs = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return (probs * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        probs, component_dim = (
            self._pad_mixture_dimensions(self.mixture_distribution.probs),
            -1 - self._event_ndims,
        )
        within = (probs * self.component_distribution.variance).sum(component_dim)
        centered = self.component_distribution.mean - self.mean.unsqueeze(component_dim)
        return within + (probs * centered.square()).sum(component_dim)

    def _pad(self, value: Tensor) -> Tensor:
        return value.unsqueeze(value.dim() - self._event_ndims)

    def cdf(self, value: Tensor) -> Tensor:
        levels = self.component_distribution.cdf(self._pad(value))
        return (levels * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logs = self.component_distribution.log_prob(self._pad(value))
        weights = _ops.log_softmax(self.mixture_distribution.logits, -1)
        return (logs + weights).logsumexp(-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            shape = tuple(sample_shape)
            component_dim = len(shape) + len(self.batch_shape)
            components = self.mixture_distribution.expand(self.batch_shape).sample(shape)
            samples = self.component_distribution.sample(shape)
            index = components.reshape((*components.shape, *([1] * (self._event_ndims + 1))))
            sizes = (*components.shape, 1, *self.event_shape)
            return samples.gather(component_dim, index.expand(sizes)).squeeze(component_dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
