"""Limited-memory BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..autograd import enable_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from .line_search import Point, strong_wolfe
from .optimizer import Loss, Optimizer, Params, _use_grad_for_differentiable
from .single import check_rate, rate_of

__all__ = ["LBFGS"]

CURVED = 1e-10
"""A change of gradients along a step counts from here on."""


class LBFGS(Optimizer):
    """L-BFGS: a quasi-Newton method with a limited history of steps (`torch.optim.LBFGS`; Liu and Nocedal, 1989).

    A step evaluates the loss several times, so that it takes a closure: one that clears gradients, computes the loss,
    and calls `backward`. There is one group of parameters.

    Args:
        params: parameters.
        lr: the length of a step, the first tried where there is a line search.
        max_iter: the directions of one step.
        max_eval: the evaluations of one step; ``max_iter * 5 // 4`` unless given.
        tolerance_grad: the largest component of a gradient that ends a step.
        tolerance_change: the change of parameters or loss that does.
        history_size: The number of stored steps.
        line_search_fn: ``"strong_wolfe"``, or None for steps of a length given.

    Raises:
        ValueError: several groups, or a rate that is out of its range.
        RuntimeError: for another line search.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.LBFGS([w], line_search_fn="strong_wolfe")
        >>> def loss():
        ...     optimizer.zero_grad()
        ...     found = ((w - tt.tensor([3.0, -1.0])) ** 2).sum()
        ...     found.backward()
        ...     return found
        >>> optimizer.step(loss).item()
        8.0
        >>> w.tolist()
        [3.0, -1.0]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported, but line_search_fn is {line_search_fn!r}")
        super().__init__(
            params,
            {
                "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Loss]) -> Loss: ...
    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Loss] | None = None) -> Loss | None:
        """Perform up to `max_iter` iterations and return the loss before the first one.

        Raises:
            TypeError: `closure` is None.
        """
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure, which computes the loss and its gradients anew")
        group = self.param_groups[0]
        parameters, lr = group["params"], rate_of(group)
        state = self.state[parameters[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with enable_grad():
            before = closure()
        loss, gradient, evaluated = float(before), flat_gradient(parameters), 1
        state["func_evals"] += 1
        if _largest(gradient) <= group["tolerance_grad"]:
            return before
        for number in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            first = state["n_iter"] == 1
            direction = gradient.neg() if first else self._direction(state, gradient)
            if first:
                state.update({"old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1})
            length = 1.0 / max(1.0, gradient.abs().sum().item()) * lr if first else lr
            slope = gradient.dot(direction).item()
            state.update(d=direction, t=length, prev_flat_grad=gradient, prev_loss=loss)
            if slope > -group["tolerance_change"]:
                break
            previous, tried = loss, 0
            last = number == group["max_iter"]
            if group["line_search_fn"] is not None:
                start = [parameter.clone() for parameter in parameters]

                def evaluate(
                    step: float, start: list[Tensor] = start, direction: Tensor = direction
                ) -> Point:
                    add_flat(parameters, direction, step)
                    with enable_grad():
                        step_loss = float(closure())
                    gradient = flat_gradient(parameters)
                    for parameter, value in zip(parameters, start, strict=True):
                        parameter.copy_(value)
                    return Point(step, step_loss, gradient, gradient.dot(direction).item())

                origin = Point(0.0, loss, gradient, slope)
                remaining = group["max_eval"] - evaluated
                best, tried = strong_wolfe(
                    evaluate, origin, length, _largest(direction), group["tolerance_change"], remaining
                )
                length, loss, gradient = best.step, best.loss, best.gradient
                state["t"] = length
                add_flat(parameters, direction, length)
            else:
                add_flat(parameters, direction, length)
                if not last:
                    with enable_grad():
                        loss = float(closure())
                    gradient, tried = flat_gradient(parameters), 1
            evaluated += tried
            state["func_evals"] += tried
            if (
                last
                or evaluated >= group["max_eval"]
                or _largest(gradient) <= group["tolerance_grad"]
                or _largest(direction) * abs(length) <= group["tolerance_change"]
                or abs(loss - previous) < group["tolerance_change"]
            ):
                break
        return before

    def _direction(self, state: dict[str, Any], gradient: Tensor) -> Tensor:
        """Compute the inverse Hessian times the gradient by the two-loop recursion over the stored steps."""
        gradient_change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        gradient_changes, steps, weights = state["old_dirs"], state["old_stps"], state["ro"]
        curvature = gradient_change.dot(step).item()
        if curvature > CURVED:
            if len(gradient_changes) == self.param_groups[0]["history_size"]:
                for remembered in (gradient_changes, steps, weights):
                    remembered.pop(0)
            gradient_changes.append(gradient_change)
            steps.append(step)
            weights.append(1.0 / curvature)
            state["H_diag"] = curvature / gradient_change.dot(gradient_change).item()
        direction, shares = gradient.neg(), [0.0] * len(gradient_changes)
        for i in reversed(range(len(gradient_changes))):
            shares[i] = steps[i].dot(direction).item() * float(weights[i])
            direction.add_(gradient_changes[i], alpha=-shares[i])
        direction.mul_(state["H_diag"])
        for i, share in enumerate(shares):
            direction.add_(
                steps[i], alpha=share - gradient_changes[i].dot(direction).item() * float(weights[i])
            )
        left = self.param_groups[0]["history_size"] - len(shares)
        state["al"] = [*shares, *[None] * left]
        return direction


def _largest(flat: Tensor) -> float:
    largest: float = flat.abs().max().item() if flat.numel() else 0.0
    return largest


def _flat(tensor: Tensor) -> Tensor:
    return _ops.view_as_real(tensor).reshape(-1) if tensor.is_complex() else tensor.reshape(-1)


def flat_gradient(parameters: list[Tensor]) -> Tensor:
    """Concatenate all gradients: zeros for missing ones, complex numbers as pairs."""
    parts = [_flat(_ops.zeros_like(each) if each.grad is None else each.grad.detach()) for each in parameters]
    return _ops.cat(parts)


def add_flat(parameters: list[Tensor], flat: Tensor, factor: float) -> None:
    """Add a multiple of what is one after the other to the parameters."""
    offset = 0
    for parameter in parameters:
        target = _ops.view_as_real(parameter) if parameter.is_complex() else parameter
        target.add_(flat[offset : offset + target.numel()].view(target.shape), alpha=factor)
        offset += target.numel()
