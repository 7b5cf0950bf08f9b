"""The rule of each operator."""

from __future__ import annotations

from ....dispatch.core.operator_entry import OperatorEntry
from . import (
    losses,
    normalization,
    optimizers,
    pointwise,
    pooling,
    products,
    reductions,
    rows,
    sampling,
    views,
)
from .rule import Rule

__all__ = ["RULES", "rule_of"]

NO_RULE = Rule()
RULES: dict[str, Rule] = {}
for _family in (
    losses,
    normalization,
    optimizers,
    pointwise,
    pooling,
    products,
    reductions,
    rows,
    sampling,
    views,
):
    RULES.update(_family.RULES)


def rule_of(name: str, op: OperatorEntry) -> Rule:
    """Return the rule of an operator; the default rule replicates all tensors."""
    rule = RULES.get(name)
    if rule is None:
        rule = pointwise.POINTWISE if "pointwise" in op.tags else NO_RULE
        RULES[name] = rule
    return rule
