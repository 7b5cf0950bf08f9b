"""Adafactor: a matrix's second moments as the product of a row and a column."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, overload

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import finfo
from .optimizer import Group, Loss, Optimizer, Params, _use_grad_for_differentiable, loss_of
from .single import counter, rate_of

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Steps of bounded size, with memory for the sums of rows and columns alone (`torch.optim.Adafactor`; Shazeer and
    Stern, 2018).

    Args:
        params: The parameters, or dicts of parameter groups.
        lr: the largest relative step, and the factor of the decay; a number or a tensor of one element.
        beta2_decay: the power of the step's number by which a new square's share falls.
        eps: the least denominator (None: the dtype's precision), and the least scale of a parameter.
        d: the root mean square beyond which an update is scaled down.
        weight_decay: The decoupled weight decay.
        foreach: Accepted but ignored.
        maximize: If True, maximize the objective. Default: False.

    Raises:
        ValueError: an option is out of its range.
        RuntimeError: a step for complex parameters.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.Adafactor([w], lr=0.5)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.5, 0.5]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value, fits in (
            ("Learning rate should be >= 0", lr, lr >= 0),
            ("beta2_decay should be <= 0", beta2_decay, beta2_decay <= 0),
            ("epsilon1 should be >= 0", eps[0], eps[0] is None or eps[0] >= 0),
            ("epsilon2 should be >= 0", eps[1], eps[1] >= 0),
            ("Clipping threshold d should be >= 1", d, d >= 1),
            ("weight_decay should be >= 0", weight_decay, weight_decay >= 0),
        ):
            if not fits:
                raise ValueError(f"{name} but is: {value}")
        super().__init__(
            params,
            {
                "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
                "foreach": foreach, "maximize": maximize,
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
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step_one(group, parameter, parameter.grad)
        return loss

    def _kept_number(self, group: Group, parameter: Tensor, value: float) -> Tensor:
        return counter(group, parameter, value)

    def _begin(self, group: Group, parameter: Tensor, gradient: Tensor) -> dict[str, Any]:
        if parameter.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        state = self.state[parameter]
        if not state:
            state["step"] = counter(group, parameter)
            if gradient.dim() > 1:
                sizes = gradient.shape
                state["row_var"] = gradient.new_zeros((*sizes[:-1], 1))
                state["col_var"] = gradient.new_zeros((*sizes[:-2], 1, sizes[-1]))
            else:
                state["variance"] = _ops.zeros_like(gradient)
        return state

    def _step_one(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        state, lr = self._begin(group, parameter, gradient), rate_of(group)
        least, least_scale = group["eps"]
        least = finfo(parameter.dtype).eps if least is None else least
        if group["maximize"]:
            gradient = -gradient
        state["step"] += 1
        count = state["step"].item()
        share = count ** group["beta2_decay"]
        size = max(least_scale, _root_mean_square(parameter)) * min(lr, 1 / math.sqrt(count))
        if group["weight_decay"] != 0:
            parameter.mul_(1 - lr * group["weight_decay"])
        if gradient.dim() > 1:
            rows, columns = state["row_var"], state["col_var"]
            for mean, dim in ((rows, -1), (columns, -2)):
                mean.lerp_(
                    _ops.linalg_vector_norm(gradient, 2, dim, True).square_() / gradient.shape[dim], share
                )
            squares = (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=least))
        else:
            squares = state["variance"].lerp_(gradient * gradient, share).clone()
        update = squares.clamp_(min=least * least).rsqrt_().mul_(gradient)
        parameter.add_(update, alpha=-size / max(1.0, _root_mean_square(update) / group["d"]))


def _root_mean_square(tensor: Tensor) -> float:
    norm: float = tensor.norm(2).item()
    return norm / math.sqrt(tensor.numel())
