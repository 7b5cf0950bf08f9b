"""Optimizers that take lists: each parameter, with its gradient and states, by itself; and gradients' scales."""

from __future__ import annotations

from typing import Any

from ..placements import REPLICATE, Partial, Shard
from ..transitions import change
from .rule import Group, Invocation, Rule, Strategy

__all__ = ["RULES"]


def _by_parameter(call: Invocation) -> list[Group]:
    lists = [value for value in call.values.values() if isinstance(value, tuple) and value]
    parameters = call["self"]
    groups = []
    taken: set[int] = set()
    for number, parameter in enumerate(parameters):
        members = [
            _index_of(call, several[number], taken)
            for several in lists
            if len(several) == len(parameters) and several[number] is not None
        ]
        shape = parameter.shape
        strategies = [Strategy((), (REPLICATE,) * len(members))] + [
            Strategy(
                (), tuple(Shard(dim) if call.tensors[each].shape == shape else REPLICATE for each in members)
            )
            for dim in range(len(shape))
        ]
        groups.append(Group((), tuple(members), strategies))
    rest = tuple(index for index in range(len(call.tensors)) if index not in taken)
    if rest:
        groups.append(Group((), rest, [Strategy((), (REPLICATE,) * len(rest))]))
    return groups


def _index_of(call: Invocation, spec: object, taken: set[int]) -> int:
    """Return the position of a spec among the tensors. Two tensors may share a spec, so taken positions are
    skipped.
    """
    for index, each in enumerate(call.tensors):
        if each is spec and index not in taken:
            taken.add(index)
            return index
    raise AssertionError("a list has a tensor that the call has not")


def _by_gradient(call: Invocation) -> list[Group]:
    """Group each gradient by itself; shared tensors are replicated."""
    count = len(call["self"])
    groups = [
        Group(
            (),
            (index,),
            [
                Strategy((), (REPLICATE,)),
                *[Strategy((), (Shard(dim),)) for dim in range(call.tensors[index].ndim)],
            ],
        )
        for index in range(count)
    ]
    rest = tuple(range(count, len(call.tensors)))
    return [*groups, Group((), rest, [Strategy((), (REPLICATE,) * len(rest))])]


def _unscale(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> None:
    """Unscale the parts, and tell all processes if one has found a number that is not finite."""
    func(values["self"], values["found_inf"], values["inv_scale"])
    mesh = targets[0].mesh
    for mesh_dim in range(mesh.ndim):
        if any(isinstance(each.placements[mesh_dim], Shard) for each in targets):
            found_inf = values["found_inf"]
            found_inf.copy_(change(found_inf, mesh, mesh_dim, Partial("max"), REPLICATE, ()))


RULES = {
    f"aten::{name}": Rule(groups=_by_parameter, unscaled="grads")
    for name in (
        "_fused_sgd_", "_fused_sgd_.tensor_lr", "_fused_adam_", "_fused_adam_.tensor_lr", "_fused_adamw_",
        "_fused_adamw_.tensor_lr",
    )
}  # fmt: skip
RULES["aten::_amp_foreach_non_finite_check_and_unscale_"] = Rule(groups=_by_gradient, local=_unscale)
"""The rules of the family."""
