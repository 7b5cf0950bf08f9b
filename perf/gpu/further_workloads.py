"""Statements beyond `workloads.all_workloads`, which the model of a launch does not predict."""

from __future__ import annotations

from .chain_workloads import chain_workloads
from .gradient_workloads import gradient_workloads
from .indexing_workloads import indexing_workloads
from .layer_workloads import layer_workloads
from .narrow_workloads import narrow_workloads
from .workloads import Workload


def further_workloads(scale: int = 1) -> list[Workload]:
    """Return the workloads in order of importance. `scale` divides the sizes, for a rehearsal."""
    return [
        *gradient_workloads(scale), *chain_workloads(scale), *layer_workloads(scale), *indexing_workloads(scale),
        *narrow_workloads(scale),
    ]  # fmt: skip
