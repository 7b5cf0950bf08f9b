"""Adam's kin: Adamax, NAdam and RAdam."""

from __future__ import annotations

from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from .optimizer import Group, Params, Rate, check_number
from .single import SingleOptimizer, check_betas, check_rate, counter, descend, rate_of

__all__ = ["Adamax", "NAdam", "RAdam"]


class Adamax(SingleOptimizer):
    """Adam by the largest gradient in place of the mean square (`torch.optim.Adamax`; Kingma and Ba, 2015, section 7).

    Args:
        params: parameters, or groups of them.
        lr: the rate, a number or a tensor of one element.
        betas: how much of the gradients' mean and of their largest magnitude is kept.
        eps: what is added to a magnitude.
        weight_decay: a factor of the parameters that is added to their gradients.
        foreach: accepted for PyTorch's sake.
        maximize: whether to climb.
        differentiable: whether gradients go through the step.
        capturable: counts of steps stand on the parameters' device, so that a graph may capture a step.

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
        _check(lr, betas, eps, weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
                "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
            },
        )  # fmt: skip

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Zeros: the mean and the largest magnitude."""
        return {name: _ops.zeros_like(parameter) for name in ("exp_avg", "exp_inf")}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Both running values, then the step."""
        beta1, beta2 = group["betas"]
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        largest = _ops.maximum(state["exp_inf"] * beta2, gradient.abs() + group["eps"])
        state["exp_inf"].copy_(largest)
        descend(parameter, state["exp_avg"], largest, rate_of(group) / (1 - beta1**count))


class NAdam(SingleOptimizer):
    """Adam with Nesterov's momentum (`torch.optim.NAdam`; Dozat, 2016).

    Args:
        params, lr, eps, foreach, maximize, capturable, differentiable: as of `Adamax`.
        betas: how much of the means of gradients and of their squares is kept.
        weight_decay: a factor of the parameters: added to their gradients, or, if decoupled, taken off by itself.
        momentum_decay: how fast the first of `betas` approaches its value.
        decoupled_weight_decay: whether it is AdamW's.

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
        _check(lr, betas, eps, weight_decay)
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
        """Zeros, and the product of the momenta so far."""
        means = {name: _ops.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        return {"mu_product": counter(group, parameter, 1.0), **means}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Both means, then a step by the gradient and one by their mean."""
        beta1, beta2 = group["betas"]
        decay, lr = group["momentum_decay"], rate_of(group)
        now, following = (beta1 * (1.0 - 0.5 * 0.96 ** ((count + later) * decay)) for later in (0, 1))
        state["mu_product"] *= now
        product = state["mu_product"] if group["capturable"] else state["mu_product"].item()
        mean = state["exp_avg"].lerp_(gradient, 1 - beta1)
        squares = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        root = (squares / (1 - beta2**count)).sqrt() + group["eps"]
        descend(parameter, gradient, root, lr * (1.0 - now) / (1.0 - product))
        descend(parameter, mean, root, lr * following / (1.0 - product * following))


class RAdam(SingleOptimizer):
    """Adam whose scale is corrected for the few squares of early steps (`torch.optim.RAdam`; Liu and others, 2020).

    Args:
        params, lr, eps, foreach, maximize, capturable, differentiable: as of `Adamax`.
        betas, weight_decay, decoupled_weight_decay: as of `NAdam`.

    Raises:
        ValueError: an option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.RAdam([w], lr=0.25)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.5, 0.5]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check(lr, betas, eps, weight_decay)
        super().__init__(
            params,
            {
                "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )  # fmt: skip

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Zeros: both means."""
        return {name: _ops.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Both means; then a step by the first, scaled by the second once there are squares enough."""
        beta1, beta2 = group["betas"]
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        squares = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        step = state["exp_avg"] / (1 - beta1**count) * rate_of(group)
        correction = 1 - beta2**count
        most = 2 / (1 - beta2) - 1
        length = most - 2 * count * beta2**count / correction

        def scale() -> Any:
            shares = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
            return (correction * shares) ** 0.5 / (squares.sqrt() + group["eps"])

        if group["capturable"]:
            parameter.sub_(step * _ops.where(length > 5.0, scale(), 1.0))
        else:
            parameter.sub_(step * scale() if length > 5.0 else step)


def _check(lr: Rate, betas: tuple[float, float], eps: float, weight_decay: float) -> None:
    check_rate(lr)
    check_number("epsilon value", eps)
    check_betas(betas)
    check_number("weight_decay value", weight_decay)
