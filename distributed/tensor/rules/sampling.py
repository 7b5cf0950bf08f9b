"""Random ops: each rank generates the values of its part, which are the same for any placements."""

from __future__ import annotations

from typing import Any

from ....dispatch.generated import functions as ops
from ..draws import drawn_part
from .pointwise import pointwise
from .rule import Invocation, Rule

__all__ = ["RULES"]


def _dropout(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    input, p, train = values["input"], values["p"], values["train"]
    if train is False or p in (0.0, 1.0):
        return func(input, p, train)
    mask = drawn_part(lambda like: func(like, p, True)[1], input, targets[0])
    return ops.native_dropout_backward(input, mask, 1.0 / (1.0 - p)), mask


def _in_place(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    positional, named = _rest(func, values)
    input = values["self"]
    drawn = drawn_part(
        lambda like: func(like, *positional, **named), input, targets[0], values.get("generator")
    )
    return input.copy_(drawn)


def _like(func: Any, values: dict[str, Any], call: Invocation, targets: Any) -> Any:
    positional, named = _rest(func, values)
    return drawn_part(
        lambda like: func(like, *positional, **named), values["self"], targets[0], values.get("generator")
    )


def _rest(func: Any, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments after the tensor."""
    arguments = func._entry.schema.arguments[1:]
    return (
        [values[each.name] for each in arguments if not each.kwarg_only],
        {each.name: values[each.name] for each in arguments if each.kwarg_only},
    )


_IN_PLACE = "uniform_ normal_ log_normal_ cauchy_ exponential_ geometric_ random_ random_.from random_.to "
_IN_PLACE += "bernoulli_.float"
_LIKE = "bernoulli.p rand_like randn_like randint_like randint_like.low_dtype"
RULES = {
    # Each element has a probability of its own, or slope: drawn whole, though they are pointwise.
    "aten::bernoulli_.Tensor": Rule(),
    "aten::rrelu": Rule(),
    "aten::native_dropout": Rule(pointwise, local=_dropout, by_value=True),
    **{f"aten::{name}": Rule(pointwise, local=_in_place) for name in _IN_PLACE.split()},
    **{f"aten::{name}": Rule(pointwise, local=_like) for name in _LIKE.split()},
}
"""The rules of the family."""
