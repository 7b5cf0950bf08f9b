"""Scheduling of a graph: fused kernels, matmuls with prologues and epilogues, single loops."""

from __future__ import annotations

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.graph.graph import Graph
from .epilogues import PRODUCTS, with_epilogues
from .host.single_steps import with_single_steps
from .norm_kernels import with_channel_norms
from .prologues import with_prologues
from .schedule import Schedule, fused_schedule


def schedule_of(graph: Graph) -> Schedule:
    """Return the schedule that is compiled.

    Args:
        graph: The graph, after the passes.
    """
    schedule = fused_schedule(graph)
    if _has_products(graph):
        from .triton.products import is_served

        schedule = with_prologues(with_epilogues(schedule, is_served), is_served)
    return with_single_steps(with_channel_norms(schedule))


def _has_products(graph: Graph) -> bool:
    operators = (n.target for n in graph.find_nodes(op="call_function"))
    return any(isinstance(each, OpOverload) and each._entry.name in PRODUCTS for each in operators)
