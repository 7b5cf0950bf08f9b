"""Call kinds: decisions that hold for all shapes, cached so that a call on new shapes is planned quickly.

Calls are of one *kind* if they differ only in the shapes of their tensors and the values of their sizes. Dtypes,
devices, contiguity, flags and the classes of numbers are equal (`TensorSpec.kind` holds a tensor's part of it). A
plan holds for the specs of one call. Most of the planning work holds for the kind. Two places cache it:

- A packet keeps a `CallKind`: the overload that serves the kind, and how the public function's arguments bind to it.
  Overload resolution and binding take longer than planning a small call.
- An operator keeps a *replanner* (`OperatorEntry.replanners`): a function from specs to the plan of another call of
  the kind. It skips the meta function, the choice of a kernel and other steps that hold for the kind. It returns None
  for a call that needs full planning. A planner attaches its replanner to the plan (`leave_replanner`), and
  `CallKind` reads it (`replanner_of`). Wrappers of plans, such as autograd's, have none and are rebuilt for
  new shapes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...runtime.local_dispatch_key_set import effective
from ...runtime.size import Size
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ...runtime.traceback_filter import HANDLER, has_handler, hide_inner_frames
from ...runtime.written_code import defined
from .call_arguments import NUMBERS, Parameter, is_same
from .kernel_function import Plan
from .operator_entry import OperatorEntry

Replanner = Callable[[Sequence[Any]], Plan | None]

SEQUENCES = frozenset({tuple, list, Size})
"""Classes of sizes and dimensions; the second set holds those that operators receive as tuples."""

NO_NUMBER = type(None)
"""The key element of an omitted number."""

AS_FLOAT = 1 << 20
"""Offset added to a pick index if the call gives an integer and the schema has a float."""


def kind_of(elements: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the kind of an operator's call, from specs, classes of numbers and static values.

    Return None for calls whose plans are made individually.
    """
    kind: list[Any] = []
    for element in elements:
        if element.__class__ is TensorSpec:
            kind.append(element.kind)
        elif element is None or element.__class__ is type or element.__class__ is str:
            kind.append(element)
        elif isinstance(element, (list, tuple)):
            return None
        else:
            kind.append((element.__class__, element))
    return tuple(kind)


def leave_replanner(plan: Plan, op: OperatorEntry, replanner: Replanner) -> Plan:
    """Attach a replanner for other calls of the same kind to a plan, and return the plan."""
    plan.replanner = (op, replanner)  # type: ignore[attr-defined]
    return plan


def replanner_of(plan: Plan, op: OperatorEntry) -> Replanner | None:
    """Return the replanner of a plan; None if it has none, or if it belongs to another operator.

    A composite may return the plan of an operator that it calls.
    """
    maker, replanner = getattr(plan, "replanner", (None, None))
    return replanner if maker is op else None


class CallKind(NamedTuple):
    """Binding of a call's arguments, reused for other calls of its kind.

    `bound` holds the static arguments. `fills` maps arguments to positions. `picks` selects which of the `taken`
    runtime arguments the plan receives (None: all, in order). `replanner`, if the operator has one, receives `bound`
    with the entries of `elements` taken from the call's key. `handles` is True if the kind's first plan hides inner
    frames itself.
    """

    entry: OperatorEntry
    bound: list[Any]
    fills: list[tuple[int, int]]
    picks: list[int] | None
    taken: int
    replanner: Replanner | None
    elements: list[tuple[int, int]]
    handles: bool

    @staticmethod
    def of(
        parameters: Sequence[Parameter],
        args: Sequence[Any],
        entry: OperatorEntry,
        bound: list[Any],
        plan: Plan,
        picks: list[int] | None,
    ) -> CallKind | None:
        """Return the binding of a call for its kind; None if binding changed its sizes or numbers."""
        if picks is not None and max(picks, default=0) >= AS_FLOAT:
            return None
        runtime_indices = [i for i, p in enumerate(parameters) if p.role not in ("static", "scale", "rare")]
        template, fills = list(bound), []
        for position, pick in zip(entry.runtime_positions(bound), picks or runtime_indices, strict=False):
            index = runtime_indices[pick] if picks is not None and pick >= 0 else pick
            if index >= 0:
                template[position] = None
                fills.append((position, index))
        names = [a.name for a in entry.schema.arguments]
        for index, (name, role, _, _) in enumerate(parameters):
            if role != "static":
                continue
            name = "self" if name == "input" and "input" not in names else name
            value, position = args[index], names.index(name) if name in names else -1
            if value.__class__ in SEQUENCES:
                if position < 0 or bound[position] != tuple(value):
                    return None
                fills.append((position, index))
        keyed = [i for i, p in enumerate(parameters) if p.role not in ("scale", "rare")]
        numbers = [args[i] for _, i in fills if not isinstance(args[i], (TensorImpl, tuple, list))]
        replanner = replanner_of(plan, entry)
        # Keys of values other than Python numbers hold more than the class.
        if picks is not None or any(n is not None and n.__class__ not in NUMBERS for n in numbers):
            replanner = None
        elements = [(p, keyed.index(i)) for p, i in fills]
        return CallKind(
            entry, template, fills, picks, len(runtime_indices), replanner, elements, has_handler(plan)
        )

    def plan(self, args: Sequence[Any], key: Sequence[Any]) -> Plan:
        """Return the plan of a call of this kind, from its arguments and its key elements."""
        entry, template, fills, picks, taken, replanner, elements, _ = self
        if replanner is not None:
            specs = template.copy()
            for position, index in elements:
                element = key[index]
                specs[position] = None if element is NO_NUMBER else element
            plan = replanner(specs)
            if plan is not None:
                return plan
        bound = template.copy()
        for position, index in fills:
            value = args[index]
            bound[position] = tuple(value) if isinstance(value, (list, Size)) else value
        plan = entry.plan(entry.key_set_of(bound), bound)
        return plan if picks is None else _picking(plan, picks, taken)


def adapted(
    entry: OperatorEntry, bound: list[Any], runtime: list[tuple[str, Any]]
) -> tuple[Plan, bool, list[int] | None]:
    """Adapt a plan to `runtime`'s values. Return it, whether it holds for equal keys, and the indices that it takes."""
    arguments = entry.schema.arguments
    positions = entry.runtime_positions(bound)
    names = [name for name, _ in runtime]
    picks: list[int] = []
    for position in positions:
        name = arguments[position].name
        name = "input" if name == "self" and "input" in names else name
        value, original = bound[position], runtime[names.index(name)][1] if name in names else None
        if name in names and is_same(value, original):
            picks.append(names.index(name))
        elif value.__class__ is float and original.__class__ is int:
            picks.append(AS_FLOAT + names.index(name))
        elif bound[position] is None:
            picks.append(-1)
        else:
            return (lambda *_: entry.call(*bound)), False, None
    plan = entry.plan(effective(entry.key_set_of(bound)), bound)
    if picks == list(range(len(names))):
        return plan, True, None
    return _picking(plan, picks, len(names)), True, picks


def _picking(plan: Plan, picks: list[int], count: int) -> Plan:
    """Wrap a plan so that it takes `count` runtime arguments and receives those that `picks` selects, None for -1.

    An index of `AS_FLOAT` or more selects an integer that the plan takes as a float.
    """
    return _picker(count, tuple(picks))(plan)


@functools.cache
def _picker(count: int, picks: tuple[int, ...]) -> Callable[[Plan], Plan]:
    """Return a generated wrapper for plans that take a selection of arguments: three times as fast as building a
    list.
    """
    names = ", ".join([f"v{i}" for i in range(count)])
    picked = ", ".join(
        ["None" if i < 0 else f"v{i}" if i < AS_FLOAT else f"float(v{i - AS_FLOAT})" for i in picks]
    )
    text = (
        f"def bind(plan):\n    def picking({names}):\n        try: return plan({picked})\n        {HANDLER}\n"
    )
    namespace = {"__name__": __name__, "hide_inner_frames": hide_inner_frames}
    made: Callable[[Plan], Plan] = defined("bind", f"{text}    return picking\n", "plan", namespace)
    return made
