"""Gradients held within a norm or a range (`torch.nn.utils.clip_grad`)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

from ...dispatch.autograd.grad_mode import no_grad
from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...runtime.traceback_filter import api_boundary

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given: Iterable[Tensor] = [parameters] if isinstance(parameters, Tensor) else parameters
    return [parameter.grad for parameter in given if parameter.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of several tensors (`torch.nn.utils.get_total_norm`).

    Args:
        tensors: one, or several, which may be on different devices; the result is on the first one's.
        norm_type: as `tt.linalg.vector_norm` has it.
        error_if_nonfinite: whether nan and infinity raise RuntimeError.
        foreach: accepted for PyTorch's sake.

    Example:
        >>> import triten as tt
        >>> tt.nn.utils.get_total_norm([tt.tensor([3.0]), tt.tensor([4.0])])
        tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return _ops.scalar_tensor(0.0)
    device = tensors[0].device
    norms = [_ops.linalg_vector_norm(tensor, norm_type).to(device) for tensor in tensors]
    total = _ops.linalg_vector_norm(_ops.stack(norms), norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients by `max_norm` / `total_norm` where that is below 1 (`torch.nn.utils.clip_grads_with_norm_`).

    Example:
        >>> import triten as tt
        >>> weight = tt.ones(2, requires_grad=True)
        >>> weight.grad = tt.tensor([3.0, 4.0])
        >>> tt.nn.utils.clip_grads_with_norm_(weight, 1.0, tt.tensor(10.0))
        >>> weight.grad
        tensor([0.3000, 0.4000])
    """
    scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in _gradients(parameters):
        grad.mul_(scale.to(grad.device))


@api_boundary
@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of parameters so that their norm is at most `max_norm` (`torch.nn.utils.clip_grad_norm_`).

    Args: those of `get_total_norm`, for parameters. Returns the norm before.

    Example:
        >>> import triten as tt
        >>> weight = tt.ones(2, requires_grad=True)
        >>> weight.grad = tt.tensor([3.0, 4.0])
        >>> tt.nn.utils.clip_grad_norm_([weight], 1.0), weight.grad
        (tensor(5.), tensor([0.6000, 0.8000]))
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """`clip_grad_norm_` by the name that it had first; a FutureWarning says so."""
    warnings.warn(
        "nn.utils.clip_grad_norm is deprecated in favor of nn.utils.clip_grad_norm_",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@api_boundary
@no_grad()
def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Hold every element of gradients within [-clip_value, clip_value] (`torch.nn.utils.clip_grad_value_`).

    Example:
        >>> import triten as tt
        >>> weight = tt.ones(2, requires_grad=True)
        >>> weight.grad = tt.tensor([3.0, -4.0])
        >>> tt.nn.utils.clip_grad_value_(weight, 1)
        >>> weight.grad
        tensor([ 1., -1.])
    """
    bound = float(clip_value)
    for grad in _gradients(parameters):
        grad.clamp_(min=-bound, max=bound)
