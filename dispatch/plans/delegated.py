"""Plans of composites that delegate to one other operator: their own steps run once, not in each call."""

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
    op: OperatorEntry, key_set: int, args: Sequence[Any], name: str, part_args: Sequence[Any]
) -> Plan | None:
    """Return the plan of `name` for the arguments `part_args`, as the composite `op` would call it from `args`.

    Return None for a call that reached `op` with keys removed: its parts must be dispatched by the keys in force at
    call time.
    """
    if effective(op.key_set_of(args)) != key_set:
        return None
    part = Dispatcher.singleton().find_schema_or_throw(name)
    return part.plan(effective(part.key_set_of(part_args)), part_args)


def plan_of_part_alike(
    op: OperatorEntry, key_set: int, args: Sequence[Any], name: str, part_args: Sequence[Any]
) -> Plan | None:
    """Return `plan_of_part` with the part's replanner. Calls of one kind of `op` must be calls of one kind of the
    part.

    `part_args` has no sizes, and its tensors are those of `args`. The part's replanner then serves the calls of `op`.
    """
    plan = plan_of_part(op, key_set, args, name, part_args)
    if plan is None:
        return None
    part = Dispatcher.singleton().find_schema_or_throw(name)
    replanner = replanner_of(plan, part)
    if replanner is None:
        return plan
    template: list[Any] = list(part_args)
    origins: list[tuple[int, int]] = []
    for i in part.runtime_positions(part_args):
        value = part_args[i]
        if isinstance(value, TensorImpl):
            origins.append((i, next(j for j, arg in enumerate(args) if arg is value)))
        elif value is not None:
            template[i] = value.__class__

    def replan(specs: Sequence[Any]) -> Plan | None:
        filled = template.copy()
        for i, origin in origins:
            filled[i] = specs[origin]
        return replanner(filled)

    return leave_replanner(plan, op, replan)


def plan_with_numbers(
    op: OperatorEntry, key_set: int, args: Sequence[Any], name: str, part_args: Sequence[Any]
) -> Plan | None:
    """Return `plan_of_part` of a tensor and constant numbers, as a function of the runtime arguments of `op`.

    These are the tensor, followed by any other runtime arguments of `op`, which are ignored.
    """
    part = plan_of_part(op, key_set, args, name, part_args)
    if part is None:
        return None
    target = Dispatcher.singleton().find_schema_or_throw(name)
    numbers = [part_args[i] for i in target.runtime_positions(part_args)[1:]]
    if len(op.runtime_positions(args)) == 1:
        return lambda tensor: part(tensor, *numbers)
    return lambda tensor, *_: part(tensor, *numbers)


def first_of(plan: Plan) -> Plan:
    """Return a plan of only the first result of an operator with several."""
    alone: Plan | None = getattr(plan, "first", None)
    return (lambda *runtime: plan(*runtime)[0]) if alone is None else alone
