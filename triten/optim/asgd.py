"""Gradient descent with the average of its parameters."""

from __future__ import annotations

from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from .optimizer import Group, Params, check_number
from .single import SingleOptimizer, check_rate, counter, rate_of

__all__ = ["ASGD"]


class ASGD(SingleOptimizer):
    """Averaged SGD: the state keeps the average of the parameters (`torch.optim.ASGD`; Polyak and Juditsky, 1992).

    Args:
        params: The parameters, or dicts of parameter groups.
        lr: The learning rate, a number or a tensor of one element.
        lambd: The decay of parameters and learning rate.
        alpha: the power by which the rate falls.
        t0: the step from which on parameters are averaged.
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
        >>> optimizer = tt.optim.ASGD([w], lr=0.5, lambd=0.0)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.tolist(), optimizer.state[w]["ax"].tolist()
        ([0.0, 0.0], [0.0, 0.0])
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_number("weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
                "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Initialize the rate, the averaging coefficient and the average."""
        return {
            "eta": counter(group, parameter, rate_of(group)),
            "mu": counter(group, parameter, 1.0),
            "ax": _ops.zeros_like(parameter),
        }

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Update the parameter and the average, then the coefficients of the next step."""
        fall, lr, average = group["lambd"], rate_of(group), state["ax"]
        if group["capturable"]:
            rate, share = state["eta"], state["mu"]
            parameter.mul_(1 - fall * rate).addcmul_(gradient, rate, value=-1)
            average.add_((parameter - average) * share)
            state["mu"].copy_(_ops.reciprocal(_ops.clamp(count - group["t0"], min=1.0)))
        else:
            rate, share = state["eta"].item(), state["mu"].item()
            parameter.mul_(1 - fall * rate).add_(gradient, alpha=-rate)
            if share == 1:
                average.copy_(parameter)
            else:
                average.add_((parameter - average) * share)
            state["mu"].fill_(1 / max(1, count - group["t0"]))
        following = lr / (1 + fall * lr * count) ** group["alpha"]
        state["eta"].copy_(following) if group["capturable"] else state["eta"].fill_(following)
