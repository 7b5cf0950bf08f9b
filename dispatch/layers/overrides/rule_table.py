"""Rules for public calls with tensors of wrapper subclasses, which consist of other tensors: a table by name.

A rule is a function of the callable, its positional and its keyword arguments, as `__tensor_function__` receives them.
`RuleTable.rule` enters one under several names; `RuleTable.signature` enters a function that has the parameters of the
public one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from ...core.op_overload import OpOverload, OpOverloadGroup, Ops
from ...core.tags import Tag
from ...schema.numpy_names import OWN_NAMES
from .overridable import index

Rule = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]

_aten = Ops().aten

SPECIAL_POINTWISE = frozenset(
    [f"__{prefix}{name}__" for prefix in ("", "r", "i") for name in ("and", "or", "xor", "lshift", "rshift")]
    + [
        f"__{prefix}{name}__"
        for prefix in ("", "r", "i")
        for name in ("sub", "truediv", "floordiv", "pow", "mod")
    ]
    + ["__invert__"]
)
"""Special methods for elementwise operators."""

POINTWISE_COMPOSITES = frozenset(
    [f"arc{name}{suffix}" for name in ("sin", "cos", "tan") for suffix in ("", "h")]
    + [f"is{name}" for name in ("nan", "inf", "finite")]
    + ["absolute", "arctan2", "clip", "fix", "negative", "positive", "square"]
    + ["greater", "greater_equal", "less", "less_equal", "not_equal"]
)
"""Pointwise aliases and composites. As in PyTorch, they lack the tag of the operators that they call."""


@cache
def name_of(func: Any) -> str:
    """Return a call's name without its namespace; a property's name ends in ``.__get__`` or ``.__set__``."""
    if isinstance(func, OpOverload | OpOverloadGroup):
        return str(func).split(".")[1]
    full = index().get(func) or str(getattr(func, "__name__", func))
    if full.endswith(("__get__", "__set__", "__delete__")):
        return ".".join(full.split(".")[-2:])
    return str(full.rpartition(".")[2])


@cache
def is_pointwise(name: str) -> bool:
    """Return True if an operator of this name has the pointwise tag."""
    if name in SPECIAL_POINTWISE or name.removesuffix("_") in POINTWISE_COMPOSITES:
        return True
    try:
        group = getattr(_aten, name)
        return any(Tag.pointwise in getattr(group, each).tags for each in group.overloads())
    except AttributeError:
        return False


def own_names(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments by the operators' own parameter names: a method's `self` is `input`."""
    return {"input" if name == "self" else OWN_NAMES.get(name, name): value for name, value in kwargs.items()}


class RuleTable:
    """The rules of one class."""

    def __init__(self) -> None:
        self.rules: dict[str, Rule] = {}

    def rule(self, *names: str) -> Callable[[Rule], Rule]:
        """Enter a rule under names."""

        def enter(rule: Rule) -> Rule:
            self.rules.update(dict.fromkeys(names, rule))
            return rule

        return enter

    def signature(self, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a function with the public function's parameters under names, by default its own."""

        def enter(function: Callable[..., Any]) -> Callable[..., Any]:
            def bound(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
                return function(*args, **own_names(kwargs))

            self.rules.update(dict.fromkeys(names or (function.__name__,), bound))
            return function

        return enter

    def find(self, func: Any) -> Rule | None:
        """Return the rule of a call: its own, or that of pointwise operators; None if there is none."""
        name = name_of(func)
        rule = self.rules.get(name)
        return self.rules.get("pointwise") if rule is None and is_pointwise(name) else rule
