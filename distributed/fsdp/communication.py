"""How a group's communication runs beside computation, and what may communicate in the place of the collectives."""

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
        """The memory that is written."""


class AllGather(_Communication):
    """What gathers parameters in the place of `all_gather_into_tensor` (`FSDPModule.set_custom_all_gather`)."""

    @abc.abstractmethod
    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup, async_op: bool = False
    ) -> Work | None:
        """Gather."""


class ReduceScatter(_Communication):
    """What reduces gradients in the place of `reduce_scatter_tensor` (`FSDPModule.set_custom_reduce_scatter`)."""

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
    """An order of communications beside that of computation: a stream of a GPU; on the CPU, the group's thread.

    What runs inside ``with lane`` is given to the stream.

    Args:
        device: where.
    """

    def __init__(self, device: Device) -> None:
        self._stream: Any = None
        self._block: Any = None
        self._device = device
        if device.type == "cuda":
            from ...cuda import Stream

            self._stream = Stream(device, priority=-1)

    def wait_for_current(self) -> None:
        """Have what comes wait for all that the current stream was given."""
        if self._stream is not None:
            from ...cuda import current_stream

            self._stream.wait_stream(current_stream(self._device))

    def wait_for(self, event: Any) -> None:
        """Have what comes wait for an event."""
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
        """The end of what was given to the stream up to here; None where there is no stream."""
        return None if self._stream is None else self._stream.record_event()

    def hand_over(self, event: Any) -> None:
        """Have the current stream wait for what `mark` gave."""
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
