"""The allocator of page-locked memory beside a model of it, over the interpreter, whose streams get on when told."""

from unittest import mock

from triten.runtime.cuda.interpreter.driver import InterpreterDriver
from triten.runtime.cuda.memory import pinned
from triten.runtime.cuda.memory.pinned import CachingHostAllocator


class PinnedModel:
    """The allocator beside what a correct one would hold; a live block is named by any number, modulo how many live."""

    def __init__(self):
        self.cuda = InterpreterDriver(1)
        self.allocator = CachingHostAllocator()
        self.allocator._driver = self.cuda
        self.streams = [self.cuda.create_stream(0) for _ in range(2)]
        self.live = {}
        self.pending = {}

    def malloc(self, nbytes):
        pointer = self.allocator.allocate(nbytes)
        assert pointer.nbytes == nbytes and pointer.address % 64 == 0
        assert pointer.address not in self.live, "handed out twice"
        assert all(record.done for record in self.pending.pop(pointer.address, ())), "its copies are not done"
        self.live[pointer.address] = pointer

    def _address(self, index):
        return sorted(self.live)[index % len(self.live)]

    def free(self, index):
        self.live.pop(self._address(index))

    def copy(self, index, which):
        """Enqueue an asynchronous copy on a stream."""
        address = self._address(index)
        stream = self.streams[which]
        block = self.allocator.find(address)
        self.cuda.stream(stream).enqueue(lambda: None)
        with mock.patch.object(pinned, "driver", lambda: self.cuda):
            self.allocator.record_event(block, 0, stream)
        event = self.cuda._events[block.events[0, stream]]
        self.pending.setdefault(address, []).append(event.record)

    def step(self, which):
        """Complete one operation of a stream."""
        self.cuda.step(self.streams[which])

    def empty(self):
        self.allocator.empty_cache()

    def check(self):
        blocks = self.allocator._blocks
        assert sum(block.nbytes for block in blocks) == self.allocator.allocated_bytes.current
        assert self.cuda.host_memory.used == self.allocator.allocated_bytes.current
        end = 0
        for block in blocks:
            assert block.address >= end, "blocks overlap"
            end = block.address + block.nbytes
        active = self.allocator.stats()["active_requests"]["current"]
        assert active == len(self.live) + len(self.allocator._in_use)

    def finish(self):
        self.live.clear()
        self.cuda.synchronize(0)
        self.allocator.empty_cache()
        assert self.cuda.host_memory.used == 0 and not self.cuda._events
