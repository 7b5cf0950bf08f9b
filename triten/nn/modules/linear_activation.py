"""Fusion of a linear layer with its activation into one launch, if no hook observes the intermediate."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...runtime.grad_mode import is_grad_enabled
from .. import functional as F
from .linear import Linear
from .module_hooks import EVERYWHERE, HOOK_TABLES

if TYPE_CHECKING:
    from .parameter import Parameter

USES_GELU: dict[object, bool] = {F.relu: False, F.gelu: True}
"""The activations that the product's program has, and how `_addmm_activation` is told."""


def activated(linear: Linear, activation: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Compute ``activation(linear(x))``.

    On a GPU, without gradients, relu and gelu after a layer with bias run in the matmul's epilogue
    (`aten::_addmm_activation`). 16-bit results are then rounded once, after the activation.
    """
    if type(x) is Tensor and x.is_cuda and activation in USES_GELU and _is_plain(linear):
        weight, bias = linear.weight, linear.bias
        if bias is not None and x.dtype is weight.dtype and x.dim() > 1 and not _records(x, weight, bias):
            rows = x if x.dim() == 2 else x.reshape((-1, linear.in_features))
            made = _ops._addmm_activation(bias, rows, weight.t(), use_gelu=USES_GELU[activation])
            return made if x.dim() == 2 else made.reshape((*x.shape[:-1], linear.out_features))
    return activation(linear(x))


def _is_plain(linear: Linear) -> bool:
    """Return whether calling the layer runs only its `forward`, without hooks."""
    own = linear.__dict__
    return type(linear) is Linear and not any(own[table] or EVERYWHERE[table] for table in HOOK_TABLES)


def _records(x: Tensor, weight: Parameter, bias: Parameter) -> bool:
    return is_grad_enabled() and any(each.requires_grad for each in (x, weight, bias))
