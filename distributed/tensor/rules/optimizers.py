"""Optimizers that take lists: each parameter, with its gradient and states, by itself."""

from __future__ import annotations

from ..placements import REPLICATE, Shard
from .rule import Group, Invocation, Rule, Strategy

__all__ = ["RULES"]


def _by_parameter(call: Invocation) -> list[Group]:
    lists = [value for value in call.values.values() if isinstance(value, tuple) and value]
    parameters = call["self"]
    groups = []
    taken: set[int] = set()
    for number, parameter in enumerate(parameters):
        members = [
            _place(call, several[number], taken)
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
    rest = tuple(place for place in range(len(call.tensors)) if place not in taken)
    if rest:
        groups.append(Group((), rest, [Strategy((), (REPLICATE,) * len(rest))]))
    return groups


def _place(call: Invocation, spec: object, taken: set[int]) -> int:
    """The place of a spec among the tensors; two tensors may have one spec, which is the reason to count."""
    for place, each in enumerate(call.tensors):
        if each is spec and place not in taken:
            taken.add(place)
            return place
    raise AssertionError("a list has a tensor that the call has not")


RULES = {
    f"aten::{name}": Rule(groups=_by_parameter, unscaled="grads")
    for name in (
        "_fused_sgd_", "_fused_sgd_.tensor_lr", "_fused_adam_", "_fused_adam_.tensor_lr", "_fused_adamw_",
        "_fused_adamw_.tensor_lr", "_fused_adagrad_",
    )
}  # fmt: skip
"""The rules of the family."""
