"""Adamax: Adam by the largest gradient."""

from __future__ import annotations

from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from .optimizer import Group, Params
from .single import SingleOptimizer, check_moments, descend, recorded_rate_of

__all__ = ["Adamax"]


class Adamax(SingleOptimizer):
    """Adamax: Adam with the infinity norm instead of the second moment (`torch.optim.Adamax`; Kingma and Ba, 2015,
    section 7).

    Args:
        params: The parameters, or dicts of parameter groups.
        lr: The learning rate, a number or a tensor of one element.
        betas: The decay rates of the gradients' mean and of their largest magnitude.
        eps: Added to a magnitude.
        weight_decay: The L2 penalty: this multiple of the parameters is added to their gradients.
        foreach: If False, step parameters on CUDA one by one, with bitwise identical results.
        maximize: If True, maximize the objective. Default: False.
        differentiable: If True, autograd records the step. Default: False.
        capturable: If True, keep step counts on the parameters' device, so that a CUDA graph can capture a step.

    Raises:
        ValueError: an option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.Adamax([w], lr=0.25)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.75, 0.75]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_moments(lr, betas, eps, weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
                "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Return zeros for the running mean and the running maximum magnitude."""
        return {name: _ops.zeros_like(parameter) for name in ("exp_avg", "exp_inf")}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Update the running mean and maximum, then apply the step."""
        beta1, beta2 = group["betas"]
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        largest = (state["exp_inf"] * beta2).maximum(gradient.abs() + group["eps"])
        state["exp_inf"].copy_(largest)
        descend(parameter, state["exp_avg"], largest, recorded_rate_of(group) / (1 - beta1**count))
