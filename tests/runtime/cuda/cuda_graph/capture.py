"""What the tests of graphs share: capturing, and tensors on the device."""

from collections.abc import Callable
from typing import Any

import triten as tt


def captured(work: Callable[[], Any], **options: Any) -> tuple[tt.cuda.CUDAGraph, Any]:
    """A graph of `work`, which ran once before, and what the captured call returned."""
    work()
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph, **options):
        result = work()
    return graph, result


def cuda(*values: Any) -> tt.Tensor:
    """A vector on the device."""
    return tt.tensor(values, device="cuda")
