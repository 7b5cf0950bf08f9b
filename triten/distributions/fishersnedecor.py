"""The Fisher-Snedecor distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import finfo
from . import constraints
from .distribution import Distribution, Shape
from .gamma import Gamma
from .utils import broadcast_all, is_number

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The Fisher-Snedecor distribution (`torch.distributions.FisherSnedecor`).

    That of (X1 / df1) / (X2 / df2) for chi-squared X1 and X2.

    Args:
        df1: The degrees of freedom of the numerator, positive.
        df2: The degrees of freedom of the denominator, positive.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.FisherSnedecor(1.0, 4.0).mean
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1, validate_args=False)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2, validate_args=False)
        shape: Shape = () if is_number(df1) and is_number(df2) else self.df1.size()
        super().__init__(shape, validate_args=validate_args)

    def _expand_parts(self, new: Any, shape: Any) -> None:
        new._gamma1, new._gamma2 = self._gamma1.expand(shape), self._gamma2.expand(shape)

    @property
    def mean(self) -> Tensor:
        return _ops.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return _ops.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        m, n = self.df1, self.df2
        variance = 2 * n.square() * (m + n - 2) / (m * (n - 2).square() * (n - 4))
        return _ops.where(n > 4, variance, math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = tuple(sample_shape)
        # Both are of mean 1 / 2: their quotient is that of means of squares.
        above, below = self._gamma1.rsample(shape), self._gamma2.rsample(shape)
        made = above / below.clamp(min=finfo(below.dtype).tiny)
        return made.clamp(min=finfo(made.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2 = self.df1 * 0.5, self.df2 * 0.5
        quotient = self.df1 / self.df2
        constant = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        middle = half1 * quotient.log() + (half1 - 1) * value.log()
        return constant + middle - (half1 + half2) * (quotient * value).log1p()
