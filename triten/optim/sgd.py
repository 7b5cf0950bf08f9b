"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from .optimizer import (
    Group,
    Loss,
    Optimizer,
    Params,
    _use_grad_for_differentiable,
    by_device,
    check_number,
    check_options,
    in_layout,
    loss_of,
    rate_for,
    spare_saved,
    takes_fused,
)

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum (`torch.optim.SGD`; Sutskever et al., 2013).

        g = grad + weight_decay * p; b = momentum * b + (1 - dampening) * g; p = p - lr * b

    The first step sets b to g. With `nesterov=True` the last line is p = p - lr * (g + momentum * b). Without
    momentum it is p = p - lr * g.

    Args:
        params: The parameters, or dicts of parameter groups.
        lr: The learning rate, a number or a tensor of one element. Default: 1e-3.
        momentum: The momentum factor. Default: 0.
        dampening: The share of the gradient that the momentum leaves out. Default: 0.
        weight_decay: The L2 penalty. Default: 0.
        nesterov: If True, use Nesterov momentum. Default: False.
        maximize: If True, maximize the objective. Default: False.
        foreach, fused: If False, run one operation at a time. Otherwise a step is one launch for each device if all
            parameters are floating; `fused=True` requires that. Default: None.
        differentiable: If True, autograd records the step. Default: False.

    Raises:
        ValueError: An option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.SGD([w], lr=0.5, momentum=0.9)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.0, 0.0]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(lr, foreach, fused, differentiable)
        check_number("momentum value", momentum)
        check_number("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        self._step_supports_amp_scaling = bool(fused)
        super().__init__(
            params,
            {
                "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                "nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
                "fused": fused,
            },
        )  # fmt: skip

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Loss]) -> Loss: ...
    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Loss] | None = None) -> Loss | None:
        """Perform one step and return the closure's loss."""
        loss = loss_of(closure)
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            gradients = [parameter.grad for parameter in parameters]
            if not parameters:
                continue
            if takes_fused(group, parameters, gradients):
                self._step_fused(group, parameters, gradients)
            else:
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    self._step_single(group, parameter, gradient)
        return loss

    def _step_fused(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        with_buffer = group["momentum"] != 0
        begun = [with_buffer and "momentum_buffer" in self.state[parameter] for parameter in parameters]
        for indices in by_device(parameters):
            # The first step of a parameter creates its momentum buffer; such parameters form their own group.
            for first in (True, False) if with_buffer else (False,):
                own = [i for i in indices if not with_buffer or begun[i] != first]
                if not own:
                    continue
                if first:
                    for i in own:
                        self.state[parameters[i]]["momentum_buffer"] = _ops.empty_like(parameters[i])
                _ops._fused_sgd_(
                    [parameters[i] for i in own],
                    [in_layout(gradients[i], parameters[i]) for i in own],
                    [self.state[parameters[i]]["momentum_buffer"] for i in own] if with_buffer else [],
                    weight_decay=group["weight_decay"],
                    momentum=group["momentum"],
                    lr=rate_for(group["lr"], parameters[own[0]].device),
                    dampening=group["dampening"],
                    nesterov=group["nesterov"],
                    maximize=group["maximize"],
                    is_first_step=first,
                    grad_scale=getattr(self, "grad_scale", None),
                    found_inf=getattr(self, "found_inf", None),
                )

    def _step_single(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        if group["maximize"]:
            gradient = -gradient
        if group["weight_decay"]:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        if group["momentum"]:
            state = self.state[parameter]
            if group["differentiable"]:
                spare_saved(state)
            buffer = state.get("momentum_buffer")
            if buffer is None:
                first = gradient if group["differentiable"] else gradient.detach()
                buffer = state["momentum_buffer"] = first.clone()
            else:
                buffer.mul_(group["momentum"]).add_(gradient, alpha=1 - group["dampening"])
            gradient = gradient.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
        lr = group["lr"]
        if isinstance(lr, Tensor):
            parameter.sub_(gradient * lr)
        else:
            parameter.add_(gradient, alpha=-lr)
