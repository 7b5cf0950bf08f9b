"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from . import constraints
from .chi2 import Chi2
from .distribution import Distribution, Shape
from .utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Student's t distribution (`torch.distributions.StudentT`).

    Density proportional to (1 + z^2 / df)^(-(df + 1) / 2) with z = (x - loc) / scale.

    Args:
        df: The degrees of freedom, positive.
        loc: The location, real.
        scale: The scale, positive.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.StudentT(4.0).variance
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df, validate_args=False)
        super().__init__(self.df.size(), validate_args=validate_args)

    def _expand_parts(self, new: Any, shape: Any) -> None:
        new._chi2 = self._chi2.expand(shape)

    @property
    def mean(self) -> Tensor:
        return _ops.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        variance = self.scale.square() * self.df / (self.df - 2)
        undefined = _ops.where(self.df > 1, math.inf, math.nan).to(variance.dtype)
        return _ops.where(
            self.df > 2, _ops.where(self.df == math.inf, self.scale.square(), variance), undefined
        )

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.df)
        squares = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * noise * (squares / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        half = 0.5 * self.df
        constant = self.scale.log() + 0.5 * (self.df.log() + math.log(math.pi)) + half.lgamma()
        return (half + 0.5).lgamma() - constant - (half + 0.5) * (z.square() / self.df).log1p()

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        slope = (half + 0.5) * ((half + 0.5).digamma() - half.digamma())
        return self.scale.log() + slope + 0.5 * self.df.log() + beta
