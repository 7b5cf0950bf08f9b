"""Shared steps of the CUDA graph tests: capture, and tensors on the device."""

from collections.abc import Callable
from typing import Any

import triten as tt


def captured(work: Callable[[], Any], **options: Any) -> tuple[tt.cuda.CUDAGraph, Any]:
    """Run `work` once, capture it, and return the graph and the captured call's result."""
    work()
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph, **options):
        result = work()
    return graph, result


def cuda(*values: Any) -> tt.Tensor:
    """Return a vector on the device."""
    return tt.tensor(values, device="cuda")
