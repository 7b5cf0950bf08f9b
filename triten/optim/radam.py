"""RAdam: Adam whose first steps are not adaptive."""

from __future__ import annotations

from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from .optimizer import Group, Params
from .single import SingleOptimizer, check_moments, recorded_rate_of

__all__ = ["RAdam"]


class RAdam(SingleOptimizer):
    """RAdam: Adam with a rectified scale in early steps (`torch.optim.RAdam`; Liu and others, 2020).

    Args:
        params, lr, eps, foreach, maximize, capturable, differentiable: as of `Adamax`.
        betas, weight_decay, decoupled_weight_decay: as of `NAdam`.

    Raises:
        ValueError: an option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.RAdam([w], lr=0.25)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.5, 0.5]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_moments(lr, betas, eps, weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )  # fmt: skip

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Return zeros for both running means."""
        return {name: _ops.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Update both running means, then apply a step, rectified once the variance is tractable."""
        beta1, beta2 = group["betas"]
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        squares = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        step = state["exp_avg"] / (1 - beta1**count) * recorded_rate_of(group)
        correction = 1 - beta2**count
        rho_inf = 2 / (1 - beta2) - 1
        rho = rho_inf - 2 * count * beta2**count / correction

        def scale() -> Any:
            shares = (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)
            return (correction * shares) ** 0.5 / (squares.sqrt() + group["eps"])

        if group["capturable"]:
            parameter.sub_(step * _ops.where(rho > 5.0, scale(), 1.0))
        else:
            parameter.sub_(step * scale() if rho > 5.0 else step)
