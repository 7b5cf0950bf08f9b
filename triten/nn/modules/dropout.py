"""Dropout layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """Base class of dropout layers: the probability and the `inplace` flag."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:  # the operator refuses NaN
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Dropout (`torch.nn.Dropout`; Hinton et al., 2012).

    In training, each element is set to zero with probability `p`, and the others are multiplied by 1 / (1 - p). In
    evaluation the input is returned.

    Args:
        p: The probability of zero, from 0 to 1. Default: 0.5.
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: any shape.
        output: The shape of the input.

    Raises:
        ValueError: `p` is outside [0, 1].

    Example:
        >>> import triten as tt
        >>> tt.nn.Dropout(0.2).eval()(tt.ones(3)).tolist()
        [1.0, 1.0, 1.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply `functional.dropout` in training mode, else return `input`."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Dropout of whole channels of (N, C, L) or (C, L) (`torch.nn.Dropout1d`).

    Args:
        p: The probability of zero, from 0 to 1. Default: 0.5.
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: (N, C, L) or (C, L).
        output: The shape of the input.

    Raises:
        ValueError: `p` is outside [0, 1].

    Example:
        >>> import triten as tt
        >>> tt.nn.Dropout1d(0.2).eval()(tt.ones(1, 1, 2)).tolist()
        [[[1.0, 1.0]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply `functional.dropout1d` in training mode, else return `input`."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Dropout of whole channels of (N, C, H, W) (`torch.nn.Dropout2d`; Tompson et al., 2015).

    Args:
        p: The probability of zero, from 0 to 1. Default: 0.5.
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: (N, C, H, W).
        output: The shape of the input.

    Raises:
        ValueError: `p` is outside [0, 1].

    Example:
        >>> import triten as tt
        >>> tt.nn.Dropout2d(0.2).eval()(tt.ones(1, 1, 1, 2)).tolist()
        [[[[1.0, 1.0]]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply `functional.dropout2d` in training mode, else return `input`."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W) (`torch.nn.Dropout3d`).

    Args:
        p: The probability of zero, from 0 to 1. Default: 0.5.
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W).
        output: The shape of the input.

    Raises:
        ValueError: `p` is outside [0, 1].

    Example:
        >>> import triten as tt
        >>> tt.nn.Dropout3d(0.2).eval()(tt.ones(1, 1, 1, 2)).tolist()
        [[[[1.0, 1.0]]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply `functional.dropout3d` in training mode, else return `input`."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that preserves mean and variance, for `SELU` (`torch.nn.AlphaDropout`; Klambauer et al., 2017).

    Args:
        p: The probability of zero, from 0 to 1. Default: 0.5.
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: any shape.
        output: The shape of the input.

    Raises:
        ValueError: `p` is outside [0, 1].

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

    Args:
        p: The probability of zero, from 0 to 1. Default: 0.5.
        inplace: If True, write the result into the input. Default: False.

    Shape:
        input: (N, C, *).
        output: The shape of the input.

    Raises:
        ValueError: `p` is outside [0, 1].

    Example:
        >>> import triten as tt
        >>> tt.nn.FeatureAlphaDropout(0.2).eval()(tt.ones(1, 1, 2)).tolist()
        [[[1.0, 1.0]]]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply `functional.feature_alpha_dropout` in training mode, else return `input`."""
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
