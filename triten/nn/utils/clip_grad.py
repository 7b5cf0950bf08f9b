"""Gradients held within a norm or a range (`torch.nn.utils.clip_grad`)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence

from ...dispatch.autograd.grad_mode import no_grad
from ...dispatch.functions.foreach import FOREACH
from ...dispatch.functions.together import go_together
from ...dispatch.generated import functions as _ops
from ...dispatch.structured.meta.foreach import ORDERS
from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device
from ...runtime.traceback_filter import api_boundary

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    tensors: Iterable[Tensor] = [parameters] if isinstance(parameters, Tensor) else parameters
    return [parameter.grad for parameter in tensors if parameter.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Compute the norm of all elements of several tensors (`torch.nn.utils.get_total_norm`).

    Args:
        tensors: one, or several, which may be on different devices; the result is on the first one's.
        norm_type: as `tt.linalg.vector_norm` has it.
        error_if_nonfinite: If True, raise RuntimeError for a NaN or infinite norm. Default: False.
        foreach: False takes the norm of each tensor by itself, and of these norms; else gradients on a CUDA device, for
            the norms of order 1, 2 and of the largest or smallest element, are two launches that sum up all elements.
            The sums' last bits may differ, and narrow dtypes are rounded once instead of twice. On the CPU, one call
            computes the norms of order 2 of all small tensors.

    Example:
        >>> import triten as tt
        >>> tt.nn.utils.get_total_norm([tt.tensor([3.0]), tt.tensor([4.0])])
        tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    return _total_norm(tensors, float(norm_type), error_if_nonfinite, foreach, 1.0)[0]


def _total_norm(
    tensors: list[Tensor], norm_type: float, error_if_nonfinite: bool, foreach: bool | None, max_norm: float
) -> tuple[Tensor, Tensor | None]:
    """Compute the total norm, and the clipping factor if the same launch computes it (else None)."""
    if not tensors:
        return _ops.scalar_tensor(0.0), None
    order = ORDERS.get(norm_type) if foreach is not False and len(tensors) > 1 else None
    if order is not None and go_together(tensors):
        total, scale = _ops._multi_tensor_total_norm(tensors, order, max_norm)
    else:
        norms, device = foreach_norm(tensors, norm_type, foreach), tensors[0].device
        total = _ops.linalg_vector_norm(_ops.stack([norm.to(device) for norm in norms]), norm_type)
        scale = None
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total, scale


def foreach_norm(tensors: list[Tensor], norm_type: float, foreach: bool | None) -> Sequence[Tensor]:
    """Compute the norm of each tensor, in one call for each device unless `foreach` is False."""
    if foreach is False:
        return [_ops.linalg_vector_norm(tensor, norm_type) for tensor in tensors]
    norms: list[Tensor] = [None] * len(tensors)  # type: ignore[list-item]
    for indices in by_device(tensors):
        device_norms = FOREACH["_foreach_norm"]([tensors[i] for i in indices], norm_type)
        for i, norm in zip(indices, device_norms, strict=True):
            norms[i] = norm
    return norms


def by_device(tensors: list[Tensor]) -> list[list[int]]:
    """Group the indices of the tensors by device."""
    indices: dict[Device, list[int]] = {}
    for i, tensor in enumerate(tensors):
        indices.setdefault(tensor.device, []).append(i)
    return list(indices.values())


def _multiply(gradients: list[Tensor], scale: Tensor, foreach: bool | None) -> None:
    if foreach is False:
        for grad in gradients:
            grad.mul_(scale.to(grad.device))
        return
    for indices in by_device(gradients):
        own = [gradients[i] for i in indices]
        FOREACH["_foreach_mul_"](own, scale.to(own[0].device).reshape(()))


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
    gradients = _gradients(parameters)
    if gradients:
        _multiply(gradients, (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0), foreach)


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
    gradients = _gradients(parameters)
    total, scale = _total_norm(gradients, float(norm_type), error_if_nonfinite, foreach, float(max_norm))
    if scale is None:
        clip_grads_with_norm_(parameters, max_norm, total, foreach)
    else:
        _multiply(gradients, scale, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Call `clip_grad_norm_`, whose former name this is, with a FutureWarning."""
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
    bound, gradients = float(clip_value), _gradients(parameters)
    for indices in by_device(gradients):
        own = [gradients[i] for i in indices]
        if foreach is not False and go_together(own):
            _ops._multi_tensor_pointwise_(own, "clamp_within", [], [], bound)
        else:
            for grad in own:
                grad.clamp_(min=-bound, max=bound)
