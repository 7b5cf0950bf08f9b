"""Muon: orthogonalized momentum."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import overload

from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import bfloat16
from .optimizer import Loss, Optimizer, Params, _use_grad_for_differentiable, loss_of
from .single import rate_of

__all__ = ["Muon"]

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial whose slope at zero is greatest; singular values come near to 1 and not to it."""
ADJUSTMENTS: dict[str | None, Callable[[int, int], float]] = {
    None: lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}
"""What a rate is multiplied by, from a matrix's sizes."""


class Muon(Optimizer):
    """Muon: steps along the orthogonalized momentum, whose singular values are near 1 (`torch.optim.Muon`; Jordan,
    2024).

    It is for the matrices of hidden layers; whatever else a model has is given to another optimizer.

    Args:
        params: parameters of two dimensions, or groups of them.
        lr: The learning rate, a number or a tensor of one element.
        weight_decay: The decoupled weight decay.
        momentum: The decay rate of the mean of gradients.
        nesterov: If True, use Nesterov momentum. Default: True.
        ns_coefficients: the polynomial of the Newton-Schulz iteration.
        eps: the least norm.
        ns_steps: The number of Newton-Schulz iterations, in bfloat16.
        adjust_lr_fn: The scaling of the rate by a matrix's sizes, ``"original"`` or ``"match_rms_adamw"``.

    Raises:
        ValueError: an option is out of its range, or a parameter has not two dimensions.
        RuntimeError: a step for complex parameters.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.eye(2))
        >>> optimizer = tt.optim.Muon([w], lr=0.5)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> bool(w[0, 0] < 0.75), w[0, 1].item()
        (True, 0.0)
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not value >= 0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in ADJUSTMENTS:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(
            params,
            {
                "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
            },
        )  # fmt: skip
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{list(parameter.shape)}"
                    )

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Loss]) -> Loss: ...
    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Loss] | None = None) -> Loss | None:
        """Perform one step and return the closure's loss.

        Raises:
            RuntimeError: A parameter is complex.
        """
        loss = loss_of(closure)
        for group in self.param_groups:
            lr, momentum = rate_of(group), group["momentum"]
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                if parameter.is_complex():
                    raise RuntimeError("Muon does not support complex parameters")
                state = self.state[parameter]
                if not state:
                    state["momentum_buffer"] = _ops.zeros_like(gradient)
                mean = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
                direction = orthogonal(
                    gradient.lerp(mean, momentum) if group["nesterov"] else mean,
                    group["ns_coefficients"],
                    group["ns_steps"],
                    group["eps"],
                )
                parameter.mul_(1 - lr * group["weight_decay"])
                parameter.add_(direction, alpha=-lr * ADJUSTMENTS[group["adjust_lr_fn"]](*parameter.shape))
        return loss


def orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Orthogonalize a matrix approximately, in bfloat16, by Newton-Schulz iterations.

    The singular values of the result are near 1.

    Raises:
        ValueError: `steps` is 100 or more, or there are not three coefficients.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    first, third, fifth = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    iterate = matrix.to(bfloat16)
    # The smaller of the two products of the matrix with itself.
    iterate = iterate.T if tall else iterate
    # No singular value is above the norm.
    iterate = iterate / iterate.norm().clamp(min=eps)
    for _ in range(steps):
        square = iterate @ iterate.T
        iterate = _ops.addmm(
            iterate, _ops.addmm(square, square, square, beta=third, alpha=fifth), iterate, beta=first
        )
    return iterate.T if tall else iterate
