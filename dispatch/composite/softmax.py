"""``softmax`` and ``log_softmax`` as users call them, with a dtype to convert to first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import dtype as ScalarType
from ..core.kernel_function import Plan, Planner
from ..core.operator_entry import OperatorEntry
from ..generated import functions as ops
from ..plans.delegated import plan_of_part_alike
from ..plans.register import planned_by
from .dimnames import by_name

if TYPE_CHECKING:
    from ..tensor import Tensor


def _served_by(part: str) -> Planner:
    """Return the planner of ``(self, dim, dtype)``; without a dtype, `part` serves the whole call."""

    def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        self, dim, dtype = args
        planned = (
            None if dtype is not None else plan_of_part_alike(op, key_set, args, part, (self, dim, False))
        )
        kernel = softmax if part == "aten::_softmax" else log_softmax
        return op.rebind(kernel, args) if planned is None else planned

    return plan


@planned_by(_served_by("aten::_softmax"))
def softmax(self: Tensor, dim: int, dtype: ScalarType | None) -> Tensor:
    """Compute `torch.softmax`."""
    return ops._softmax(self if dtype is None else self.to(dtype), dim, False)


def softmax_out(self: Tensor, dim: int, dtype: ScalarType | None, out: Tensor) -> Tensor:
    """Run `torch.softmax` into `out`."""
    return ops._softmax(self if dtype is None else self.to(dtype), dim, False, out=out)


def safe_softmax(self: Tensor, dim: int, dtype: ScalarType | None) -> Tensor:
    """Compute `softmax` with zeros, and gradients of zero, along a line of nothing but -inf."""
    scores = self if dtype is None else self.to(dtype)
    empty = ops.all(ops.eq(scores, -math.inf), dim, True)
    # The gradient of a softmax over nothing is NaN; its product with zero is NaN too.
    return ops.masked_fill(ops.softmax(ops.masked_fill(scores, empty, 0.0), dim), empty, 0.0)


@planned_by(_served_by("aten::_log_softmax"))
def log_softmax(self: Tensor, dim: int, dtype: ScalarType | None) -> Tensor:
    """Compute `torch.log_softmax`."""
    return ops._log_softmax(self if dtype is None else self.to(dtype), dim, False)


def log_softmax_out(self: Tensor, dim: int, dtype: ScalarType | None, out: Tensor) -> Tensor:
    """Run `torch.log_softmax` into `out`."""
    return ops._log_softmax(self if dtype is None else self.to(dtype), dim, False, out=out)


softmax_by_name = by_name("softmax.int")
log_softmax_by_name = by_name("log_softmax.int")
