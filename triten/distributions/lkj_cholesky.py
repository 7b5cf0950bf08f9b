"""The LKJ distribution of Cholesky factors of correlation matrices."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import finfo
from ..runtime.size import Size
from . import constraints
from .beta import Beta
from .distribution import Distribution, Shape
from .utils import _standard_normal, broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """The LKJ distribution of Cholesky factors L of correlation matrices (`torch.distributions.LKJCholesky`).

    The density of L L^T is proportional to det(L L^T)^(concentration - 1): uniform for 1, the more concentrated at the
    identity the greater. Source: D. Lewandowski, D. Kurowicka, H. Joe, "Generating random correlation matrices based
    on vines and extended onion method" (2009), section 3.

    Args:
        dim: The size of the matrices, at least 2.
        concentration: The shape, positive.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: `dim` is less than 2, or the shape is not positive.

    Example:
        >>> import triten as tt
        >>> tt.distributions.LKJCholesky(3, 0.5).sample().shape
        triten.Size([3, 3])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _kept = ("dim",)

    def __init__(
        self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # Row i of the factor has the squared distance of i of its numbers from zero distributed like this.
        order = _ops.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        order = _ops.cat([order.new_zeros((1,)), order])
        rest = self.concentration.unsqueeze(-1) + 0.5 * (dim - 2) - 0.5 * order
        self._beta = Beta(order + 0.5, rest)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args=validate_args)

    def _expand_parts(self, new: Any, shape: Size) -> None:
        new._beta = self._beta.expand((*shape, self.dim))

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            squared = self._beta.sample(sample_shape).unsqueeze(-1)
            noise = _standard_normal(self._extended_shape(sample_shape), self.concentration).tril(-1)
            length = noise.square().sum(-1, True).sqrt()
            # The first row has no direction.
            direction = _ops.where(length > 0, noise / length, 0.0)
            rows = squared.sqrt() * direction
            left = (1 - rows.square().sum(-1)).clamp(min=finfo(rows.dtype).tiny)
            return rows + left.sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(0, -2, -1)[..., 1:]
        order = _ops.arange(2, self.dim + 1, dtype=value.dtype, device=self.concentration.device)
        power = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = (power * diagonal.log()).sum(-1)
        rows = self.dim - 1
        alpha = self.concentration + 0.5 * rows
        constant = 0.5 * rows * math.log(math.pi) + _ops.mvlgamma(alpha - 0.5, rows)
        return unnormalized - (constant - alpha.lgamma() * rows)
