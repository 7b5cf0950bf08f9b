"""Buffers of a `DistributedDataParallel`, broadcast from process 0 before each forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ...distributed.data_parallel.module_states import broadcast_coalesced

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...distributed.data_parallel.reducer import Reducer
    from ...distributed.process_group import ProcessGroup
    from ..modules.module import Module

__all__ = ["SyncedBuffers"]


class SyncedBuffers:
    """The part of a `DistributedDataParallel` that has to do with buffers.

    Attributes:
        modules_buffers: those that are sent.
        named_module_buffers: the same, by their names.
    """

    module: Module
    process_group: ProcessGroup
    reducer: Reducer
    broadcast_bucket_size: int
    forward_sync_buffers: bool
    parameters_to_ignore: set[str]
    require_forward_param_sync: bool
    modules_buffers: list[Tensor]
    named_module_buffers: dict[str, Tensor]
    _join_config: Any
    _find_common_rank: Callable[[int, bool], int]
    _buffer_hook: tuple[Any, Callable[..., Any], bool] | None

    def _assign_modules_buffers(self) -> None:
        named = [
            (name, buffer)
            for name, buffer in self.module.named_buffers()
            if name not in self.parameters_to_ignore
        ]
        self.named_module_buffers = dict(named)
        self.modules_buffers = [buffer for _, buffer in named]

    @property
    def broadcast_buffers(self) -> bool:
        """True if buffers are broadcast before each forward."""
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value: bool) -> None:
        self.forward_sync_buffers = value

    def will_sync_module_buffers(self) -> bool:
        """Return whether the next forward broadcasts buffers."""
        return self.require_forward_param_sync and self.forward_sync_buffers and len(self.modules_buffers) > 0

    def _syncs_buffers(self, after: bool) -> bool:
        if not self.will_sync_module_buffers():
            return False
        return after == (self._buffer_hook is not None and self._buffer_hook[2])

    def _sync_buffers(self) -> None:
        root = self._find_common_rank(self.process_group.rank(), True) if self._join_config.enable else 0
        self._assign_modules_buffers()
        self._sync_module_buffers(root)

    def _sync_module_buffers(self, root: int) -> None:
        if self._buffer_hook is None:
            with no_grad():
                # Backward may hold buffers: as in PyTorch, their versions stay.
                buffers = [each.data for each in self.modules_buffers]
                broadcast_coalesced(self.process_group, buffers, self.broadcast_bucket_size, root)
            return
        state, hook, _ = self._buffer_hook
        futures = hook(state, self.named_module_buffers)
        if futures is not None:
            self.reducer._install_post_backward_futures(futures)

    def _register_buffer_comm_hook(
        self, state: Any, hook: Callable[..., Any], comm_hook_location: object = None
    ) -> None:
        """Have a function make buffers equal: called with `state` and a dict of buffers, it may return futures.

        Args:
            state: for the function.
            hook: the function.
            comm_hook_location: ``"PRE_FORWARD"`` for a call before forward, or PyTorch's constant of this name.
        """
        if not callable(hook):
            raise AssertionError(f"hook must be callable, got {type(hook).__name__}")
        name = getattr(comm_hook_location, "name", comm_hook_location)
        self._buffer_hook = state, hook, name != "PRE_FORWARD"
