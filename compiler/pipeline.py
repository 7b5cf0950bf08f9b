"""The pipeline of a compilation: every phase and every pass by name, in order.

A call of a compiled function goes through these phases. Start reading at `compile_graph`.

1. Capture (`capture/recording.py`): run the function on fake tensors; the result is a `Recording`, a graph and the
   guards under which it is valid.
2. Early passes (`run_early_passes`): replace patterns of operators, such as attention, by one operator.
3. Split (`training.py`, `partition.py`): if inputs require grad, split the joint graph into forward and backward.
4. Passes (`run_passes`, `run_last_passes`): rewrite each graph.
5. Schedule (`schedule_of`): group steps into fused kernels.
6. Lower and emit (`kernel_for`): generate each kernel, by LLVM or NumPy for the CPU and by Triton for CUDA.
7. Run (`host/replay.py`): one generated function calls the kernels and the plans of all other operators.

`compilation.py` runs phases 2 to 7 for a recording and connects the result to autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from ..dispatch.layers.graph.graph import Graph, Node
from .backends import Backend, Compiled, boxed, interpreted
from .cuda_graphs.eligibility import device_of, specs_of
from .epilogues import product_call, with_epilogues
from .host.block_reductions import host_reduction_kernel
from .host.pointwise import host_kernel
from .host.replay import replay
from .host.rows import host_rows_kernel
from .host.single_steps import with_single_steps
from .norm_kernels import with_channel_norms
from .passes.attention import fuse_attention
from .passes.batch_norm import normalise_in_steps
from .passes.broadcasts import broadcast_in_pointwise_steps
from .passes.channels_last import choose_channels_last
from .passes.common_subexpressions import share_common_subexpressions
from .passes.constant_folding import fold_constants
from .passes.cross_entropy import fuse_cross_entropy
from .passes.dead_code import eliminate_dead_code
from .passes.donations import donate_dead_operands
from .passes.in_place import write_in_place
from .passes.kept_dimensions import keep_dimensions
from .passes.pointwise_compositions import compose_pointwise_steps
from .passes.scattered_zeros import scatter_into_a_number
from .passes.unread_statistics import leave_out_running_statistics
from .passes.vector_norms import reduce_to_norms
from .passes.viewed_reductions import reduce_what_is_viewed
from .passes.views_first import take_views_first
from .passes.waits import read_after_waits
from .product_kernel import ProductKernel
from .prologues import with_prologues
from .schedule import Kernel, ReductionKernel, RowsKernel, Schedule, fused_schedule, plain_schedule

Pass = Callable[[Graph], Any]

EARLY_PASSES: tuple[Pass, ...] = (leave_out_running_statistics,)
"""On the recorded graph, before its split into forward and backward."""

FUSING_PASSES: tuple[Pass, ...] = (fuse_attention, fuse_cross_entropy)
"""Early passes of the built-in backend alone: the fused operators round less than the operators they replace."""

PASSES: tuple[Pass, ...] = (
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
"""On each graph, forward and backward, for every backend."""

LAST_PASSES: tuple[Pass, ...] = (fold_constants, choose_channels_last, donate_dead_operands)
"""On a graph that will run, at its actual sizes: the first computes, the second counts bytes."""


def compile_graph(
    graph: Graph,
    backend: str | Backend,
    examples: Sequence[Any],
    *,
    is_boxed: bool = False,
    tunes: bool = False,
) -> tuple[Compiled, Schedule | None]:
    """Return a graph as a function of its inputs, and its schedule if this package compiled it.

    Args:
        graph: Graph of forward or backward, which is changed.
        is_boxed: If True, the function takes a list of inputs, which it empties. Default: False.
        tunes: If True, GPU launches are autotuned. Default: False.
    """
    if callable(backend):
        return boxed(backend(graph, examples), is_boxed), None
    run_passes(graph)
    if backend == "graph":
        donate_dead_operands(graph)
        return boxed(interpreted(graph), is_boxed), plain_schedule(graph)
    run_last_passes(graph)
    schedule = schedule_of(graph)
    schedule.check()
    with compiling_kernels(graph):
        return replay(schedule, _kernels_of(graph, schedule, tunes), is_boxed)[0], schedule


def run_early_passes(graph: Graph, is_fused: bool = True) -> None:
    """Run the early passes on a recorded graph.

    Args:
        graph: The graph, which is changed.
        is_fused: If True, run `FUSING_PASSES` too. Default: True.
    """
    _run((*EARLY_PASSES, *(FUSING_PASSES if is_fused else ())), graph)


def run_passes(graph: Graph) -> Graph:
    """Run `PASSES` on a graph, which is changed. Raise RuntimeError that names the pass after which it is not well
    formed."""
    return _run(PASSES, graph)


def run_last_passes(graph: Graph) -> Graph:
    """Run `LAST_PASSES` on a graph, which is changed. Raise RuntimeError as `run_passes` does."""
    return _run(LAST_PASSES, graph)


def _run(passes: Sequence[Pass], graph: Graph) -> Graph:
    known: dict[Node, tuple[Any, ...]] = {}
    for each in passes:
        each(graph)
        try:
            graph.lint(known)
        except RuntimeError as error:
            raise RuntimeError(f"after the pass {each.__name__}: {error}") from error
    return graph


def schedule_of(graph: Graph) -> Schedule:
    """Return the schedule of a graph to which the passes have been applied."""
    schedule = fused_schedule(graph)
    if any(product_call(node) is not None for node in graph.nodes):
        from .triton.products import is_served

        schedule = with_epilogues(schedule, is_served)
        schedule = with_prologues(schedule, is_served)
    schedule = with_channel_norms(schedule)
    return with_single_steps(schedule)


def kernel_for(kernel: Kernel, tunes: bool = False) -> Callable[..., tuple[Any, ...]]:
    """Return a fused kernel as a function of buffers on its device. With `tunes`, its shape is autotuned."""
    if isinstance(kernel, ProductKernel):
        from .triton.products import device_product_kernel

        return device_product_kernel(kernel)
    if kernel.device.type == "cpu":
        if isinstance(kernel, ReductionKernel):
            return host_reduction_kernel(kernel)
        return host_rows_kernel(kernel) if isinstance(kernel, RowsKernel) else host_kernel(kernel)
    if isinstance(kernel, ReductionKernel):
        from .triton.block_reductions import device_reduction_kernel

        return device_reduction_kernel(kernel)
    from .triton.pointwise import device_kernel
    from .triton.rows import device_rows_kernel

    return device_rows_kernel(kernel) if isinstance(kernel, RowsKernel) else device_kernel(kernel, tunes)


def compiling_kernels(graph: Graph) -> AbstractContextManager[None]:
    """Return a context in which a graph's kernels are planned. At its end, worker processes compile the CUDA
    kernels."""
    if all(spec.device.type != "cuda" for node in graph.nodes for spec in specs_of(node)):
        return nullcontext()
    from .parallel.planned import compiled_in_parallel

    return compiled_in_parallel()


def _kernels_of(
    graph: Graph, schedule: Schedule, tunes: bool
) -> Callable[..., Callable[..., tuple[Any, ...]]]:
    """Return the kernel factory of a schedule, and tune its operators first if requested and possible."""
    device = device_of(graph) if tunes else None
    if device is None:
        return kernel_for
    from .triton.tuning import tune_operators, why_untimed

    if why_untimed(device) is not None:
        return kernel_for
    tune_operators(schedule)
    return partial(kernel_for, tunes=True)
