"""Simulated graphs: captured work, ordered and run as one operation of a stream.

If the dependencies allow several orders, the work that was captured last runs first, so that a missing dependency
shows.
"""

from __future__ import annotations

import heapq
import threading
from abc import abstractmethod
from collections.abc import Sequence

from ..capture import (
    ILLEGAL_STATE,
    INVALIDATED,
    UNJOINED,
    UNMATCHED,
    UNSUPPORTED,
    WRONG_THREAD,
    CaptureMode,
    CaptureStatus,
    StreamCapture,
    Underway,
    capture_error,
    checked_mode,
)
from .capture import BlockNote, Capture, CapturedRecord, Node, last_work
from .memory import LiveBlocks
from .stream import EventRecord, Stream


class Graph:
    """Captured work of one device."""

    __slots__ = ("device", "nodes")

    def __init__(self, capture: Capture) -> None:
        self.device = capture.origin.device
        self.nodes = capture.nodes


class GraphExecutable:
    """Graph in the order in which it runs."""

    __slots__ = ("_graph", "_order", "device", "kernels", "last_launch")

    def __init__(self, graph: Graph) -> None:
        self.last_launch: EventRecord | CapturedRecord | None = None
        self._graph = graph
        self._order = run_order(graph.nodes)
        self.device = graph.device
        self.kernels = sum(node.kind == "kernel" for node in graph.nodes)

    def run(self) -> None:
        """Run all work of the graph."""
        memory: dict[int, ReplayedBlocks] = {}
        try:
            for node in self._order:
                if node.work is not None:
                    node.work()
                elif isinstance(node, BlockNote):
                    key = id(node.blocks)
                    if key not in memory:
                        memory[key] = ReplayedBlocks(node.blocks)
                    memory[key].apply(node)
        finally:
            for blocks in memory.values():
                blocks.restore()


class ReplayedBlocks:
    """Blocks of a pool that are live while a graph runs, and afterwards.

    A block that outlives the capture keeps its bytes until something overwrites them. It lingers after its last owner
    frees it. Any other block is poisoned on allocation, as are the blocks that it displaced, once the graph has run.
    """

    __slots__ = ("_blocks", "_displaced", "_temporary")

    def __init__(self, blocks: LiveBlocks) -> None:
        self._blocks = blocks
        self._temporary: set[int] = set()
        self._displaced: dict[int, int] = {}

    def apply(self, note: BlockNote) -> None:
        """Apply an allocation or a free."""
        blocks, address, nbytes = self._blocks, note.address, note.nbytes
        if not note.is_allocation:
            blocks.remove(address)
            self._temporary.discard(address)
            return
        is_there = note.survives and blocks.size_at(address) == nbytes and address not in self._temporary
        if is_there:
            return
        blocks.drop_lingering(address, nbytes)
        for start, size in blocks.overlapping(address, nbytes):
            blocks.remove(start)
            self._displaced[start] = size
        blocks.add(address, nbytes)
        if not note.survives:
            self._temporary.add(address)
        elif self._displaced.pop(address, None) != nbytes:
            blocks.lingering.add(address)

    def restore(self) -> None:
        """Restore the blocks after the graph has run or failed."""
        for address in self._temporary:
            self._blocks.remove(address)
        for address, nbytes in self._displaced.items():
            self._blocks.add(address, nbytes)


def run_order(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes in topological order, the latest first among those that are ready."""
    waiting = {node: len(node.after) for node in nodes}
    followers: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for before in node.after:
            followers[before].append(node)
    ready = [(-node.number, node) for node in nodes if not node.after]
    heapq.heapify(ready)
    order = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for follower in followers[node]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (-follower.number, follower))
    return order


class SimulatedCapture(StreamCapture):
    """Capture and graphs of simulated devices."""

    launches: int
    graph_launches: int
    _lock: threading.RLock

    def __init__(self) -> None:
        super().__init__()
        self._captures: dict[int, Capture] = {}
        self._graphs: dict[int, Graph] = {}
        self._executables: dict[int, GraphExecutable] = {}

    @abstractmethod
    def stream(self, handle: int, device: int | None = None) -> Stream:
        """Return the stream of a handle."""

    @abstractmethod
    def new_handle(self) -> int:
        """Return a number that is unique among streams, events and graphs."""

    def begin_capture(self, stream: int, mode: CaptureMode = "global") -> None:
        checked_mode(mode)
        on = self.stream(stream)
        if on.is_legacy:
            raise capture_error(UNSUPPORTED, "the default stream cannot be captured")
        if on.capture is not None:
            raise capture_error(ILLEGAL_STATE, f"stream {stream:#x} is capturing already")
        underway = Underway(mode, threading.get_ident())
        self._captures[stream] = Capture(self.new_handle(), on, mode == "relaxed")
        self.captures_underway[stream] = underway

    def end_capture(self, stream: int) -> int:
        on = self.stream(stream)
        capture = on.capture
        if capture is None:
            raise capture_error(ILLEGAL_STATE, f"stream {stream:#x} is not capturing")
        if capture.origin is not on:
            raise capture.refuse(UNMATCHED, f"stream {stream:#x} joined a capture that began on another one")
        if capture.thread not in (None, threading.get_ident()):
            raise capture_error(WRONG_THREAD, f"the capture of stream {stream:#x}")
        del self._captures[stream]
        del self.captures_underway[stream]
        survivors = capture.end()
        unjoined = capture.unjoined()
        with self._lock:
            # Blocks that were freed before must be gone when new ones take their place.
            for each in capture.streams:
                each.run()
            for block in survivors:
                block.blocks.add(block.address, block.nbytes)
                block.blocks.of_graphs.add(block.address)
        if capture.is_invalidated:
            raise capture_error(INVALIDATED, f"the capture of stream {stream:#x} gives no graph")
        if unjoined:
            raise capture_error(
                UNJOINED, f"the capture of stream {stream:#x} has {len(unjoined)} other streams to join"
            )
        graph = self.new_handle()
        self._graphs[graph] = Graph(capture)
        return graph

    def capture_status(self, stream: int) -> CaptureStatus:
        capture = self.stream(stream).capture
        if capture is None:
            return "none"
        return "invalidated" if capture.is_invalidated else "active"

    def capture_id(self, stream: int) -> int:
        capture = self.stream(stream).capture
        return 0 if capture is None else capture.number

    def refuse_unsafe(self, operation: str) -> None:
        """Raise RuntimeError if a capture prohibits this thread's unsafe call, and invalidate that capture."""
        if self.captures_underway:
            mode, thread = self._thread_mode.mode, threading.get_ident()
            streams = [
                s for s, underway in list(self.captures_underway.items()) if underway.prohibits(mode, thread)
            ]
            self._invalidate(streams, operation)

    def refuse_on_device(self, device: int, operation: str) -> None:
        """Raise RuntimeError if a stream of the device is capturing, and invalidate its capture."""
        if self.captures_underway:
            captures = list(self._captures.items())
            self._invalidate(
                [h for h, c in captures if any(s.device == device for s in c.streams)], operation
            )

    def _invalidate(self, streams: list[int], operation: str) -> None:
        for stream in streams:
            self._captures[stream].invalidate()
        if streams:
            raise capture_error(UNSUPPORTED, operation)

    def _graph(self, handle: int) -> Graph:
        graph = self._graphs.get(handle)
        if graph is None:
            raise RuntimeError(f"CUDA error: invalid resource handle: graph {handle:#x}")
        return graph

    def _executable(self, handle: int) -> GraphExecutable:
        executable = self._executables.get(handle)
        if executable is None:
            raise RuntimeError(f"CUDA error: invalid resource handle: graph executable {handle:#x}")
        return executable

    def instantiate_graph(self, graph: int) -> int:
        executable = GraphExecutable(self._graph(graph))
        handle = self.new_handle()
        self._executables[handle] = executable
        return handle

    def launch_graph(self, executable: int, stream: int) -> None:
        graph = self._executable(executable)
        on = self.stream(stream)
        if on.device != graph.device:
            raise RuntimeError(
                f"CUDA error: invalid resource handle: a graph of device {graph.device} is launched on a stream of "
                f"device {on.device}"
            )
        if on.capture is None:
            if isinstance(graph.last_launch, EventRecord):
                on.wait_for(graph.last_launch)
            on.enqueue_now(graph.run)
            graph.last_launch = on.record()
        else:
            on.enqueue(graph.run, "graph")
        self.launches += graph.kernels
        self.graph_launches += 1

    def destroy_graph(self, graph: int) -> None:
        self._graph(graph)
        del self._graphs[graph]

    def destroy_executable(self, executable: int) -> None:
        self._executable(executable)
        del self._executables[executable]

    def print_graph(self, graph: int, path: str) -> None:
        nodes = [node for node in self._graph(graph).nodes if node.work is not None]
        lines = [f'  n{node.number} [label="{node.kind} {node.name}"];' for node in nodes]
        for node in nodes:
            lines += [f"  n{before.number} -> n{node.number};" for before in sorted_work(node)]
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(["digraph captured {", *lines, "}", ""]))


def sorted_work(node: Node) -> list[Node]:
    """Return the work that a node waits for directly, the earliest first."""
    return sorted(last_work(node.after), key=lambda before: before.number)
