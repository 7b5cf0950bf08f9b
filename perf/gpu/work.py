"""Bytes and operations of a row's workload: those that the table states, else those counted on Meta tensors."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from ..costs import cost
from .workloads import Operand, Workload

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])


def work_of(workload: Workload) -> tuple[int, int]:
    """Return the bytes that a workload must move, and its floating-point operations.

    The table states the bytes of rows that depend on the hardware, such as strided reads, and the operations of
    matmuls. `tt.perf.cost` counts the others operator by operator: it reads each operand once, and writes each
    result once. A number that it cannot count is 0, which means unknown.

    Example:
        >>> from triten.perf.gpu.work import work_of
        >>> from triten.perf.gpu.workloads import Operand, Workload
        >>> operands = {"a": Operand((4, 4), "float32"), "b": Operand((4, 4), "float32")}
        >>> work_of(Workload("g", "mm", "a @ b", operands)), work_of(Workload("g", "n", "a + b", operands, written=64))
        ((192, 128), (192, 16))
    """
    if workload.nbytes and workload.flops:
        return workload.nbytes, workload.flops
    names = {
        "lib": tt,
        "F": importlib.import_module(f"{tt.__name__}.nn.functional"),
        **{name: without_memory(operand) for name, operand in workload.operands.items()},
    }
    code = compile(workload.statement, f"<{workload.name}>", "eval")
    try:
        counted = cost(lambda: eval(code, names))
    except (NotImplementedError, RuntimeError, ValueError, AttributeError):
        return workload.nbytes, workload.flops
    return workload.nbytes or counted.bytes, workload.flops or counted.flops


def without_memory(operand: Operand) -> Any:
    """Return an operand's Meta tensor."""
    made = tt.empty(operand.shape, dtype=getattr(tt, operand.dtype), device="meta")
    return made.to(memory_format=tt.channels_last) if operand.channels_last else made
