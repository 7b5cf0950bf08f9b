"""Blocks that other streams still use: each waits for an event on every one of those streams."""

from __future__ import annotations

from collections import deque

from ..driver import Driver
from .block import Block


class PendingUses:
    """Freed blocks that other streams still use. Each event is recorded once and then reused."""

    def __init__(self) -> None:
        self._queues: dict[tuple[int, int], deque[tuple[int, Block]]] = {}
        self._spare: dict[int, list[int]] = {}
        self._unrecorded: list[Block] = []
        self.done: list[Block] = []
        """Blocks whose last event has happened; the caller that files them removes them."""

    def __len__(self) -> int:
        return sum(map(len, self._queues.values())) + len(self._unrecorded) + len(self.done)

    def blocks(self) -> list[Block]:
        """Return the waiting blocks, without duplicates."""
        waiting = {block.address: block for queue in self._queues.values() for _, block in queue}
        return [*waiting.values(), *self._unrecorded, *self.done]

    def record(self, cuda: Driver, block: Block) -> None:
        """Record an event on every other stream that uses the block.

        If recording fails because a stream was destroyed, the block is kept until the whole device has been
        synchronized.
        """
        device = block.segment.pool.device
        spare = self._spare.setdefault(device, [])
        recorded: list[tuple[int, int]] = []
        current = cuda.current_device()
        if current != device:
            cuda.set_device(device)
        try:
            for stream in sorted(block.watch or ()):
                event = spare.pop() if spare else cuda.create_event()
                recorded.append((stream, event))
                cuda.record_event(event, stream)
        except BaseException:
            spare.extend(event for _, event in recorded)
            self._unrecorded.append(block)
            raise
        finally:
            if current != device:
                cuda.set_device(current)
        block.pending = len(recorded)
        for stream, event in recorded:
            self._queues.setdefault((device, stream), deque()).append((event, block))

    def poll(self, cuda: Driver) -> None:
        """Collect the blocks whose last event has happened. Events of a stream happen in order."""
        for (device, stream), queue in list(self._queues.items()):
            while queue and cuda.query_event(queue[0][0]):
                self._happened(device, queue)
            if not queue:
                del self._queues[device, stream]

    def wait(self, cuda: Driver, device: int) -> None:
        """Wait for all events of a device, and for all of its work if an event is missing."""
        lost = [block for block in self._unrecorded if block.segment.pool.device == device]
        if lost:
            cuda.synchronize(device)
            self._unrecorded = [block for block in self._unrecorded if block not in lost]
            self.done.extend(lost)
        for (index, stream), queue in list(self._queues.items()):
            if index == device:
                while queue:
                    cuda.synchronize_event(queue[0][0])
                    self._happened(device, queue)
                del self._queues[index, stream]

    def _happened(self, device: int, queue: deque[tuple[int, Block]]) -> None:
        event, block = queue.popleft()
        self._spare[device].append(event)
        block.pending -= 1
        if block.pending == 0:
            self.done.append(block)
