"""RMSprop: steps scaled by a running mean of squared gradients."""

from __future__ import annotations

from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from .optimizer import Group, Params, check_number
from .single import SingleOptimizer, check_rate, descend, descend_by, recorded_rate_of

__all__ = ["RMSprop"]


class RMSprop(SingleOptimizer):
    """RMSprop: gradients divided by the root of their squares' running mean (`torch.optim.RMSprop`; Hinton's lecture
        6, 2012).

        v = alpha * v + (1 - alpha) * g^2; b = momentum * b + g / (sqrt(v) + eps); p = p - lr * b

    With `centered=True` the square of the gradients' running mean is subtracted from v before the root.

    Args:
        params: The parameters, or dicts of parameter groups.
        lr: The learning rate, a number or a tensor of one element. Default: 1e-2.
        alpha: The decay rate of the mean of squares. Default: 0.99.
        eps: A number added to the root. Default: 1e-8.
        weight_decay: The L2 penalty: this multiple of the parameters is added to their gradients. Default: 0.
        momentum: The momentum factor. Default: 0.
        centered: If True, normalize by the variance of gradients (Graves, 2013). Default: False.
        capturable: If True, keep step counts on the parameters' device, so that a CUDA graph can capture a step.
            Default: False.
        foreach: If False, step parameters on CUDA one by one, with bitwise identical results. Default: None.
        maximize: If True, maximize the objective. Default: False.
        differentiable: If True, autograd records the step. Default: False.

    Raises:
        ValueError: An option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.RMSprop([w], lr=0.5, alpha=0.75)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.0, 0.0]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_number("epsilon value", eps)
        check_number("momentum value", momentum)
        check_number("weight_decay value", weight_decay)
        check_number("alpha value", alpha)
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable,
            },
        )  # fmt: skip

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Return zeros for the running mean of squares, and for the buffers that the options need."""
        names = [
            "square_avg",
            *["momentum_buffer"] * (group["momentum"] > 0),
            *["grad_avg"] * group["centered"],
        ]
        return {name: _ops.zeros_like(parameter) for name in names}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Update the running mean of squares, then the parameter."""
        alpha, lr = group["alpha"], recorded_rate_of(group)
        variance = squares = state["square_avg"]
        squares.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"].lerp_(gradient, 1 - alpha)
            variance = squares.addcmul(mean, mean, value=-1)
        root = variance.sqrt() + group["eps"]
        if group["momentum"] > 0:
            last = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(gradient, root)
            descend_by(parameter, last, lr)
        else:
            descend(parameter, gradient, root, lr)
