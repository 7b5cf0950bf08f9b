"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.tensor import Tensor
from . import constraints
from .gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The chi-squared distribution (`torch.distributions.Chi2`).

    A gamma distribution of shape df / 2 and rate 1 / 2: the sum of df squared standard normal numbers.

    Args:
        df: The degrees of freedom, positive.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: `df` is not positive.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Chi2(3.0).mean
        tensor(3.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"df": constraints.positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def _expand_parts(self, new: Any, shape: Any) -> None:
        new.concentration, new.rate = self.concentration.expand(shape), self.rate.expand(shape)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2
