"""Adadelta: steps scaled by running means of squared gradients and of squared steps."""

from __future__ import annotations

from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from .optimizer import Group, Params, check_number
from .single import SingleOptimizer, check_rate, descend_by, recorded_rate_of

__all__ = ["Adadelta"]


class Adadelta(SingleOptimizer):
    """Adadelta: gradients scaled by the RMS of past steps over the RMS of past gradients (`torch.optim.Adadelta`;
    Zeiler, 2012).

    Args:
        params, lr, weight_decay, foreach, capturable, maximize, differentiable: as of `RMSprop`.
        rho: The decay rate of the means of squares.
        eps: Added to the means, for numerical stability.

    Raises:
        ValueError: an option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.Adadelta([w], eps=0.25)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> bool((w < 1).all())
        True
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_number("epsilon value", eps)
        check_number("weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
            },
        )  # fmt: skip

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Return zeros for the running means of squared gradients and squared steps."""
        return {name: _ops.zeros_like(parameter) for name in ("square_avg", "acc_delta")}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Update both running means and apply the step."""
        rho, eps = group["rho"], group["eps"]
        squares, steps = state["square_avg"], state["acc_delta"]
        squares.mul_(rho).addcmul_(gradient, gradient, value=1 - rho)
        step = (steps + eps).sqrt() / (squares + eps).sqrt() * gradient
        steps.mul_(rho).addcmul_(step, step, value=1 - rho)
        descend_by(parameter, step, recorded_rate_of(group))
