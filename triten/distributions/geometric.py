"""The geometric distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from . import constraints
from .distribution import Shape
from .probabilities import ByProbabilities
from .utils import broadcast_all, open_uniform

__all__ = ["Geometric"]


class Geometric(ByProbabilities):
    """The geometric distribution (`torch.distributions.Geometric`).

    P(k) = (1 - p)^k * p for k = 0, 1, 2, ...: the number of failures before the first success.

    Args:
        probs: The probability of success, in (0, 1].
        logits: Its log-odds, instead of `probs`.
        validate_args: If True, validate the arguments. Default: None, the global default.

    Raises:
        ValueError: Both of `probs` and `logits` are given, or none; or one lies outside its constraint.

    Example:
        >>> import triten as tt
        >>> tt.distributions.Geometric(probs=0.5).mean
        tensor(1.)
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        shape, _ = self._take(probs, logits)
        super().__init__(shape, validate_args=validate_args)
        if self._validate_args and self._is_by_probs and not bool((self.probs > 0).all()):
            value = self.probs
            raise ValueError(
                "Expected parameter probs "
                f"({type(value).__name__} of shape {tuple(value.shape)}) "
                f"of distribution {self!r} "
                f"to be positive but found invalid values:\n{value}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return _ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            u = open_uniform(self._extended_shape(sample_shape), self.probs)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        return _ops.special_xlog1py(value, -probs) + probs.log()

    def entropy(self) -> Tensor:
        p = self.probs
        return -(_ops.special_xlog1py(1 - p, -p) + _ops.xlogy(p, p)) / p
