"""Losses: sums and means over elements, of which each process has some."""

from __future__ import annotations

from math import prod
from typing import Any

from ..placements import REPLICATE, Partial, Placement, Shard
from ..transitions import change
from .pointwise import pointwise
from .rule import Invocation, Rule, Strategy

__all__ = ["RULES"]

NONE, MEAN, SUM = 0, 1, 2
"""Values of the argument `reduction`."""
_SUM = Partial("sum")


def _elementwise(call: Invocation) -> list[Strategy]:
    """Return the strategies of an elementwise loss with a reduction."""
    if call["reduction"] == NONE:
        return pointwise(call)
    strategies = []
    shape = call.tensors[0].shape
    if any(each.shape != shape for each in call.tensors):
        return []
    for dim in range(len(shape)):
        if call["reduction"] == SUM or call.is_even(0, dim):
            partial = _SUM if call["reduction"] == SUM else Partial("avg")
            strategies.append(Strategy((partial,), (Shard(dim),) * len(call.tensors)))
    return strategies


def _elementwise_gradient(call: Invocation) -> list[Strategy]:
    shape = call.results[0].shape
    if any(each.shape != shape for each in call.tensors[1:]):
        return []
    grad_is_whole = call["reduction"] != NONE
    return [
        Strategy(
            (Shard(dim),),
            (REPLICATE if grad_is_whole else Shard(dim), *(Shard(dim),) * (len(call.tensors) - 1)),
        )
        for dim in range(len(shape))
    ]


def _elementwise_backward(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    """Divide the gradient of a mean by the global number of elements, not the local one."""
    names = [each.name for each in func._entry.schema.arguments]
    if values["reduction"] == MEAN:
        values["grad_output"] = values["grad_output"] / max(prod(call.results[0].shape), 1)
        values["reduction"] = SUM
    return func(*[values[name] for name in names])


def _nll(call: Invocation) -> list[Strategy]:
    """Along the batch."""
    if call.tensors[0].ndim != 2:
        return []
    rest: tuple[Placement, ...] = (REPLICATE,) * (len(call.tensors) - 2)
    if call["reduction"] == NONE:
        return [Strategy((Shard(0), _SUM), (Shard(0), Shard(0), *rest))]
    total = REPLICATE if call["reduction"] == MEAN else _SUM
    return [Strategy((_SUM, total), (Shard(0), Shard(0), *rest))]


def _nll_forward(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    """Compute a mean as the global sum divided by the global weight."""
    names = [each.name for each in func._entry.schema.arguments]
    divided = [mesh_dim for mesh_dim, each in enumerate(targets[0].placements) if isinstance(each, Shard)]
    if values["reduction"] != MEAN or not divided:
        return func(*[values[name] for name in names])
    values["reduction"] = SUM
    loss, weight = func(*[values[name] for name in names])
    for mesh_dim in divided:
        weight = change(weight, targets[0].mesh, mesh_dim, _SUM, REPLICATE, ())
    return loss / weight, weight


def _nll_gradient(call: Invocation) -> list[Strategy]:
    if call.results[0].shape != call.tensors[1].shape or len(call.results[0].shape) != 2:
        return []
    grad: Placement = Shard(0) if call["reduction"] == NONE else REPLICATE
    rest: tuple[Placement, ...] = (REPLICATE,) * (len(call.tensors) - 3)
    return [Strategy((Shard(0),), (grad, Shard(0), Shard(0), *rest))]


def _nll_backward(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    """Divide the gradient of a mean by the global weight. A local kernel might use the weight of its own
    labels.
    """
    names = [each.name for each in func._entry.schema.arguments]
    if values["reduction"] == MEAN:
        values["grad_output"] = values["grad_output"] / values["total_weight"]
        values["reduction"] = SUM
    return func(*[values[name] for name in names])


_FORWARD = "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy soft_margin_loss"
RULES = {
    "aten::nll_loss_forward": Rule(_nll, local=_nll_forward),
    "aten::nll_loss_backward": Rule(_nll_gradient, local=_nll_backward),
    **{f"aten::{name}": Rule(_elementwise) for name in _FORWARD.split()},
    "aten::mse_loss_backward": Rule(_elementwise_gradient, local=_elementwise_backward),
}
"""The rules of the family."""
