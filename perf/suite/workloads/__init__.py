"""Benchmark suites: one module each, whose `workloads(scale)` yields its rows in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..workload import Scale, Workload
from . import (
    allocator,
    attention,
    autograd,
    chains,
    conv,
    cuda,
    distributed,
    elementwise,
    end_to_end,
    imports,
    matmul,
    models,
    norm,
    overhead,
    quantized,
    reduction,
    sparse,
)

SUITES: dict[str, Callable[[Scale], Iterator[Workload]]] = {
    "overhead": overhead.workloads,
    "elementwise": elementwise.workloads,
    "reduction": reduction.workloads,
    "matmul": matmul.workloads,
    "quantized": quantized.workloads,
    "sparse": sparse.workloads,
    "conv": conv.workloads,
    "norm": norm.workloads,
    "attention": attention.workloads,
    "autograd": autograd.workloads,
    "chains": chains.workloads,
    "allocator": allocator.workloads,
    "end_to_end": end_to_end.workloads,
    "models": models.workloads,
    "distributed": distributed.workloads,
    "import": imports.workloads,
}

# Geometric means of ratios to PyTorch: the most that is accepted of a whole suite, and the aim.
MEAN_BARS = {
    "overhead": (0.55, 0.45),
    "elementwise": (1.0, 0.8),
    "conv": (2.0, 1.3),
    "end_to_end": (1.3, 0.9),
    "models": (1.5, 1.0),
}


def all_workloads(suites: list[str], scale: Scale) -> Iterator[Workload]:
    """Yield the rows of these suites; on CUDA, tensor suites use the sizes of `triten.perf gpu`."""
    for name in suites:
        if scale.device == "cuda" and name in cuda.SUITES:
            yield from cuda.workloads(name, scale)
        else:
            yield from SUITES[name](scale)
