"""Autograd node at which backward of a `DistributedDataParallel` begins."""

from __future__ import annotations

from typing import Any

from ...autograd import Function
from ...dispatch.autograd.graph import queue_callback
from ...dispatch.autograd.node import edge_of

__all__ = ["DDPSink"]


class DDPSink(Function):
    """The identity of a module's outputs, whose backward tells the reducer to which of them gradients come."""

    @staticmethod
    def forward(ctx: Any, ddp: Any, *outputs: Any) -> Any:
        """Return the outputs, cloned if the caller may write to them; `ddp` is a weak reference."""
        ctx.set_materialize_grads(False)
        ctx.ddp = ddp
        ctx.edges = [edge_of(each) for each in outputs]
        return tuple([each.clone() for each in outputs]) if ddp()._ddp_sink_clone else outputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients unchanged, after notifying the reducer that backward begins."""
        ddp = ctx.ddp()
        reducer = ddp.reducer
        if reducer.static_graph:
            if not ddp._static_graph_delay_allreduce_enqueued:
                ddp._static_graph_delay_allreduce_enqueued = True
                queue_callback(reducer._delay_all_reduce)
        else:
            reducer.mark_unused(
                [
                    edge
                    for edge, grad in zip(ctx.edges, grads, strict=True)
                    if grad is not None and edge is not None
                ]
            )
        return (None, *grads)
