"""Adagrad: steps scaled by the sum of squared gradients."""

from __future__ import annotations

from typing import Any

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.layout import sparse_coo
from .optimizer import Group, Params, check_number
from .single import SingleOptimizer, check_rate, descend, recorded_rate_of
from .sparse_adam import like

__all__ = ["Adagrad"]


class Adagrad(SingleOptimizer):
    """Adagrad: gradients divided by the root of the sum of their squares (`torch.optim.Adagrad`; Duchi and others,
    2011).

    Args:
        params, lr, weight_decay, eps, foreach, maximize, differentiable: as of `RMSprop`.
        lr_decay: The decay of the learning rate at each step.
        initial_accumulator_value: The initial value of the sums.
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

    takes_sparse = True

    def begin(self, group: Group, parameter: Tensor) -> dict[str, Any]:
        """Initialize the sums to `initial_accumulator_value`."""
        start = self.defaults["initial_accumulator_value"]
        return {"sum": _ops.full_like(parameter, complex(start, start) if parameter.is_complex() else start)}

    def update(
        self, group: Group, state: dict[str, Any], parameter: Tensor, gradient: Tensor, count: Any
    ) -> None:
        """Update the sum of squares, then the parameter."""
        size = recorded_rate_of(group) / (1 + (count - 1) * group["lr_decay"])
        if isinstance(gradient, Tensor) and gradient.layout is sparse_coo:
            # Rows without a gradient keep their sum and parameter.
            rows = gradient.coalesce()
            state["sum"].add_(rows.pow(2))
            spread = state["sum"].sparse_mask(rows)._values().sqrt_().add_(group["eps"])
            parameter.add_(like(rows, rows._values() / spread), alpha=-size)
            return
        state["sum"].addcmul_(gradient, gradient)
        descend(parameter, gradient, state["sum"].sqrt() + group["eps"], size)
