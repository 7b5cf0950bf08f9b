"""Bound on the number of result tensors, computed before a step runs: a file may request any number of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...dispatch.core.op_overload import OpOverload

MAX_RESULTS = 1 << 16
"""An exported program names each result that it uses."""
BY_SIZE = ("unbind", "unbind_copy")
BY_STEP = ("split", "split_copy", "unsafe_split")
BY_COUNT = ("tensor_split", "hsplit", "vsplit", "dsplit")


def check_result_count(operator: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise ValueError for a step with more than `MAX_RESULTS` result tensors."""
    schema = operator._schema
    name = schema.name.removeprefix("aten::")
    if name not in BY_SIZE + BY_STEP + BY_COUNT:
        return
    values = {
        argument.name: value
        for argument, value in zip(schema.arguments, operator.bind(args, dict(kwargs)), strict=True)
    }
    sizes, dim = tuple(values["self"].shape), values.get("dim", 0)
    # The operator itself reports other invalid arguments.
    size = sizes[dim] if type(dim) is int and -len(sizes) <= dim < len(sizes) else 0
    number = values.get("sections", values.get("split_size"))
    if name in BY_SIZE:
        count = size
    elif type(number) is not int:
        return
    else:
        count = number if name in BY_COUNT else size // max(number, 1)
    if count > MAX_RESULTS:
        raise ValueError(f"{operator.name()} with {count} results")
