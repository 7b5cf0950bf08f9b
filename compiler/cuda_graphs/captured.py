"""Program captured once as a CUDA graph, with the addresses of its inputs and the memory of its outputs.

Inputs at unchanged addresses are read in place; the others are copied into static tensors of the capture. Outputs are
in the capture's memory. Each replay returns new tensors over it, and a `Lease` that lives as long as any of them, or a
view of one. A capture is replayed only if its lease has ended, so live outputs are never overwritten.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.tensor import blank_tensor
from ...runtime.allocator import storage_size
from ...runtime.cuda.driver import Driver
from ...runtime.cuda.graph import CUDAGraph, PoolHandle, graph
from ...runtime.cuda.memory.block import Block
from ...runtime.cuda.memory.caching_allocator import CUDA_ALLOCATOR
from ...runtime.data_ptr import DataPtr
from ...runtime.generator import Generator
from ...runtime.tensor_spec import TensorSpec
from .memory import Pools
from .outputs import Lease, as_given, memory_of, written_outputs

Program = Callable[..., tuple[Any, ...]]

ATTEMPTS = 2
"""The number of captures of a program whose allocations differ from the traced ones."""


class CapturedProgram:
    """A program with its inputs at certain addresses.

    Args:
        inputs: of the call that is captured; none of them requires grad.
        aliased: The indices of the inputs that are read in place.
        written: The indices of the inputs that the program writes to.
        copied_results: how many outputs, from the first, are copied out if they are small.
    """

    def __init__(
        self, inputs: Sequence[Any], aliased: Sequence[int], written: Sequence[int], copied_results: int
    ) -> None:
        in_place = set(aliased)
        self.addresses = [inputs[i]._data.address for i in aliased]
        self.lease: Callable[[], Lease | None] = _nobody
        self._copied = {i: static_like(x._spec) for i, x in enumerate(inputs) if i not in in_place}
        self._written = tuple(written)
        self._copied_results = copied_results
        self._graph: CUDAGraph
        self._foretold: frozenset[int] | None = None
        self._memory: list[DataPtr] = []
        self._blocks: list[Block] = []
        self._outputs: Callable[..., tuple[Any, ...]]

    def run(
        self, program: Program, inputs: Sequence[Any], pools: Pools, cuda: Driver, stream: int
    ) -> tuple[Any, ...]:
        """Run the program on the tensors that the capture will read, which loads kernels, and return its outputs."""
        static = self._fill(inputs, cuda, stream)
        with pools.traced() as trace:
            made = program(*static)
        self._foretold = trace.indices_of(memory_of(made, static))
        self._write_back(inputs, cuda, stream, bumps=False)
        return tuple([as_given(value, static, inputs) for value in made])

    def capture(
        self, program: Program, inputs: Sequence[Any], pools: Pools, generators: Sequence[Generator]
    ) -> None:
        """Capture the program; nothing is computed. Raises RuntimeError for one that cannot be captured."""
        static = [self._copied.get(i, x) for i, x in enumerate(inputs)]
        cells = [static[i].version_cell() for i in self._written if not static[i]._spec.is_inference]
        versions = [cell[0] for cell in cells]
        try:
            outputs = self._try(program, static, pools, generators)
        finally:
            for cell, version in zip(cells, versions, strict=True):
                cell[0] = version
        self._outputs = written_outputs(outputs, static, self._copied_results)
        self._memory = memory_of(outputs, static)
        self._blocks = [data.context for data in self._memory if isinstance(data.context, Block)]

    def _try(
        self, program: Program, static: Sequence[Any], pools: Pools, generators: Sequence[Generator]
    ) -> Sequence[Any]:
        """Return the outputs of a capture, in memory that no other capture uses for intermediates."""
        foretold = self._foretold
        for _ in range(ATTEMPTS):
            with pools.traced(foretold or frozenset()) as trace:
                outputs = self._capture_once(program, static, pools.scratch, generators)
            memory = memory_of(outputs, static)
            if trace.is_as_foretold(memory):
                return outputs
            foretold = trace.indices_of(memory)
            del outputs, memory
        # Its allocations change between runs, so it gets memory that it shares with no other capture.
        with pools.traced() as trace:
            outputs = self._capture_once(program, static, None, generators)
        if trace.indices_of(memory_of(outputs, static)) is None:
            raise RuntimeError("a result lies in memory that the program does not allocate")
        return outputs

    def _capture_once(
        self,
        program: Program,
        static: Sequence[Any],
        pool: PoolHandle | None,
        generators: Sequence[Generator],
    ) -> Sequence[Any]:
        self._graph = CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        with graph(self._graph, pool, capture_error_mode="thread_local"):
            return program(*static)

    def replay(self, inputs: Sequence[Any], cuda: Driver, stream: int) -> tuple[Any, ...]:
        """Return the outputs for these inputs, whose addresses are the capture's unless it copies them."""
        for i, static in self._copied.items():
            copy_bytes(static, inputs[i], cuda, stream)
        for block in self._blocks:
            if block.watch:
                wait_for(block.watch, cuda, stream)
        self._graph.replay()
        if self._written:
            self._write_back(inputs, cuda, stream, bumps=True)
        lease = Lease(self._memory)
        self.lease = weakref.ref(lease)
        return self._outputs(inputs, lease, cuda, stream)

    def _fill(self, inputs: Sequence[Any], cuda: Driver, stream: int) -> list[Any]:
        for i, static in self._copied.items():
            copy_bytes(static, inputs[i], cuda, stream)
        return [self._copied.get(i, x) for i, x in enumerate(inputs)]

    def _write_back(self, inputs: Sequence[Any], cuda: Driver, stream: int, bumps: bool) -> None:
        """Copy writes to static inputs back to the inputs; writes of a replay bump versions."""
        for i in self._written:
            static = self._copied.get(i)
            if static is not None:
                copy_bytes(inputs[i], static, cuda, stream)
            if (bumps or static is not None) and not inputs[i]._spec.is_inference:
                inputs[i].bump_version()


def _nobody() -> None:
    return None


def static_like(spec: TensorSpec) -> Any:
    """Return an uninitialized static tensor with an input's strides."""
    made = blank_tensor()
    made._data = CUDA_ALLOCATOR.allocate(storage_size(spec.sizes, spec.strides) * spec.itemsize, spec.device)
    made._spec = spec
    made._version_cell = made._autograd = made._view_base = None
    return made


def copy_bytes(target: Any, source: Any, cuda: Driver, stream: int) -> None:
    """Copy a tensor's elements to one of equal strides, with one driver copy unless it is mostly gaps."""
    spec = target._spec
    elements = storage_size(spec.sizes, spec.strides)
    if not spec.numel:
        return
    if elements > 2 * spec.numel and not is_expanded(spec):
        target.copy_(source)
    else:
        cuda.copy_device_to_device(
            target._data.address, source._data.address, elements * spec.itemsize, stream
        )


def is_expanded(spec: TensorSpec) -> bool:
    """Return True if several elements share memory."""
    return any(size > 1 and not stride for size, stride in zip(spec.sizes, spec.strides, strict=True))


def wait_for(streams: set[int], cuda: Driver, stream: int) -> None:
    """Let a stream wait for the work of other streams that use its memory."""
    for other in [each for each in streams if each != stream]:
        event = cuda.create_event()
        cuda.record_event(event, other)
        cuda.wait_event(stream, event)
        cuda.destroy_event(event)
