"""Program that runs as CUDA graphs: captured after a warm-up, for each set of input addresses.

A call replays a capture with the same input addresses whose outputs are no longer alive; if there is none, it makes a
new capture. So two calls with live results have two captures, as do a gradient that is kept and the next one. A call
without a usable capture runs without CUDA graphs.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...dispatch.layers.graph.graph import Graph
from ...runtime.allocator import get_allocator
from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.driver import Driver, driver
from ...runtime.cuda.memory.caching_allocator import CUDA_ALLOCATOR
from ...runtime.generator import Generator
from ...runtime.storage import root_of
from .captured import CapturedProgram, Program
from .eligibility import device_of, why_not, written_inputs
from .memory import Pools
from .outputs import is_leased

CAPTURES = 8
"""The most captures of a program at a time, that is, of calls whose results live at once."""
ATTEMPTS = 32
"""Captures of a program that are made in all."""
ADDRESSES = 4
"""The number of addresses of an input before it is copied."""


class _Order:
    """Order of replays on a device: captures run one after another, as they share the memory of intermediates."""

    def __init__(self, device: int) -> None:
        self.pools = Pools(device)
        self.lock = threading.RLock()
        self.is_capturing = False
        self._stream = 0
        self._event = 0

    def before(self, cuda: Driver, stream: int) -> None:
        """Have a stream wait for replays on another one."""
        if self._event and stream != self._stream:
            cuda.wait_event(stream, self._event)

    def after(self, cuda: Driver, stream: int) -> None:
        """Remember a replay on a stream."""
        if not self._event:
            self._event = cuda.create_event()
        cuda.record_event(self._event, stream)
        self._stream = stream


_orders: dict[int, _Order] = {}


class GraphedProgram:
    """Program of CUDA tensors that replays captures of itself.

    Attributes:
        reason: The reason that it is not captured; None if it may be.
        is_replayed: True if its last call was a replay.

    Args:
        program: The function of a graph's inputs, none of which requires grad.
        graph: The graph that it computes.
        in_place: Return the inputs to read in place: parameters, buffers, results of another program.
        copied_results: The number of first outputs that are copied out of the capture if they are small.
        after: The program that computes inputs of this one.
        saved: The indices of those inputs. The program is captured once they come from a replay.
    """

    def __init__(
        self,
        program: Program,
        graph: Graph,
        in_place: Callable[[], Iterable[int]],
        copied_results: int = 0,
        after: GraphedProgram | None = None,
        saved: Sequence[int] = (),
    ) -> None:
        self.program = program
        self.reason = why_not(graph)
        if after is not None and after.reason is not None:
            self.reason = f"it reads what forward computes, which is no CUDA graph: {after.reason}"
        self.is_replayed = False
        device = device_of(graph)
        self._device = 0 if device is None else device.resolved_index
        self._written = written_inputs(graph)
        self._generators = generators_of(graph)
        self._copied_results = copied_results
        self._saved = saved
        self._in_place = in_place
        self._aliased: tuple[int, ...] = ()
        self._first: list[Callable[[], Any]] | None = None
        self._seen: dict[int, set[int]] = {}
        self._captures: list[CapturedProgram] = []
        self._attempts = 0
        self._order = _orders.setdefault(self._device, _Order(self._device))

    @property
    def aliased(self) -> frozenset[int]:
        """Places of the inputs that are read in place."""
        return frozenset(self._aliased)

    @property
    def captures(self) -> int:
        """Number of captures."""
        return len(self._captures)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Return the program's outputs, by a replay if a capture matches the call."""
        self.is_replayed = False
        if self.reason is not None:
            return self.program(*inputs)
        cuda, device = driver(), self._device
        stream = cuda.current_stream(device)
        if cuda.captures_underway and cuda.is_capturing(stream):
            return self.program(*inputs)
        if cuda.current_device() != device:
            with device_guard(device):
                return self(*inputs)
        order = self._order
        with order.lock:
            addresses = [inputs[i]._data.address for i in self._aliased]
            for each in self._captures:
                if each.addresses == addresses and each.lease() is None:
                    order.before(cuda, stream)
                    outputs = each.replay(inputs, cuda, stream)
                    order.after(cuda, stream)
                    self.is_replayed = True
                    return outputs
            if order.is_capturing or not self._may_capture(inputs):
                return self.program(*inputs)
            order.before(cuda, stream)
            order.is_capturing = True
            try:
                return self._captured(inputs, cuda, stream)
            finally:
                order.is_capturing = False

    def _may_capture(self, inputs: Sequence[Any]) -> bool:
        """Return True if a call without a matching capture is captured; the first call shows which addresses are
        stable."""
        if self._saved and not any(is_leased(inputs[i]._data) for i in self._saved):
            return False
        if (
            get_allocator("cuda") is not CUDA_ALLOCATOR
        ):  # memory of another allocator does not come from a capture's pool
            return False
        if self._first is None:
            self._first = [weakref.ref(root_of(x._data)) for x in inputs]
            return False
        if not self._attempts:
            in_place = frozenset(self._in_place())
            self._aliased = tuple(
                [
                    i
                    for i, (x, known) in enumerate(zip(inputs, self._first, strict=True))
                    if i in in_place or known() is root_of(x._data)
                ]
            )
            self._first = []
        if self._attempts >= ATTEMPTS:
            return False
        self._note_addresses(inputs)
        if len(self._captures) >= CAPTURES:
            idle = [each for each in self._captures if each.lease() is None]
            if not idle:
                return False
            self._captures.remove(idle[-1])
        return True

    def _note_addresses(self, inputs: Sequence[Any]) -> None:
        """Copy inputs whose addresses keep changing, unless a capture returned them."""
        wandering = set()
        for i in self._aliased:
            data = inputs[i]._data
            if not is_leased(data):
                addresses = self._seen.setdefault(i, set())
                addresses.add(data.address)
                if len(addresses) > ADDRESSES:
                    wandering.add(i)
        if wandering:
            self._aliased = tuple([i for i in self._aliased if i not in wandering])
            self._captures.clear()

    def _captured(self, inputs: Sequence[Any], cuda: Driver, stream: int) -> tuple[Any, ...]:
        self._attempts += 1
        captured = CapturedProgram(inputs, self._aliased, self._written, self._copied_results)
        outputs = captured.run(self.program, inputs, self._order.pools, cuda, stream)
        try:
            captured.capture(self.program, inputs, self._order.pools, self._generators)
        except RuntimeError as error:
            self.reason = f"it cannot be captured: {str(error).partition(chr(10))[0]}"
        else:
            # The newest capture comes first.
            self._captures.insert(0, captured)
        return outputs


def generators_of(graph: Graph) -> list[Generator]:
    """Return the CUDA generators that a graph's operators use, besides the default one."""
    generators: dict[int, Generator] = {}
    for node in graph.find_nodes(op="call_function"):
        for value in (*node.args, *node.kwargs.values()):
            if isinstance(value, Generator) and value.device.type == "cuda":
                generators[id(value)] = value
    return list(generators.values())
