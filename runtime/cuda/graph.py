"""CUDA graphs: a stream's work, captured once and replayed as one launch (`torch.cuda.CUDAGraph`).

A replay runs the same kernels on the same addresses. The caller copies inputs into the tensors that the capture read,
and finds results in those that it produced. Their memory comes from the graph's own pool. Everything that the capture
launches must have run once before, so that it is loaded.
"""

from __future__ import annotations

import gc
import itertools
import warnings
from collections import deque
from types import TracebackType
from typing import NamedTuple

from ..generator import Generator
from .capture import ILLEGAL_STATE, CaptureMode, capture_error, checked_mode
from .device_guard import device_guard
from .driver import Driver, current_driver, driver
from .faults import faults_of
from .graph_capture import GraphCapture, GraphGenerator, captures_of
from .memory.cache import new_pool_id
from .memory.caching_allocator import CUDA_ALLOCATOR
from .stream import Stream, StreamContext, get_stream_from_external

PoolHandle = tuple[int, int]

_own_pools = itertools.count(1)


class Remains(NamedTuple):
    """Resources of a graph that was dropped. `replayed` is the event after its last replay, or 0."""

    driver: Driver
    executable: int
    graph: int
    replayed: int
    kept: list[object]


_abandoned: deque[Remains] = deque()


def graph_pool_handle() -> PoolHandle:
    """Return a handle of a memory pool that several graphs can share.

    Graphs that share a pool must be replayed in the order of their capture, and not concurrently: a later graph may
    use the memory of tensors that an earlier one has dropped.
    """
    return new_pool_id()


def is_current_stream_capturing() -> bool:
    """Return True if this thread's current stream of its current device is capturing."""
    cuda = current_driver()
    return cuda is not None and cuda.is_capturing(cuda.current_stream(cuda.current_device()))


class CUDAGraph:
    """Captured work of a device.

    Args:
        keep_graph: If True, keep the graph besides its executable, for `raw_cuda_graph` and `debug_dump`. `instantiate`
            or the first replay then makes the executable.

    Example:
        >>> import triten as tt
        >>> x = tt.ones(3, device="cuda")
        >>> y = x * 2 + 1  # loads the kernels
        >>> g = tt.cuda.CUDAGraph()
        >>> with tt.cuda.graph(g):
        ...     y = x * 2 + 1
        >>> x = x.copy_(tt.full((3,), 5.0, device="cuda"))
        >>> g.replay(); y.tolist()
        [11.0, 11.0, 11.0]
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._keep_graph = keep_graph
        self._debug = False
        self._driver: Driver | None = None
        self._device = -1
        self._pool: PoolHandle | None = None
        self._capture: GraphCapture | None = None
        self._capture_stream = 0
        self._registered: list[Generator] = []
        self._generators: list[GraphGenerator] = []
        self._faults: list[object] = []
        self._kept: list[object] = []
        self._graph = 0
        self._executable = 0
        self._streams: set[int] = set()
        self._last_stream = 0
        self._replayed = 0

    def register_generator_state(self, generator: Generator) -> None:
        """Register a generator whose random ops the next capture holds, besides the device's default generator.

        Raises RuntimeError during a capture, and for a generator that is not on a CUDA device.
        """
        if generator.device.type != "cuda":
            raise RuntimeError(
                f"register_generator_state: expected a generator of a cuda device, got {generator}"
            )
        if self._capture is not None:
            raise RuntimeError(
                "register_generator_state: the capture has begun; register generators before it"
            )
        self._registered.append(generator)

    def capture_begin(
        self, pool: PoolHandle | None = None, capture_error_mode: CaptureMode = "global"
    ) -> None:
        """Begin to capture the current stream; the context manager `graph` also does the set-up.

        Args:
            pool: Pool to share, from `graph_pool_handle` or another graph's `pool()`. Default: None, a pool of its own.
            capture_error_mode: Threads in which unsafe calls are errors: all ("global"), this one ("thread_local"),
                or none ("relaxed").

        Raises RuntimeError on the default stream, on a capturing stream, and for a graph that already holds a capture.
        """
        mode = checked_mode(capture_error_mode)
        if self._graph or self._executable or self._capture is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        free_abandoned_graphs()
        cuda = driver()
        device = cuda.current_device()
        stream = cuda.current_stream(device)
        if stream == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
                "them on the default stream.)"
            )
        if cuda.is_capturing(stream):
            raise capture_error(ILLEGAL_STATE, "the current stream is being captured already")
        if pool is None:
            pool = next(_own_pools), 0
        check_pool(pool)
        capture = GraphCapture(CUDA_ALLOCATOR.allocate, device, self._registered)
        faults_of(cuda, device).reserve()
        # Replays on other streams do not wait for earlier uses of its memory on this stream.
        cuda.synchronize_stream(stream)

        def takes(requested: int) -> bool:
            return bool(requested) and cuda.capture_id(requested) == capture.number != 0

        CUDA_ALLOCATOR.begin_allocate_to_pool(device, pool, takes)
        try:
            cuda.begin_capture(stream, mode)
        except BaseException:
            CUDA_ALLOCATOR.end_allocate_to_pool(device, pool)
            CUDA_ALLOCATOR.release_pool(device, pool)
            raise
        captures_of(cuda).begin(capture, stream)
        self._driver, self._device, self._pool = cuda, device, pool
        self._capture, self._capture_stream = capture, stream

    def capture_end(self) -> None:
        """End the capture; from now on `replay` runs the captured work.

        Raises RuntimeError without an active capture, on another stream, and if the capture failed. A failed capture
        is lost and leaves the graph empty.
        """
        capture, cuda, pool = self._capture, self._driver, self._pool
        if capture is None or cuda is None or pool is None:
            raise RuntimeError("Called CUDAGraph::capture_end without a preceding capture_begin.")
        if cuda.current_stream(self._device) != self._capture_stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        with device_guard(self._device):
            graph = self._end_capture(cuda, capture, pool)
            self._graph = graph
            self._generators = [each for each in capture.generators.values() if each.counters]
            self._faults, self._kept = capture.faults, capture.kept
            if not self._keep_graph:
                try:
                    self.instantiate()
                except BaseException:
                    self.reset()
                    raise
                if not self._debug:
                    cuda.destroy_graph(graph)
                    self._graph = 0

    def _end_capture(self, cuda: Driver, capture: GraphCapture, pool: PoolHandle) -> int:
        try:
            graph = cuda.end_capture(self._capture_stream)
        except BaseException:
            if not cuda.is_capturing(self._capture_stream):
                self._forget_capture(cuda, capture, pool)
                CUDA_ALLOCATOR.release_pool(self._device, pool)
                self._pool = None
            raise
        self._forget_capture(cuda, capture, pool)
        return graph

    def _forget_capture(self, cuda: Driver, capture: GraphCapture, pool: PoolHandle) -> None:
        self._capture = None
        captures_of(cuda).end(capture)
        CUDA_ALLOCATOR.end_allocate_to_pool(self._device, pool)

    def instantiate(self) -> None:
        """Instantiate the captured graph, again if necessary. Raise RuntimeError if the graph is not kept."""
        if self._driver is None or not self._graph:
            raise RuntimeError("Called CUDAGraph::instantiate without a preceding successful capture")
        executable = self._driver.instantiate_graph(self._graph)
        if self._executable:
            self._driver.destroy_executable(self._executable)
        self._executable = executable

    def replay(self) -> None:
        """Enqueue the captured work on the current stream of the graph's device.

        Raises RuntimeError without a successful capture.
        """
        cuda = self._driver
        if not self._executable:
            if not self._graph:
                raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
            self.instantiate()
        assert cuda is not None
        device = self._device
        if cuda.current_device() != device:
            with device_guard(device):
                self.replay()
            return
        stream = cuda.current_stream(device)
        if cuda.captures_underway and cuda.is_capturing(stream):
            if self._generators:
                raise RuntimeError(
                    "CUDAGraph.replay(): a graph that draws random numbers cannot become part of another capture"
                )
            capture = captures_of(cuda).current(device)
            if capture is not None:
                capture.faults += self._faults
        if stream not in self._streams:
            self._follow(stream)
        if self._generators:
            # The executable itself waits for its last launch, but host writes to its memory do not.
            if stream != self._last_stream and self._replayed:
                cuda.wait_event(stream, self._replayed)
            for each in self._generators:
                each.fill(cuda, stream)
        cuda.launch_graph(self._executable, stream)
        if self._generators or self._kept:
            if not self._replayed:
                self._replayed = cuda.create_event()
            cuda.record_event(self._replayed, stream)
            self._last_stream = stream

    def _follow(self, stream: int) -> None:
        """Register that this stream uses the memory of replays, so that it is freed in stream order."""
        for each in self._generators:
            CUDA_ALLOCATOR.record_stream(each.memory, stream)
        self._streams.add(stream)

    def reset(self) -> None:
        """Destroy the graph, and free its memory once no tensor uses it; another capture may follow.

        Raises RuntimeError during a capture.
        """
        if self._capture is not None:
            raise RuntimeError("CUDAGraph.reset(): a capture is underway; end it first")
        self._abandon()
        free_abandoned_graphs()

    def _abandon(self) -> None:
        if self._driver is not None and self._pool is not None:
            _abandoned.append(
                Remains(self._driver, self._executable, self._graph, self._replayed, self._kept)
            )
            CUDA_ALLOCATOR.release_pool_later(self._device, self._pool)
        self._graph = self._executable = self._replayed = 0
        self._pool = None
        self._generators, self._kept, self._faults = [], [], []
        self._streams = set()

    def __del__(self) -> None:
        # Garbage collection may have begun inside the allocator, so the next graph frees this one.
        self._abandon()

    def pool(self) -> PoolHandle:
        """Return the handle of the graph's memory pool. Raise RuntimeError without a capture."""
        if self._pool is None or self._capture is not None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def enable_debug_mode(self) -> None:
        """Keep the graph after the capture, for `debug_dump`."""
        self._debug = True

    def debug_dump(self, debug_path: str) -> None:
        """Write nodes and dependencies to a file in Graphviz's DOT language; warn if the graph is not kept."""
        if self._driver is None or not self._graph:
            warnings.warn(
                "CUDA Graphs debug not enabled, set with [graph].enable_debug_mode() before the capture",
                stacklevel=2,
            )
            return
        self._driver.print_graph(self._graph, debug_path)

    def raw_cuda_graph(self) -> int:
        """Return the driver's graph handle (``cudaGraph_t``). Raise RuntimeError without `keep_graph`."""
        if not self._keep_graph:
            raise RuntimeError(
                "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=true"
            )
        if not self._graph:
            raise RuntimeError(
                "You cannot access the raw cudaGraph_t instance until capture_end() has been called"
            )
        return self._graph

    def raw_cuda_graph_exec(self) -> int:
        """Return the driver's executable handle (``cudaGraphExec_t``). Raise RuntimeError if there is none."""
        if not self._executable:
            raise RuntimeError(
                "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called"
            )
        return self._executable


def check_pool(pool: object) -> None:
    """Raise TypeError unless the value comes from `graph_pool_handle` or `CUDAGraph.pool`."""
    if not (isinstance(pool, tuple) and len(pool) == 2 and all(isinstance(part, int) for part in pool)):
        raise TypeError(
            f"capture_begin: pool must be of graph_pool_handle() or CUDAGraph.pool(), got {pool!r}"
        )


def free_abandoned_graphs() -> None:
    """Free the resources of dropped graphs; do nothing while a capture forbids it."""
    cuda = current_driver()
    if cuda is None or cuda.unsafe_calls_prohibited():
        return
    while _abandoned:
        try:
            remains = _abandoned.popleft()
        except IndexError:  # another thread took it
            return
        if remains.replayed:
            if remains.kept:
                remains.driver.synchronize_event(remains.replayed)
            remains.driver.destroy_event(remains.replayed)
        if remains.executable:
            remains.driver.destroy_executable(remains.executable)
        if remains.graph:
            remains.driver.destroy_graph(remains.graph)


_idle_streams: dict[int, list[Stream]] = {}
"""Idle streams of each device, for captures without a stream of their own; last used, first taken."""


def idle_stream(cuda: Driver) -> Stream:
    """Return a stream of the current device that no other capture uses."""
    device = cuda.current_device()
    idle = _idle_streams.setdefault(device, [])
    try:
        return idle.pop()
    except IndexError:
        return get_stream_from_external(cuda.create_stream(device), device)


class graph:
    """Context manager that captures CUDA work into a graph instead of running it (`torch.cuda.graph`).

    It waits for the device, empties the allocator's cache, and captures a side stream. If the block raises, its
    exception propagates and the graph is empty.

    Args:
        cuda_graph: Graph that receives the capture.
        pool: See `CUDAGraph.capture_begin`.
        stream: Stream to capture. Default: None, an idle stream.
        capture_error_mode: See `CUDAGraph.capture_begin`.
    """

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: PoolHandle | None = None,
        stream: Stream | None = None,
        capture_error_mode: CaptureMode = "global",
    ) -> None:
        if not isinstance(cuda_graph, CUDAGraph):
            raise TypeError(
                f"graph: argument 'cuda_graph' must be CUDAGraph, not {type(cuda_graph).__name__}"
            )
        if pool is not None:
            check_pool(pool)
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(f"graph: argument 'stream' must be Stream, not {type(stream).__name__}")
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_stream = stream
        self.capture_error_mode = checked_mode(capture_error_mode)

    def __enter__(self) -> None:
        cuda = driver()
        free_abandoned_graphs()
        if not cuda.captures_underway:
            cuda.synchronize()
            gc.collect()
            free_abandoned_graphs()
            CUDA_ALLOCATOR.empty_cache()
        self._own = None if self.capture_stream is not None else idle_stream(cuda)
        self._context = StreamContext(self.capture_stream or self._own)
        self._context.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        self._context.__exit__(None, None, None)
        if self._own is not None:
            _idle_streams[self._own.device_index].append(self._own)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stream = self.capture_stream or self._own
        assert stream is not None
        # The block may have left another stream current.
        driver().set_stream(stream.device_index, stream.cuda_stream)
        try:
            self.cuda_graph.capture_end()
            if error is not None:
                self.cuda_graph.reset()
        except RuntimeError:
            # The block's own exception says more: it caused the failure of the capture.
            if error is None:
                raise
        finally:
            self._leave()
