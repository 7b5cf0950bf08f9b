"""`Independent`: batch dimensions that count as an event."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from ..dispatch.tensor import Tensor
from ..runtime.size import Size
from . import constraints
from .distribution import Distribution, Shape
from .utils import _sum_rightmost

__all__ = ["Independent"]

Base = TypeVar("Base", bound=Distribution)


class Independent(Distribution, Generic[Base]):
    """Independent distributions of a batch as one of a larger event (`torch.distributions.Independent`).

    Args:
        base_distribution: The distribution.
        reinterpreted_batch_ndims: The number of last batch dimensions that become event dimensions.
        validate_args: If True, validate values.

    Raises:
        ValueError: The batch has fewer dimensions.

    Example:
        >>> import triten as tt
        >>> d = tt.distributions.Independent(tt.distributions.Normal(tt.zeros(2, 3), 1.0), 1)
        >>> d.batch_shape, d.event_shape
        (triten.Size([2]), triten.Size([3]))
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    base_dist: Base

    def __init__(
        self,
        base_distribution: Base,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > batch:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {batch}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = batch - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    _kept = ("reinterpreted_batch_ndims",)

    def _expand_parts(self, new: Any, shape: Size) -> None:
        new.base_dist = self.base_dist.expand(shape + self.event_shape[: self.reinterpreted_batch_ndims])

    @property
    def has_rsample(self) -> Any:
        """True if the base distribution has `rsample`."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> Any:
        """True if the base can enumerate its support and no dimension was reinterpreted."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        """The base's, for whole events."""
        support = self.base_dist.support
        ndims = self.reinterpreted_batch_ndims
        return constraints.independent(support, ndims) if ndims else support

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
