"""Optimizers that step one parameter after the other: an algorithm says what a state begins with, and the update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import float32, float64, get_default_dtype
from .optimizer import (
    Group,
    Loss,
    Optimizer,
    Rate,
    _use_grad_for_differentiable,
    check_capturable,
    check_number,
    loss_of,
)

__all__ = ["SingleOptimizer"]


class SingleOptimizer(Optimizer):
    """The steps that a subclass's `begin` and `update` describe, with what is common to all of them.

    Groups have ``maximize``; ``weight_decay``, unless it is decoupled, is added to gradients; of complex parameters
    the update sees pairs of real numbers; a state counts its steps in ``step``, on the host unless `capturable`.
    """

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """The state of a parameter before its first step, ``step`` left out."""
        raise NotImplementedError(f"{type(self).__name__} has no state")

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Change the parameter and its state; `count` is the step's number, a tensor where steps are captured."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def prepare(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """The state of a parameter, made if there is none."""
        state = self.state[parameter]
        if not state:
            state["step"] = counter(group, parameter)
            state.update(self.begin(group, parameter))
        return state

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Loss]) -> Loss: ...
    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Loss] | None = None) -> Loss | None:
        """One step; gives the closure's loss."""
        loss = loss_of(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step_one(group, self.prepare(group, parameter), parameter, parameter.grad)
        return loss

    def _step_one(self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor) -> None:
        check_capturable(group, parameter)
        state["step"] += 1
        count = state["step"] if group.get("capturable") else state["step"].item()
        if group["maximize"]:
            gradient = -gradient
        decay = group.get("weight_decay", 0)
        if decay != 0:
            if group.get("decoupled_weight_decay"):
                parameter.mul_(1 - rate_of(group) * decay)
            else:
                gradient = gradient.add(parameter, alpha=decay)
        if parameter.is_complex():
            state = {
                name: _ops.view_as_real(each) if isinstance(each, Tensor) and each.is_complex() else each
                for name, each in state.items()
            }
            parameter, gradient = _ops.view_as_real(parameter), _ops.view_as_real(gradient)
        self.update(group, state, parameter, gradient, count)


def counter(group: Group, parameter: Tensor, value: float = 0.0) -> Tensor:
    """A number that steps change, as a tensor: on the host unless it is captured with the step."""
    dtype = float64 if get_default_dtype() is float64 else float32
    device = parameter.device if group.get("capturable") else "cpu"
    return _ops.full((), value, dtype=dtype, device=device)


def rate_of(group: Group) -> float:
    """The learning rate as a number."""
    lr = group["lr"]
    number: float = lr.item() if isinstance(lr, Tensor) else lr
    return number


def check_rate(lr: Rate) -> None:
    """Raises ValueError for a learning rate below 0 or of several elements."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check_number("learning rate", lr.item())
    check_number("learning rate", lr)


def check_betas(betas: tuple[float, float]) -> None:
    """Raises ValueError for what is no share below 1."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_moments(lr: Rate, betas: tuple[float, float], eps: float, weight_decay: float) -> None:
    """Raises ValueError for options of Adam's kin that are out of range."""
    check_rate(lr)
    check_number("epsilon value", eps)
    check_betas(betas)
    check_number("weight_decay value", weight_decay)


def descend(parameter: Tensor, numerator: Tensor, denominator: Tensor, size: Rate) -> None:
    """Take ``size * numerator / denominator`` off a parameter; a size that was captured is a tensor."""
    if isinstance(size, Tensor):
        parameter.sub_(numerator / denominator * size)
    else:
        parameter.addcdiv_(numerator, denominator, value=-size)
