"""Memory of captures: outputs in one pool, all else in another, and both shared by all captures.

Captures replay in any order, and outputs live on between replays. So captures may share memory for intermediates, but
this memory must never become an output: the next replay of another capture would overwrite it. A run of the program
before the capture shows which allocations are outputs, by their position among all allocations.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...runtime.cuda.graph import PoolHandle, graph_pool_handle
from ...runtime.cuda.memory.block import Block
from ...runtime.cuda.memory.caching_allocator import CUDA_ALLOCATOR
from ...runtime.data_ptr import DataPtr


class Pools:
    """A device's memory for captures."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.scratch: PoolHandle = graph_pool_handle()
        self.outputs: PoolHandle = graph_pool_handle()

    @contextmanager
    def traced(self, outputs: frozenset[int] = frozenset()) -> Iterator[Trace]:
        """Trace this thread's allocations while the block runs, and serve some from the pool of outputs.

        Args:
            outputs: The positions of outputs among the allocations. Default: none.
        """
        trace = Trace(self.outputs, outputs)
        before = CUDA_ALLOCATOR.pool_observer
        CUDA_ALLOCATOR.begin_allocate_to_pool(self.device, self.outputs, trace.takes)
        CUDA_ALLOCATOR.pool_observer = trace.allocated
        try:
            yield trace
        finally:
            CUDA_ALLOCATOR.pool_observer = before
            CUDA_ALLOCATOR.end_allocate_to_pool(self.device, self.outputs)
            CUDA_ALLOCATOR.release_pool(self.device, self.outputs)


class Trace:
    """The allocations of a thread, in order."""

    def __init__(self, pool: PoolHandle, outputs: frozenset[int]) -> None:
        self.blocks: list[Block] = []
        self._pool, self._outputs = pool, outputs
        self._thread = threading.get_ident()
        self._asked = 0

    def takes(self, stream: int) -> bool:
        """Return True if the next allocation is an output."""
        if threading.get_ident() != self._thread:
            return False
        self._asked += 1
        return self._asked - 1 in self._outputs

    def allocated(self, block: Block) -> None:
        """Record an allocation."""
        if threading.get_ident() == self._thread:
            self.blocks.append(block)

    def indices_of(self, memory: Sequence[DataPtr]) -> frozenset[int] | None:
        """Return the positions of these live pointers among the allocations; None if one is missing."""
        last = {block.address: i for i, block in enumerate(self.blocks)}
        indices = [last.get(data.address) for data in memory if data.nbytes]
        if self._asked != len(self.blocks):  # the allocator retried a request, as memory was short
            return None
        live_indices = frozenset([index for index in indices if index is not None])
        return live_indices if len(live_indices) == len(indices) else None

    def is_as_foretold(self, memory: Sequence[DataPtr]) -> bool:
        """Return True if these pointers are exactly the allocations from the pool of outputs."""
        served = [block for block in self.blocks if block.segment.pool.owner == self._pool]
        return self.indices_of(memory) == self._outputs and len(served) == len(self._outputs)
