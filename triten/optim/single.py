"""Optimizers of an update of a parameter alone: an algorithm says what a state begins with, and the update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..dispatch.functions.together import go_together
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.layout import strided
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
    spare_saved,
)
from .tensor_list import TensorList

__all__ = ["SingleOptimizer"]


class SingleOptimizer(Optimizer):
    """Base class of optimizers that define `begin` and `update`.

    - Groups have ``maximize``.
    - ``weight_decay``, unless it is decoupled, is added to gradients.
    - `update` sees complex parameters as pairs of real numbers.
    - A state counts its steps in ``step``, on the host unless `capturable`.
    - Real parameters on CUDA step together, bitwise identical to single steps, unless ``foreach`` is False.
    """

    steps_together = True
    """Whether `update` may get a `TensorList` for each tensor, of parameters whose states have the same numbers."""

    takes_sparse = False
    """Whether `update` is called with sparse gradients."""

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Return a parameter's initial state, without ``step``. Every subclass overrides this method.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no state")

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Update a parameter and its state. Every subclass overrides this method.

        Args:
            group: The options of the parameter's group.
            state: The parameter's state.
            parameter: The parameter, updated in-place.
            gradient: Its gradient.
            count: The step's number; a tensor if steps are captured.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def _kept_number(self, group: Group, parameter: Tensor, value: float) -> Tensor:
        return counter(group, parameter, value)

    def prepare(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Return a parameter's state; create it at the first step."""
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
        """Perform one step and return the closure's loss.

        Raises:
            RuntimeError: A gradient is sparse and the optimizer does not support that.
        """
        loss = loss_of(closure)
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not self.takes_sparse and any(
                parameter.grad.layout is not strided for parameter in parameters
            ):
                name = type(self).__name__
                raise RuntimeError(
                    f"{name} does not support sparse gradients, please consider SparseAdam instead"
                )
            for parameter in parameters:
                check_capturable(group, parameter)
            states = [self.prepare(group, parameter) for parameter in parameters]
            for state in states:
                state["step"] += 1
            for together in self._groups(group, parameters, states):
                rows = [(parameters[i], states[i]) for i in together]
                if len(rows) == 1:
                    parameter, state = rows[0]
                    self._step_one(group, state, parameter, parameter.grad)
                else:
                    self._step_together(group, rows)
        return loss

    def _groups(
        self, group: Group, parameters: list[Tensor], states: list[dict[str, Any]]
    ) -> list[list[int]]:
        """Group the indices of parameters that step together in foreach operators, with equal host scalars."""
        if not self.steps_together or group["foreach"] is False or group["differentiable"]:
            return [[i] for i in range(len(parameters))]
        groups: dict[Any, list[int]] = {}
        for i, (parameter, state) in enumerate(zip(parameters, states, strict=True)):
            gradient = parameter.grad
            is_plain = (
                not group.get("capturable")
                and gradient is not None
                and gradient.dtype is parameter.dtype
                and parameter.is_floating_point()
                and go_together([parameter], [gradient])
            )
            numbers = [state[name].item() for name in host_numbers(state)] if is_plain else [i, None]
            groups.setdefault((parameter.device, *numbers), []).append(i)
        return list(groups.values())

    def _step_together(self, group: Group, rows: list[tuple[Tensor, dict[str, Any]]]) -> None:
        parameters, states = [parameter for parameter, _ in rows], [state for _, state in rows]
        shared = host_numbers(states[0])
        state = {
            name: value if name in shared else TensorList([each[name] for each in states])
            for name, value in states[0].items()
        }
        # The update speaks to the lists as to tensors.
        lists: Any = TensorList(parameters)
        gradients: Any = TensorList([parameter.grad for parameter in parameters])  # type: ignore[misc]
        self._step_one(group, state, lists, gradients)
        for other in states[1:]:
            for name in shared:
                if name != "step":
                    other[name].copy_(state[name])

    def _step_one(self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Any) -> None:
        if group["differentiable"]:
            spare_saved(state)
        count = state["step"] if group.get("capturable") else state["step"].item()
        if group["maximize"]:
            gradient = -gradient
        decay = group.get("weight_decay", 0)
        if decay != 0:
            if group.get("decoupled_weight_decay"):
                parameter.mul_(1 - recorded_rate_of(group) * decay)
            elif isinstance(gradient, Tensor) and gradient.layout is not strided:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            else:
                gradient = gradient.add(parameter, alpha=decay)
        if parameter.is_complex():
            state = {
                name: _ops.view_as_real(each) if isinstance(each, Tensor) and each.is_complex() else each
                for name, each in state.items()
            }
            parameter, gradient = _ops.view_as_real(parameter), _ops.view_as_real(gradient)
        self.update(group, state, parameter, gradient, count)


def host_numbers(state: dict[str, Any]) -> list[str]:
    """Return the names of a CUDA parameter's states that are host scalars."""
    return [name for name, value in state.items() if value.device.type == "cpu"]


def counter(group: Group, parameter: Tensor, value: float = 0.0) -> Tensor:
    """Create a scalar tensor that steps update: on the host unless `capturable`."""
    dtype = float64 if get_default_dtype() is float64 else float32
    device = parameter.device if group.get("capturable") else "cpu"
    return _ops.full((), value, dtype=dtype, device=device)


def rate_of(group: Group) -> float:
    """Return the learning rate as a Python number."""
    lr = group["lr"]
    number: float = lr.item() if isinstance(lr, Tensor) else lr
    return number


def recorded_rate_of(group: Group) -> Rate:
    """Return the learning rate: the tensor itself if a differentiable step is to have its gradient."""
    lr = group["lr"]
    is_recorded = isinstance(lr, Tensor) and group["differentiable"] and lr.requires_grad
    return lr if is_recorded else rate_of(group)


def check_rate(lr: Rate) -> None:
    """Raise ValueError for a learning rate below 0, or of several elements."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        check_number("learning rate", lr.item())
    check_number("learning rate", lr)


def check_betas(betas: tuple[float, float]) -> None:
    """Raise ValueError for betas outside [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_moments(lr: Rate, betas: tuple[float, float], eps: float, weight_decay: float) -> None:
    """Raise ValueError if an option of Adam or a similar optimizer is out of range."""
    check_rate(lr)
    check_number("epsilon value", eps)
    check_betas(betas)
    check_number("weight_decay value", weight_decay)


def descend(parameter: Tensor, numerator: Tensor, denominator: Tensor, size: Rate) -> None:
    """Take ``size * numerator / denominator`` off a parameter; a captured or recorded size is a tensor."""
    if isinstance(size, Tensor):
        parameter.sub_(numerator / denominator * size)
    else:
        parameter.addcdiv_(numerator, denominator, value=-size)


def descend_by(parameter: Tensor, step: Tensor, size: Rate) -> None:
    """Take ``size * step`` off a parameter; a recorded size is a tensor."""
    if isinstance(size, Tensor):
        parameter.sub_(step * size)
    else:
        parameter.add_(step, alpha=-size)
