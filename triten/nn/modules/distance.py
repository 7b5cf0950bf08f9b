"""Distance layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import functional as F
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Module):
    """The cosine between two inputs along a dimension (`torch.nn.CosineSimilarity`).

    Example:
        >>> import triten as tt
        >>> tt.nn.CosineSimilarity(dim=0)(tt.tensor([1.0, 0.0]), tt.tensor([0.0, 2.0])).item()
        0.0
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Compute the cosine similarity along `dim`, which the result lacks."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the difference of two inputs along the last dimension (`torch.nn.PairwiseDistance`).

    Example:
        >>> import triten as tt
        >>> round(tt.nn.PairwiseDistance()(tt.tensor([3.0, 0.0]), tt.tensor([0.0, 4.0])).item(), 4)
        5.0
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Compute the distance along the last dimension."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
