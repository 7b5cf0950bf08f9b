"""Adam for sparse gradients (torch/optim/sparse_adam.py): elements without a gradient keep their moments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, overload

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.layout import sparse_coo, strided
from .optimizer import Loss, Optimizer, Params, Rate, _use_grad_for_differentiable, loss_of
from .single import check_betas, rate_of

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that updates moments and parameters only at the specified elements of gradients (`torch.optim.SparseAdam`).

    Args:
        params: Strided real parameters, whose gradients are of layout `tt.sparse_coo`, as an embedding with
            ``sparse=True`` has them.
        lr: The learning rate, above 0.
        betas: The decays of the moments, below 1.
        eps: Added to the root of the second moment, positive.
        maximize: If True, maximize the objective. Default: False.

    Raises:
        ValueError: An option is out of range, or a parameter is sparse or complex.

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2014), in the form of PyTorch.

    Example:
        >>> import triten as tt
        >>> table = tt.nn.Embedding(4, 2, sparse=True)
        >>> optimizer = tt.optim.SparseAdam(table.parameters(), lr=0.1)
        >>> before = table.weight.detach().clone()
        >>> table(tt.tensor([1])).sum().backward()
        >>> optimizer.step()
        >>> (table.weight.detach() != before).any(1).tolist()
        [False, True, False, False]
    """

    def __init__(
        self,
        params: Params,
        lr: Rate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        for kind, requirement, is_refused in (
            ("Sparse", "requires dense parameter tensors", lambda parameter: parameter.layout is not strided),
            ("Complex", "does not support complex parameters", lambda parameter: parameter.is_complex()),
        ):
            positions = [
                [i, j]
                for i, group in enumerate(self.param_groups)
                for j, parameter in enumerate(group["params"])
                if is_refused(parameter)
            ]
            if positions:
                raise ValueError(f"{kind} params at indices {positions}: SparseAdam {requirement}")

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Loss]) -> Loss: ...
    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Loss] | None = None) -> Loss | None:
        """Perform one step and return the closure's loss.

        Args:
            closure: Recomputes the loss and its gradients.

        Raises:
            RuntimeError: A gradient is dense.
        """
        loss = loss_of(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if parameter.grad.layout is not sparse_coo:
                    raise RuntimeError(
                        "SparseAdam does not support dense gradients, please consider Adam instead"
                    )
                state = self.state[parameter]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = _ops.zeros_like(parameter)
                    state["exp_avg_sq"] = _ops.zeros_like(parameter)
                state["step"] += 1
                _update(group, state, parameter, -parameter.grad if group["maximize"] else parameter.grad)
        return loss


def like(sparse: Any, values: Tensor) -> Any:
    """Return a coalesced tensor with the indices of `sparse` and other values."""
    return _ops._sparse_coo_tensor_unsafe(sparse._indices(), values, sparse.shape, is_coalesced=True)


def _update(group: dict[str, Any], state: dict[str, Any], parameter: Tensor, gradient: Any) -> None:
    """Apply Adam's step to the elements that have a gradient."""
    gradient = gradient.coalesce()
    values = gradient._values()
    if not values.numel():
        return
    first, second = group["betas"]
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    old_mean = mean.sparse_mask(gradient)._values()
    mean_step = values.sub(old_mean).mul_(1 - first)
    mean.add_(like(gradient, mean_step))
    old_square = square.sparse_mask(gradient)._values()
    square_step = values.pow(2).sub_(old_square).mul_(1 - second)
    square.add_(like(gradient, square_step))
    numerator = mean_step + old_mean
    denominator = (square_step + old_square).sqrt_().add_(group["eps"])
    count = state["step"]
    size = rate_of(group) * math.sqrt(1 - second**count) / (1 - first**count)
    parameter.add_(like(gradient, numerator.div_(denominator).mul_(-size)))
