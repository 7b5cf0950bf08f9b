"""Plans of composites that one other operator serves: their own steps are taken once, not in each call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.local_dispatch_key_set import effective
from ...runtime.tensor_impl import TensorImpl
from ..core.call_kind import leave_replanner, replanner_of
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry


def plan_of_part(
    op: OperatorEntry, key_set: int, args: Sequence[Any], name: str, given: Sequence[Any]
) -> Plan | None:
    """The plan of `name` for the arguments `given`, as the composite `op` would call it from `args`.

    None for a call that reached `op` with keys taken out: its parts are to be dispatched when they are called, by the
    keys that are in force then.
    """
    if effective(op.key_set_of(args)) != key_set:
        return None
    part = Dispatcher.singleton().find_schema_or_throw(name)
    return part.plan(effective(part.key_set_of(given)), given)


def plan_of_part_alike(
    op: OperatorEntry, key_set: int, args: Sequence[Any], name: str, given: Sequence[Any]
) -> Plan | None:
    """`plan_of_part` where calls of one kind of `op` are calls of one kind of the part, and `given` has no sizes.

    The tensors of `given` are those of `args`. What replans the part's calls then replans those of `op`.
    """
    plan = plan_of_part(op, key_set, args, name, given)
    if plan is None:
        return None
    part = Dispatcher.singleton().find_schema_or_throw(name)
    replanner = replanner_of(plan, part)
    if replanner is None:
        return plan
    template: list[Any] = list(given)
    places: list[tuple[int, int]] = []
    for i in part.runtime_positions(given):
        value = given[i]
        if isinstance(value, TensorImpl):
            places.append((i, next(j for j, arg in enumerate(args) if arg is value)))
        elif value is not None:
            template[i] = value.__class__

    def replan(specs: Sequence[Any]) -> Plan | None:
        filled = template.copy()
        for i, origin in places:
            filled[i] = specs[origin]
        return replanner(filled)

    return leave_replanner(plan, op, replan)


def plan_with_numbers(
    op: OperatorEntry, key_set: int, args: Sequence[Any], name: str, given: Sequence[Any]
) -> Plan | None:
    """`plan_of_part` of one tensor first and numbers that no call changes, as a function of what `op` is called with.

    That is the tensor, and whatever else plans of `op` are called with.
    """
    part = plan_of_part(op, key_set, args, name, given)
    if part is None:
        return None
    target = Dispatcher.singleton().find_schema_or_throw(name)
    numbers = [given[i] for i in target.runtime_positions(given)[1:]]
    if len(op.runtime_positions(args)) == 1:
        return lambda tensor: part(tensor, *numbers)
    return lambda tensor, *_: part(tensor, *numbers)


def first_of(plan: Plan) -> Plan:
    """The plan of the first result alone of an operator of several."""
    alone: Plan | None = getattr(plan, "first", None)
    return (lambda *runtime: plan(*runtime)[0]) if alone is None else alone
