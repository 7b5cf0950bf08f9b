"""Planners of ``record_stream`` and ``is_pinned`` (ATen/native/Memory.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.allocator import get_allocator
from ....runtime.device import CPU
from ....runtime.storage import address_of
from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry

if TYPE_CHECKING:
    from ....runtime.cuda.stream import Stream
    from ...tensor import Tensor


def record_stream(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.record_stream(s)``: the allocator reuses the memory only after the work queued on `s` so far."""
    spec: TensorSpec = args[0]._spec
    if spec.device.type != "cuda":
        raise NotImplementedError(
            f"Could not run 'aten::record_stream' with arguments from the '{spec.device.type.upper()}' backend: only "
            "CUDA tensors are used by streams"
        )
    index = spec.device.resolved_index
    allocator: Any = get_allocator("cuda")

    def record(self: Tensor, s: Stream) -> None:
        if s.device_index != index:
            raise RuntimeError(
                f"record_stream(): expected a stream of the tensor's device {spec.device}, got one of {s.device}"
            )
        root = self._data.root
        # External and empty memory is not managed by this allocator.
        if root.deleter is not None:
            allocator.record_stream(root, s.cuda_stream)

    return record


def is_pinned(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``self.is_pinned()``: True for page-locked host memory."""
    if args[0]._spec.device is not CPU:
        return lambda *_: False
    from ....runtime.cuda.memory.pinned import is_pinned as is_page_locked

    def ask(self: Tensor) -> bool:
        return is_page_locked(address_of(self._data))

    return ask
