"""Passes: rewrites of a graph in place. A pass is a file; its docstring shows a graph before and after.

`run_passes` runs them in order and checks the graph after each (`Graph.lint`). Passes are bitwise exact: they remove
steps and never change the order of floating-point operations. `run_last_passes` is for graphs that will run, at their
actual sizes: `fold_constants` computes, and `choose_channels_last` counts bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.layers.graph.graph import Graph, Node
from .attention import fuse_attention
from .batch_norm import normalise_in_steps
from .broadcasts import broadcast_in_pointwise_steps
from .channels_last import choose_channels_last
from .common_subexpressions import share_common_subexpressions
from .constant_folding import fold_constants
from .cross_entropy import fuse_cross_entropy
from .dead_code import eliminate_dead_code
from .donations import donate_dead_operands
from .in_place import write_in_place
from .kept_dimensions import keep_dimensions
from .pointwise_compositions import compose_pointwise_steps
from .scattered_zeros import scatter_into_a_number
from .unread_statistics import leave_out_running_statistics
from .vector_norms import reduce_to_norms
from .viewed_reductions import reduce_what_is_viewed
from .views_first import take_views_first
from .waits import read_after_waits

PASSES: tuple[Callable[[Graph], bool], ...] = (
    read_after_waits,
    reduce_to_norms,
    compose_pointwise_steps,
    scatter_into_a_number,
    take_views_first,
    share_common_subexpressions,
    reduce_what_is_viewed,
    keep_dimensions,
    broadcast_in_pointwise_steps,
    eliminate_dead_code,
    write_in_place,
    normalise_in_steps,
)


def run_early_passes(graph: Graph, is_fused: bool = True) -> None:
    """Run the passes on a recorded graph that precede its split into forward and backward.

    Args:
        graph: The graph, which is changed.
        is_fused: If True, replace attention and cross entropy by operators, which round less. Default: True.
    """
    leave_out_running_statistics(graph)
    if is_fused:
        fuse_attention(graph)
        fuse_cross_entropy(graph)
        graph.lint()


def run_passes(graph: Graph) -> Graph:
    """Run every pass on a graph, which is changed. Raises RuntimeError that names the pass after which it is not well
    formed."""
    known: dict[Node, tuple[Any, ...]] = {}
    for each in PASSES:
        each(graph)
        try:
            graph.lint(known)
        except RuntimeError as error:
            raise RuntimeError(f"after the pass {each.__name__}: {error}") from error
    return graph


def run_last_passes(graph: Graph) -> Graph:
    """Run the last passes on a graph that will run. Raise RuntimeError if it is not well formed afterwards."""
    fold_constants(graph)
    choose_channels_last(graph)
    donate_dead_operands(graph)
    graph.lint()
    return graph
