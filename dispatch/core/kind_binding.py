"""How a packet's arguments come to an operator's: a plan fitted to them, and the binding that calls of one kind share.

Choosing an overload and binding its arguments takes longer than planning a small call. Calls that differ only in the
shapes of their tensors, and in the values of their sizes, are bound alike: the first of them leaves a `KindBinding`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...runtime.local_dispatch_key_set import effective
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import HANDLER, hide_inner_frames
from ...runtime.written_code import defined
from .call_parts import NUMBERS, Parameter, is_same
from .kernel_function import Plan
from .operator_entry import OperatorEntry

NO_NUMBER = type(None)
"""What stands in a key for a number that is not given."""

AS_FLOAT = 1 << 20
"""Added to the place of an integer that is given where the schema has a float."""


class KindBinding(NamedTuple):
    """How a call's arguments were bound, for the next call that differs only in the shapes of its tensors.

    `bound` has the static arguments; `fills` says which argument goes to which position, `picks` which of the `taken`
    runtime arguments the plan is called with (None: as they come). `of_kind`, where the kernel gave one, makes the
    plan from the arguments as keys have them: `bound` with those of `parts` taken from the call's key.
    """

    entry: OperatorEntry
    bound: list[Any]
    fills: list[tuple[int, int]]
    picks: list[int] | None
    taken: int
    of_kind: Callable[[list[Any]], Plan | None] | None
    parts: list[tuple[int, int]]

    @staticmethod
    def of(
        parameters: Sequence[Parameter],
        args: Sequence[Any],
        entry: OperatorEntry,
        bound: list[Any],
        plan: Plan,
        picks: list[int] | None,
    ) -> KindBinding | None:
        """How a call was bound, for the calls of its kind; None if binding changed its sizes or numbers."""
        if picks is not None and max(picks, default=0) >= AS_FLOAT:
            return None
        places = [i for i, p in enumerate(parameters) if p.role not in ("static", "scale", "rare")]
        template, fills = list(bound), []
        for position, pick in zip(entry.runtime_positions(bound), picks or places, strict=False):
            index = places[pick] if picks is not None and pick >= 0 else pick
            if index >= 0:
                template[position] = None
                fills.append((position, index))
        names = [a.name for a in entry.schema.arguments]
        for index, (name, role, _, _) in enumerate(parameters):
            if role != "static":
                continue
            name = "self" if name == "input" and "input" not in names else name
            value, position = args[index], names.index(name) if name in names else -1
            if value.__class__ is tuple or value.__class__ is list:
                if position < 0 or bound[position] != tuple(value):
                    return None
                fills.append((position, index))
        keyed = [i for i, p in enumerate(parameters) if p.role not in ("scale", "rare")]
        numbers = [args[i] for _, i in fills if not isinstance(args[i], (TensorImpl, tuple, list))]
        # A composition may have given a part's plan; values other than Python's numbers are more than a class.
        maker, of_kind = getattr(plan, "of_kind", (None, None))
        if (
            maker is not entry
            or picks is not None
            or any(n is not None and n.__class__ not in NUMBERS for n in numbers)
        ):
            of_kind = None
        parts = [(p, keyed.index(i)) for p, i in fills]
        return KindBinding(entry, template, fills, picks, len(places), of_kind, parts)

    def plan(self, args: Sequence[Any], key: Sequence[Any]) -> Plan:
        """The plan of a call of this kind, from its arguments and the parts of its key."""
        entry, template, fills, picks, taken, of_kind, parts = self
        if of_kind is not None:
            specs = template.copy()
            for position, index in parts:
                part = key[index]
                specs[position] = None if part is NO_NUMBER else part
            plan = of_kind(specs)
            if plan is not None:
                return plan
        bound = template.copy()
        for position, index in fills:
            value = args[index]
            bound[position] = tuple(value) if value.__class__ is list else value
        plan = entry.plan(entry.key_set_of(bound), bound)
        return plan if picks is None else _picking(plan, picks, taken)


def adapted(
    entry: OperatorEntry, bound: list[Any], runtime: list[tuple[str, Any]]
) -> tuple[Plan, bool, list[int] | None]:
    """A plan called with `runtime`'s values, whether it holds for others of the same key, and which it takes."""
    arguments = entry.schema.arguments
    wanted = entry.runtime_positions(bound)
    names = [name for name, _ in runtime]
    picks: list[int] = []
    for position in wanted:
        name = arguments[position].name
        name = "input" if name == "self" and "input" in names else name
        value, given = bound[position], runtime[names.index(name)][1] if name in names else None
        if name in names and is_same(value, given):
            picks.append(names.index(name))
        elif value.__class__ is float and given.__class__ is int:
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
    """A plan called with those of a call's `count` runtime arguments that `picks` names, None for -1.

    From `AS_FLOAT` on they name an integer that the plan takes as a float.
    """
    return _picker(count, tuple(picks))(plan)


@functools.cache
def _picker(count: int, picks: tuple[int, ...]) -> Callable[[Plan], Plan]:
    """What makes a function of `count` arguments of a plan: written out, which takes a third of the time of a list."""
    names = ", ".join([f"v{i}" for i in range(count)])
    picked = ", ".join(
        ["None" if i < 0 else f"v{i}" if i < AS_FLOAT else f"float(v{i - AS_FLOAT})" for i in picks]
    )
    text = (
        f"def bind(plan):\n    def picking({names}):\n        try: return plan({picked})\n        {HANDLER}\n"
    )
    given = {"__name__": __name__, "hide_inner_frames": hide_inner_frames}
    made: Callable[[Plan], Plan] = defined("bind", f"{text}    return picking\n", "plan", given)
    return made
