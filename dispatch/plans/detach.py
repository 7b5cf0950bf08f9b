"""`detach`: the same memory and version counter without history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.version_cell import mark_aliases
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..tensor import Tensor, blank_tensor


def detach(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``detach`` for every backend; autograd redispatches to it."""
    spec = args[0]._spec.detached
    if spec.is_inference:
        return lambda self: Tensor.from_data(self._data, spec)

    def plan(self: Tensor) -> Tensor:
        out = blank_tensor()
        out._data = self._data
        out._spec = spec
        cell = self._version_cell
        if cell is None:
            cell = self._version_cell = [0]
        if len(cell) == 1:
            mark_aliases(self, cell)
        out._version_cell = cell
        out._alias_mark = cell[1]
        out._autograd = out._view_base = None
        return out

    return plan
