"""The registry as the check sees it: overloads that are one operator, and those that no row of the table reaches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher

from .samples import Sample, reason_without_sample

PREFIX = "aten::"


@dataclass
class Forms:
    """The overloads of one operator that take the same arguments; `out_names` are those of its results."""

    functional: str | None = None
    inplace: str | None = None
    out: str | None = None
    out_names: tuple[str, ...] = ()
    schemas: dict[str, Any] = field(default_factory=dict)


def overload(name: str) -> Any:
    """Return the overload ``add.Tensor`` as a callable."""
    base, _, rest = name.partition(".")
    return getattr(getattr(tt.ops.aten, base), rest or "default")


def plain_type(argument: Any) -> str:
    """Return an argument's type without its alias annotation: ``Tensor(a!)`` is a Tensor."""
    return re.sub(r"\(.*?\)", "", str(argument.type))


@lru_cache(maxsize=1)
def all_forms() -> dict[str, Forms]:
    """Return every overload's forms by name."""
    dispatcher = Dispatcher.singleton()
    groups: dict[Any, Forms] = {}
    by_name: dict[str, Forms] = {}
    for full in sorted(dispatcher.get_all_op_names()):
        if not full.startswith(PREFIX):
            continue
        name = full.removeprefix(PREFIX)
        schema = dispatcher.find_schema_or_throw(full).schema
        base = name.partition(".")[0]
        mutated = [a for a in schema.arguments if a.is_write and not a.is_out]
        family = base[:-1] if mutated and base.endswith("_") and not base.endswith("__") else base
        given = tuple((a.name, plain_type(a)) for a in schema.arguments if not a.is_out)
        forms = groups.setdefault((family, given), Forms())
        forms.schemas[name] = schema
        by_name[name] = forms
        if any(a.is_out for a in schema.arguments):
            forms.out = name
            forms.out_names = tuple(a.name for a in schema.arguments if a.is_out)
        elif mutated:
            forms.inplace = name
        elif forms.functional is None:
            forms.functional = name
    return by_name


def has_own_kernel(name: str) -> bool:
    """Return True if any form of an overload has a kernel for CUDA; other overloads are composites."""
    find = Dispatcher.singleton().find_schema_or_throw
    return any(tt.DispatchKey.CUDA in find(PREFIX + form).kernels for form in all_forms()[name].schemas)


def unsampled(samples: Iterable[Sample]) -> list[str]:
    """Return operators, by one overload each, that no row reaches and no reason excuses."""
    by_name = all_forms()
    reached = {id(by_name[sample.operator]) for sample in samples}
    missing: dict[int, str] = {}
    for name, forms in by_name.items():
        excused = all(reason_without_sample(s) for s in forms.schemas.values())
        if id(forms) not in reached and not excused:
            missing.setdefault(id(forms), name)
    return sorted(missing.values())
