"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from .optimizer import Group, Params, check_number
from .single import SingleOptimizer, check_moments, counter, descend, recorded_rate_of

__all__ = ["NAdam"]


class NAdam(SingleOptimizer):
    """NAdam: Adam with Nesterov momentum (`torch.optim.NAdam`; Dozat, 2016).

    Args:
        params, lr, eps, foreach, maximize, capturable, differentiable: as of `Adamax`.
        betas: The decay rates of the means of gradients and of their squares.
        weight_decay: a factor of the parameters: added to their gradients, or, if decoupled, taken off by itself.
        momentum_decay: The rate at which the momentum approaches the first of `betas`.
        decoupled_weight_decay: If True, decay weights as AdamW does. Default: False.

    Raises:
        ValueError: an option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.NAdam([w], lr=0.25)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> bool((w < 1).all())
        True
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_moments(lr, betas, eps, weight_decay)
        check_number("momentum_decay value", momentum_decay)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
                "capturable": capturable, "differentiable": differentiable,
            },
        )  # fmt: skip

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Return zeros for both running means, and 1 for the product of the momenta."""
        means = {name: _ops.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        return {"mu_product": counter(group, parameter, 1.0), **means}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Update both running means, then apply a step by the gradient and one by the mean."""
        beta1, beta2 = group["betas"]
        decay, lr = group["momentum_decay"], recorded_rate_of(group)
        now, following = (beta1 * (1.0 - 0.5 * 0.96 ** ((count + later) * decay)) for later in (0, 1))
        state["mu_product"] *= now
        is_tensor = group["capturable"] or group["differentiable"]
        product = state["mu_product"] if is_tensor else state["mu_product"].item()
        mean = state["exp_avg"].lerp_(gradient, 1 - beta1)
        squares = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        root = (squares / (1 - beta2**count)).sqrt() + group["eps"]
        descend(parameter, gradient, root, lr * (1.0 - now) / (1.0 - product))
        descend(parameter, mean, root, lr * following / (1.0 - product * following))
