"""Which rule serves an operator: by name, by its tags, by registration for custom operators, else the loop."""

from __future__ import annotations

from typing import Any

from ...core.operator_entry import OperatorEntry
from . import linalg, pointwise, random, reduction, views
from .layout import Batch, Dims, Rule
from .loop import loop, refuse_alias

RULES: dict[str, Rule] = {}
for _family in (pointwise, reduction, views, linalg, random):
    RULES.update({f"aten::{name}": rule for name, rule in _family.RULES.items()})

LOOPED: dict[str, str] = {}
"""Operators that run example by example, and why no rule is worth its while."""

REFUSED: dict[str, str] = {}
"""Operators that cannot be mapped, and what the error says."""

UNDESCRIBABLE = {f"aten::{name}" for name in random.RULES}
"""Operators that are not asked about metadata first: they draw random numbers, or sizes depend on values."""


def rule_for(op: OperatorEntry) -> tuple[Rule, bool]:
    """The rule of an operator, and whether metadata alone describes its results. Raises RuntimeError for none."""
    name = op.name
    if name in REFUSED:
        raise RuntimeError(REFUSED[name])
    schema = op.schema
    if schema.out_arguments:
        refuse_alias(name)
    rule = RULES.get(name)
    if rule is not None:
        return rule, name not in UNDESCRIBABLE
    if not name.startswith("aten::"):
        return _custom, False
    if "pointwise" in op.tags:
        return pointwise.pointwise_ if schema.is_mutable else pointwise.pointwise, True
    if any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns):
        refuse_alias(name)
    return loop, name not in UNDESCRIBABLE


def _custom(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
    from .custom import custom_rule

    return custom_rule(batch, dims, *args)


