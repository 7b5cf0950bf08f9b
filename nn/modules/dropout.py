"""Layers that drop elements while training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """The probability of zeros, and whether they are written into the input."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:  # the operator refuses NaN
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Elements set to zero with probability `p` while training, the others scaled by 1 / (1 - p) (`torch.nn.Dropout`).

    Raises ValueError for a probability outside [0, 1].

    Example:
        >>> import triten as tt
        >>> tt.nn.Dropout(0.2).eval()(tt.ones(3)).tolist()
        [1.0, 1.0, 1.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply `functional.dropout` in training mode, else return `input`."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Whole channels of (N, C, L) or (C, L) set to zero while training (`torch.nn.Dropout1d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.Dropout1d(0.2).eval()(tt.ones(1, 1, 2)).tolist()
        [[[1.0, 1.0]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply `functional.dropout1d` in training mode, else return `input`."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Whole channels of (N, C, H, W) set to zero while training (`torch.nn.Dropout2d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.Dropout2d(0.2).eval()(tt.ones(1, 1, 1, 2)).tolist()
        [[[[1.0, 1.0]]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply `functional.dropout2d` in training mode, else return `input`."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) set to zero while training (`torch.nn.Dropout3d`).

    Example:
        >>> import triten as tt
        >>> tt.nn.Dropout3d(0.2).eval()(tt.ones(1, 1, 1, 2)).tolist()
        [[[[1.0, 1.0]]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply `functional.dropout3d` in training mode, else return `input`."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Elements dropped while training such that mean and variance stay, for `SELU` (`torch.nn.AlphaDropout`).

    Example:
        >>> import triten as tt
        >>> tt.nn.AlphaDropout(0.2).eval()(tt.ones(1, 1, 2)).tolist()
        [[[1.0, 1.0]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply `functional.alpha_dropout` in training mode, else return `input`."""
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels (`torch.nn.FeatureAlphaDropout`).

    Example:
        >>> import triten as tt
        >>> tt.nn.FeatureAlphaDropout(0.2).eval()(tt.ones(1, 1, 2)).tolist()
        [[[1.0, 1.0]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply `functional.feature_alpha_dropout` in training mode, else return `input`."""
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
