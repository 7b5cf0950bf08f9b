"""`TransformedDistribution`: a distribution seen through transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.tensor import Tensor
from ..runtime.size import Size
from . import constraints
from .distribution import Distribution, Shape
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost, is_number

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of f(X) for X of a base distribution (`torch.distributions.TransformedDistribution`).

    log p(y) = log p_X(f^-1(y)) + log |det df^-1(y) / dy|.

    Args:
        base_distribution: The distribution of X.
        transforms: A transform, or a list of them that apply one after another.
        validate_args: If True, validate values.

    Raises:
        ValueError: `transforms` holds something else, or the base has too few dimensions for them.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions
        >>> lognormal = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.ExpTransform()])
        >>> lognormal.log_prob(tt.ones(()))
        tensor(-0.9189)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    base_dist: Any

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, (list, tuple)):
            if not all(isinstance(t, Transform) for t in transforms):
                raise ValueError("transforms must be a Transform or a list of Transforms")
            self.transforms = list(transforms)
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        whole = base_distribution.batch_shape + base_distribution.event_shape
        base_events = len(base_distribution.event_shape)
        composed = ComposeTransform(self.transforms)
        if len(whole) < composed.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {composed.domain.event_dim}, "
                f"but got {whole}."
            )
        shape = composed.forward_shape(whole)
        base_shape = composed.inverse_shape(shape)
        if tuple(base_shape) != tuple(whole):
            batch = base_shape[: len(base_shape) - base_events]
            base_distribution = base_distribution.expand(batch)
        more = composed.domain.event_dim - base_events
        if more > 0:
            base_distribution = Independent(base_distribution, more)
        self.base_dist = base_distribution
        dims = max(
            composed.codomain.event_dim,
            base_events + composed.codomain.event_dim - composed.domain.event_dim,
        )
        cut = len(shape) - dims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expand_parts(self, new: Any, shape: Size) -> None:
        whole: Shape = shape + self.event_shape
        for transform in reversed(self.transforms):
            whole = transform.inverse_shape(whole)
        cut = len(whole) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(whole[:cut])
        new.transforms = self.transforms

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The codomain of the last transform, for a whole event."""
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        ndims = len(self.event_shape) - codomain.event_dim
        return constraints.independent(codomain, ndims) if ndims > 0 else codomain

    @property
    def has_rsample(self) -> Any:
        """True if the base distribution has `rsample`."""
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            x: Tensor = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        x: Tensor = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        dims = len(self.event_shape)
        log_det: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            term = transform.log_abs_det_jacobian(x, y)
            log_det = log_det - _sum_rightmost(term, dims - transform.domain.event_dim)
            y = x
        log_prob: Tensor = log_det + _sum_rightmost(
            self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape)
        )
        return log_prob

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Map a cdf level of the base to one of the result: 1 - level if the transforms are decreasing."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if is_number(sign):
            return value if sign == 1 else sign * (value - 0.5) + 0.5
        result: Tensor = sign * (value - 0.5) + 0.5
        return result

    def cdf(self, value: Tensor) -> Tensor:
        """Compute the cumulative distribution function, by the inverse transforms and the base's `cdf`."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Compute the quantile, by the base's `icdf` and the transforms."""
        value = self.base_dist.icdf(self._monotonize_cdf(value))
        for transform in self.transforms:
            value = transform(value)
        return value
