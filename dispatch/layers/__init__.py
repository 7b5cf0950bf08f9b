"""Layers above and between the kernels: trace, modes, tensor subclasses, names, autocast, transforms, graphs.

Each is usable alone and nested, and costs nothing while it is off. Kernels and formulas do not belong here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..core.operator_entry import OperatorEntry


def plan_batched(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Callable[..., Any]:
    """Plan an operator on batched tensors; the batching rules are imported with the first one."""
    from .batching.kernel import plan_batched

    return plan_batched(op, key_set, args)
