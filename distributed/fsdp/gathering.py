"""Gathering the parameters of a group in one communication."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from ...autograd import no_grad
from ...dispatch.functions.foreach import _foreach_copy_
from ...dispatch.generated import functions as ops
from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ..collectives import all_gather_into_tensor
from ..process_group import ProcessGroup
from ..work import Work
from .communication import AllGather, Lane
from .freed import Buffer
from .sharded_parameter import ShardedParameter

__all__ = ["Gathering", "Layout", "begin_gathering"]

ALIGNMENT = 64
"""Bytes to a multiple of which each whole parameter begins in its buffer."""


class Layout(NamedTuple):
    """Positions of parameters of one dtype in a flat buffer.

    Attributes:
        parameters: The parameters.
        starts: Offset of each parameter, in elements.
        numel: Number of elements of the buffer.
    """

    parameters: tuple[ShardedParameter, ...]
    starts: tuple[int, ...]
    numel: int

    @classmethod
    def of(cls, parameters: Sequence[ShardedParameter], shards: int) -> Layout:
        """Lay out each whole parameter with the padding of `shards` shards."""
        starts, offset = [], 0
        for each in parameters:
            step = max(ALIGNMENT // each.gathered_dtype.itemsize, 1)
            offset = -(-offset // step) * step
            starts.append(offset)
            offset += each.gathered_numel * shards
        return cls(tuple(parameters), tuple(starts), offset)


class Gathering:
    """A communication that brings whole parameters, and where they go when it has ended."""

    def __init__(self, lane: Lane, shards: int) -> None:
        self.lane, self.shards = lane, shards
        self.parts: list[tuple[list[ShardedParameter], Tensor, Work | None]] = []
        self.sources: list[Tensor] = []
        self.event: Any = None

    def wait(self) -> None:
        """Wait for the communication without using its result."""
        for *_, work in self.parts:
            if work is not None:
                work.wait()
        self.lane.hand_over(self.event)

    def take(self, buffers: dict[ScalarType, Buffer]) -> None:
        """Put the whole parameters over what was gathered.

        Args:
            buffers: a buffer for each dtype.
        """
        self.wait()
        with no_grad():
            for parameters, gathered, _ in self.parts:
                layout = Layout.of(parameters, self.shards)
                content: Tensor = ops.empty(layout.numel, dtype=gathered.dtype, device=gathered.device)
                _copy_out(gathered.view(self.shards, -1), content, layout)
                for each, start in zip(parameters, layout.starts, strict=True):
                    each.whole_over(content.narrow(0, start, each.gathered_numel * self.shards))
                buffers.setdefault(gathered.dtype, Buffer()).fill(content)
        self.lane.wait_for_current()
        self.parts.clear()
        self.sources.clear()


def by_dtype(parameters: Sequence[ShardedParameter]) -> dict[ScalarType, list[ShardedParameter]]:
    """Group parameters by the dtype in which they are gathered."""
    groups: dict[ScalarType, list[ShardedParameter]] = {}
    for each in parameters:
        groups.setdefault(each.gathered_dtype, []).append(each)
    return groups


def begin_gathering(
    parameters: Sequence[ShardedParameter],
    group: ProcessGroup,
    device: Device,
    lane: Lane,
    communicate: AllGather | None = None,
    waits: bool = False,
) -> Gathering:
    """Begin to gather whole parameters, in one communication for each dtype.

    Args:
        parameters: The sharded parameters.
        group: Group of the ranks with the shards.
        device: Device of the gathered parameters.
        lane: Stream that orders the communication relative to the computation.
        communicate: Function that replaces `all_gather_into_tensor`.
        waits: True if the caller waits for the result immediately.
    """
    gathering = Gathering(lane, group.size())
    with no_grad(), lane:
        for dtype, several in by_dtype(parameters).items():
            source = _copy_in(several, dtype, device)
            gathering.sources.append(source)
            if group.size() == 1:
                gathering.parts.append((several, source, None))
                continue
            size = source.numel() * group.size()
            if communicate is None:
                output: Tensor = ops.empty(size, dtype=dtype, device=device)
                work = all_gather_into_tensor(output, source, group, async_op=not waits)
            else:
                output = communicate.allocate((size,), dtype=dtype, device=device)
                work = communicate(output, source, group, async_op=not waits)
            gathering.parts.append((several, output, work))
        gathering.event = lane.mark()
    return gathering


def _copy_in(parameters: Sequence[ShardedParameter], dtype: ScalarType, device: Device) -> Tensor:
    """Concatenate this rank's shards in a flat buffer."""
    shards = [each.given for each in parameters]
    if len(shards) == 1 and shards[0].dtype == dtype and shards[0].device == device:
        return shards[0]
    line: Tensor = ops.empty(sum(each.numel() for each in shards), dtype=dtype, device=device)
    pieces: Any = ops.split(line, [each.numel() for each in shards])
    _foreach_copy_(list(pieces), shards)
    return line


def _copy_out(gathered: Tensor, content: Tensor, layout: Layout) -> None:
    """Copy the shards of each parameter, gathered by rank, to contiguous parameters."""
    shards = gathered.shape[0]
    targets: list[Tensor] = []
    sources: list[Tensor] = []
    offset = 0
    for each, start in zip(layout.parameters, layout.starts, strict=True):
        part = each.gathered_numel
        source = gathered.narrow(1, offset, part)
        target = content.narrow(0, start, shards * part)
        offset += part
        # A tensor resharded after forward has the layout of the whole, whatever its sharded dimension.
        if each.dim == 0 or each.after_forward is not None:
            targets.append(target.view(shards, part))
            sources.append(source)
            continue
        before, after = each.padded_shape[: each.dim], each.padded_shape[each.dim :]
        targets.append(target.view(prod(before), shards, prod(after)))
        sources.append(source.unflatten(1, (prod(before), prod(after))).movedim(0, 1))
    _foreach_copy_(targets, sources)
