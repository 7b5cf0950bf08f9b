"""Resilient backpropagation: steps by the signs of gradients."""

from __future__ import annotations

from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from .optimizer import Group, Params
from .single import SingleOptimizer, check_rate, rate_of

__all__ = ["Rprop"]


class Rprop(SingleOptimizer):
    """Rprop: each element's step grows while its gradient keeps its sign (`torch.optim.Rprop`; Riedmiller and Braun,
    1993).

    Args:
        params: The parameters, or dicts of parameter groups.
        lr: the first step of every element, a number or a tensor of one element.
        etas: The factors of a step size if the gradient's sign changes, and if it stays.
        step_sizes: the smallest and the largest step.
        capturable: If True, keep step counts on the parameters' device, so that a CUDA graph can capture a step.
        foreach: Accepted but ignored.
        maximize: If True, maximize the objective. Default: False.
        differentiable: If True, autograd records the step. Default: False.

    Raises:
        ValueError: an option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.Rprop([w], lr=0.25)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.75, 0.75]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(
            params,
            {
                "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    steps_together = False  # by masks, which operators over lists do not take

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Initialize the previous gradient to zero and the step sizes to the learning rate."""
        lr = rate_of(group)
        first = complex(lr, lr) if parameter.is_complex() else lr
        return {"prev": _ops.zeros_like(parameter), "step_size": _ops.full_like(parameter, first)}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Update the step sizes, then the parameter. An element whose gradient changed sign does not move."""
        (shrink, grow), (min_step, max_step) = group["etas"], group["step_sizes"]
        agreement = gradient.detach() * state["prev"].detach()
        changed = agreement < 0
        factor = _ops.ones_like(gradient).masked_fill(agreement > 0, grow).masked_fill(changed, shrink)
        state["step_size"].mul_(factor).clamp_(min_step, max_step)
        gradient = gradient.masked_fill(changed, 0)
        parameter.addcmul_(gradient.sign(), state["step_size"], value=-1)
        state["prev"].copy_(gradient)
