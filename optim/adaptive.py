"""Steps scaled by sums or means of squared gradients: Adagrad, Adadelta and RMSprop."""

from __future__ import annotations

from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from .optimizer import Group, Params, check_number
from .single import SingleOptimizer, check_rate, rate_of

__all__ = ["Adadelta", "Adagrad", "RMSprop"]


class RMSprop(SingleOptimizer):
    """Gradients divided by the root of their squares' running mean (`torch.optim.RMSprop`; Hinton's lecture 6, 2012).

    Args:
        params: parameters, or groups of them.
        lr: the rate, a number or a tensor of one element.
        alpha: how much of the squares' mean is kept.
        eps: what is added to its root.
        weight_decay: a factor of the parameters that is added to their gradients.
        momentum: how much of the last step is kept.
        centered: whether the squares' mean is taken about the gradients' mean (Graves, 2013).
        capturable: counts of steps stand on the parameters' device, so that a graph may capture a step.
        foreach: accepted for PyTorch's sake.
        maximize: whether to climb.
        differentiable: whether gradients go through the step.

    Raises:
        ValueError: an option is out of its range.

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
        """Zeros: the squares' mean, and what the options ask for."""
        names = [
            "square_avg",
            *["momentum_buffer"] * (group["momentum"] > 0),
            *["grad_avg"] * group["centered"],
        ]
        return {name: _ops.zeros_like(parameter) for name in names}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """The mean, then the step."""
        kept, lr = group["alpha"], rate_of(group)
        variance = squares = state["square_avg"]
        squares.mul_(kept).addcmul_(gradient, gradient, value=1 - kept)
        if group["centered"]:
            mean = state["grad_avg"].lerp_(gradient, 1 - kept)
            variance = squares.addcmul(mean, mean, value=-1)
        root = variance.sqrt() + group["eps"]
        if group["momentum"] > 0:
            last = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(gradient, root)
            parameter.add_(last, alpha=-lr)
        else:
            parameter.addcdiv_(gradient, root, value=-lr)


class Adagrad(SingleOptimizer):
    """Gradients divided by the root of the sum of their squares (`torch.optim.Adagrad`; Duchi and others, 2011).

    Args:
        params, lr, weight_decay, eps, foreach, maximize, differentiable: as of `RMSprop`.
        lr_decay: how much the rate falls with each step.
        initial_accumulator_value: where the sums begin.
        fused: accepted for PyTorch's sake.

    Raises:
        ValueError: an option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.Adagrad([w], lr=0.5)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.5, 0.5]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_number("lr_decay value", lr_decay)
        check_number("weight_decay value", weight_decay)
        check_number("initial_accumulator_value value", initial_accumulator_value)
        check_number("epsilon value", eps)
        if fused and differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if fused and foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        super().__init__(
            params,
            {
                "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
                "differentiable": differentiable, "fused": fused,
            },
        )  # fmt: skip
        for group in self.param_groups:
            for parameter in group["params"]:
                self.prepare(group, parameter)

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """The sums, which begin where the options say."""
        start = self.defaults["initial_accumulator_value"]
        return {"sum": _ops.full_like(parameter, complex(start, start) if parameter.is_complex() else start)}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """The sum, then the step."""
        size = rate_of(group) / (1 + (count - 1) * group["lr_decay"])
        state["sum"].addcmul_(gradient, gradient)
        parameter.addcdiv_(gradient, state["sum"].sqrt() + group["eps"], value=-size)


class Adadelta(SingleOptimizer):
    """Gradients scaled by steps' running size over their own (`torch.optim.Adadelta`; Zeiler, 2012).

    Args:
        params, lr, weight_decay, foreach, capturable, maximize, differentiable: as of `RMSprop`.
        rho: how much of the means of squares is kept.
        eps: what is added to them.

    Raises:
        ValueError: an option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.Adadelta([w], eps=0.25)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> bool((w < 1).all())
        True
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_number("epsilon value", eps)
        check_number("weight_decay value", weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
            },
        )  # fmt: skip

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Zeros: the means of the squares of gradients and of steps."""
        return {name: _ops.zeros_like(parameter) for name in ("square_avg", "acc_delta")}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Both means, and the step between them."""
        kept, eps = group["rho"], group["eps"]
        squares, steps = state["square_avg"], state["acc_delta"]
        squares.mul_(kept).addcmul_(gradient, gradient, value=1 - kept)
        step = (steps + eps).sqrt() / (squares + eps).sqrt() * gradient
        steps.mul_(kept).addcmul_(step, step, value=1 - kept)
        parameter.add_(step, alpha=-rate_of(group))
