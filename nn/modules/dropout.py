"""Layers that drop elements while training."""

from __future__ import annotations

from typing import Any

from .. import functional as F
from .module import Module

__all__ = ["Dropout"]


class Dropout(Module):
    """Elements set to zero with probability `p` while training, the others scaled by 1 / (1 - p) (`torch.nn.Dropout`).

    Raises ValueError for a probability outside [0, 1].

    Example:
        >>> import triten as tt
        >>> tt.nn.Dropout(0.2).eval()(tt.ones(3)).tolist()
        [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Any) -> Any:
        """As many elements as the input."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
