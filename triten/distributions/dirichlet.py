"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.autograd.function import Function
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from . import constraints
from .distribution import Shape
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution (`torch.distributions.Dirichlet`).

    Density proportional to the product of x_i^(a_i - 1), over vectors of positive numbers whose sum is 1.

    Args:
        concentration: The shapes a, positive, along the last dimension.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: A parameter lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Dirichlet(tt.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        # All shapes below 1: a corner, that of the greatest.
        corner = (self.concentration < 1).all(-1, True)
        indices = _ops.arange(mode.shape[-1], device=mode.device)
        greatest = (indices == self.concentration.argmax(-1, True)).to(mode.dtype)
        return _ops.where(corner, greatest, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        alpha = self.concentration.expand(self._extended_shape(sample_shape))
        made: Tensor = _DirichletSample.apply(alpha)
        return made

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return _ops.xlogy(a - 1.0, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a = self.concentration
        k, total = a.size(-1), a.sum(-1)
        spread = ((a - 1.0) * a.digamma()).sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma() - spread

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class _DirichletSample(Function):
    """Samples that move with the shapes: each with its own marginal's quantile, the others in proportion."""

    @staticmethod
    def forward(concentration: Tensor) -> Tensor:
        return _ops._sample_dirichlet(concentration)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(output, *inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        x, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        slope: Tensor = _ops._dirichlet_grad(x, concentration, total)
        made: Tensor = slope * (grad_output - (x * grad_output).sum(-1, True))
        return made
