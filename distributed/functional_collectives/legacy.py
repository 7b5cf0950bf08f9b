"""The operators of `c10d_functional`: those of `_c10d_functional`, with a group named by its ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.core.op_overload import find_overload
from ..groups import group_by_ranks

SIZED = ("all_gather", "reduce_scatter")
"""How the names of operators begin that take the size of the group too."""


def kernel_of(name: str) -> Callable[..., Any]:
    """Return the kernel of an operator by its name without namespace. As in PyTorch, the tag is ignored."""
    if name == "wait_tensor":
        return lambda tensor: find_overload("_c10d_functional::wait_tensor")(tensor)

    def kernel(tensor: Any, *rest: Any) -> Any:
        *arguments, _tag, ranks, group_size = rest
        if name == "all_to_all_single":
            arguments = [_splits(tensor, sizes, group_size) for sizes in arguments]
        elif name.startswith(SIZED):
            arguments.append(group_size)
        operator = find_overload(f"_c10d_functional::{name}")
        return operator(tensor, *arguments, group_by_ranks(ranks).group_name)

    return kernel


def _splits(tensor: Any, sizes: Sequence[int] | None, group_size: int) -> Sequence[int]:
    """Return the rows for each process: equal parts if none are given."""
    if sizes is not None:
        return sizes
    if tensor.shape[0] % group_size:
        raise RuntimeError(
            f"all_to_all_single: {tensor.shape[0]} rows cannot be split evenly over {group_size} processes; give the "
            "split sizes"
        )
    return [tensor.shape[0] // group_size] * group_size
