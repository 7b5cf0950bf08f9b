"""Memory that runs out at the n-th allocation of an action."""

import gc
from contextlib import contextmanager

import triten as tt
from triten.runtime.allocator import Allocator, HostAllocator, set_allocator
from triten.runtime.cuda.memory.caching_allocator import CachingAllocator
from triten.runtime.data_ptr import DataPtr

HOST_WORDS = "[enforce fail at triten] DefaultCPUAllocator: not enough memory, as the campaign wants it"


class Counting(HostAllocator):
    """Host memory that fails once, at an allocation that is told by its number, and counts what is alive.

    Args:
        at: the number, from 0; -1 for none.
    """

    def __init__(self, at=-1):
        self.at = at
        self.count = 0
        self.alive = 0

    def allocate(self, nbytes, device):
        if not nbytes:
            return super().allocate(nbytes, device)
        self.count += 1
        if self.count - 1 == self.at:
            raise MemoryError(HOST_WORDS)
        made = super().allocate(nbytes, device)
        self.alive += 1
        buffer = made.context

        def free(_):
            self.alive -= 1

        # A context that is no buffer has arrays keep the pointer, which then dies with them.
        return DataPtr(made.address, nbytes, device, None, free, (buffer,))

    def empty_array(self, sizes, np_dtype, strides, nbytes):
        # The host's own allocator leaves small arrays to NumPy.
        return Allocator.empty_array(self, sizes, np_dtype, strides, nbytes)


@contextmanager
def failing(device, at=-1):
    """Fail the allocation number `at` within the block; yield the counter."""
    if device == "cpu":
        counting = Counting(at)
        before = set_allocator("cpu", counting)
        try:
            yield counting
        finally:
            set_allocator("cpu", None if type(before) is HostAllocator else before)
        return
    counting = Counting(at)
    serve = CachingAllocator._serve

    def counted(self, cuda, index, stream, nbytes, last_try):
        counting.count += not last_try
        if not last_try and counting.count - 1 == counting.at:
            raise tt.cuda.OutOfMemoryError("CUDA out of memory, as the campaign wants it")
        return serve(self, cuda, index, stream, nbytes, last_try)

    CachingAllocator._serve = counted
    try:
        yield counting
    finally:
        CachingAllocator._serve = serve


def held(device, counting):
    """Return what is live: the host's allocations, or a GPU's bytes."""
    gc.collect()
    if device == "cpu":
        return counting.alive
    tt.cuda.synchronize()
    return tt.cuda.memory_allocated()
