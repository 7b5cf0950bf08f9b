"""Gradients of some parameters, averaged together when that of another one is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ...dispatch.autograd.graph import know_tasks, queue_callback
from ...distributed.collectives import all_reduce
from ...distributed.data_parallel.module_states import broadcast_coalesced

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...distributed.process_group import ProcessGroup

__all__ = ["DelayedReduction"]

BROADCAST_BYTES = 25 << 20


class DelayedReduction:
    """The gradients of parameters in one line (`delay_all_reduce_named_params`).

    Args:
        group: the processes.
        params: the parameters, which become those of process 0.
        trigger: when its gradient is there, those of the others are averaged.
    """

    def __init__(self, group: ProcessGroup, params: Sequence[Tensor], trigger: Tensor) -> None:
        from ... import zeros

        know_tasks()
        self.group, self.params = group, list(params)
        first = self.params[0]
        self.buffer = zeros(sum(each.numel() for each in params), dtype=first.dtype, device=first.device)
        self.views: list[Tensor] = []
        offset = 0
        for each in self.params:
            self.views.append(self.buffer[offset : offset + each.numel()].view(each.shape))
            offset += each.numel()
        broadcast_coalesced(group, [each.detach() for each in self.params], BROADCAST_BYTES)
        trigger.register_hook(self._reduce)

    def prepare(self) -> None:
        """Have gradients that are None be parts of the line, of zeros."""
        for param, view in zip(self.params, self.views, strict=True):
            if param.grad is None:
                view.zero_()
                param.grad = view

    def _reduce(self, grad: Tensor) -> None:
        with no_grad():
            self.buffer.mul_(1.0 / self.group.size())
            work: Any = all_reduce(self.buffer, group=self.group, async_op=True)
        queue_callback(work.wait)
