"""Overlap of a group's communication with computation, and custom replacements of the collectives."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ..process_group import ProcessGroup
from ..work import Work

__all__ = ["AllGather", "Lane", "Lanes", "ReduceScatter"]


class _Communication(abc.ABC):
    @abc.abstractmethod
    def allocate(self, size: Sequence[int], *, dtype: ScalarType, device: Device) -> Tensor:
        """Allocate the output buffer."""


class AllGather(_Communication):
    """Custom replacement of `all_gather_into_tensor` for parameters (`FSDPModule.set_custom_all_gather`)."""

    @abc.abstractmethod
    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup, async_op: bool = False
    ) -> Work | None:
        """Gather."""


class ReduceScatter(_Communication):
    """Custom replacement of `reduce_scatter_tensor` for gradients (`FSDPModule.set_custom_reduce_scatter`)."""

    @abc.abstractmethod
    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> Work | None:
        """Reduce and scatter."""


class Lane:
    """Order of communications that overlaps with computation: a CUDA stream, or the group's thread on the
    CPU.

    Code inside ``with lane`` is issued to the stream.

    Args:
        device: The device.
    """

    def __init__(self, device: Device) -> None:
        self._stream: Any = None
        self._block: Any = None
        self._device = device
        if device.type == "cuda":
            from ...cuda import Stream

            self._stream = Stream(device, priority=-1)

    def wait_for_current(self) -> None:
        """Make the lane wait for the current stream."""
        if self._stream is not None:
            from ...cuda import current_stream

            self._stream.wait_stream(current_stream(self._device))

    def wait_for(self, event: Any) -> None:
        """Make the lane wait for an event."""
        if self._stream is not None:
            self._stream.wait_event(event)

    def __enter__(self) -> Lane:
        if self._stream is not None:
            from ...cuda import stream

            self._block = stream(self._stream)
            self._block.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._block is not None:
            self._block.__exit__(*error)
            self._block = None

    def mark(self) -> Any:
        """Record an event at the current end of the stream; return None without a stream."""
        return None if self._stream is None else self._stream.record_event()

    def hand_over(self, event: Any) -> None:
        """Make the current stream wait for an event of `mark`."""
        if event is not None:
            from ...cuda import current_stream

            current_stream(self._device).wait_event(event)


class Lanes:
    """The lanes of all groups of a program's root module.

    Args:
        device: where.
    """

    def __init__(self, device: Device) -> None:
        self.gathers, self.reductions = Lane(device), Lane(device)
