"""Simulated capture: the work of streams as nodes with dependencies, by CUDA's rules on forks and joins.

A node is work of a stream. It depends on the stream's previous node and on the nodes that the stream waited for
through events. Allocations and frees are noted too, so that a replay knows at every point which blocks its work may
access.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ..capture import CAPTURED_EVENT, IMPLICIT, INVALIDATED, ISOLATION, MERGE, UNSUPPORTED, capture_error

if TYPE_CHECKING:
    from .memory import LiveBlocks
    from .stream import EventRecord, Stream

Work = Callable[[], None]


class Node:
    """Node of captured work, or a note of an allocator; it waits for the nodes in `after`."""

    __slots__ = ("after", "kind", "name", "number", "work")

    kind: str
    """``kernel``, ``copy``, ``memset``, ``graph`` or ``work``; empty for notes."""

    def __init__(self, number: int, name: str, kind: str, after: Iterable[Node]) -> None:
        self.number = number
        self.name = name
        self.kind = kind
        self.after = frozenset(after)
        self.work: Work | None = None


class BlockNote(Node):
    """Note that a block of the graph's memory was allocated or freed."""

    __slots__ = ("address", "blocks", "is_allocation", "nbytes", "survives")

    def __init__(
        self, number: int, after: Iterable[Node], blocks: LiveBlocks, address: int, nbytes: int | None
    ) -> None:
        super().__init__(number, "", "", after)
        self.blocks = blocks
        self.address = address
        self.is_allocation = nbytes is not None
        self.nbytes = nbytes or 0
        self.survives = self.is_allocation


class CapturedRecord:
    """Recording of an event inside a capture."""

    __slots__ = ("after", "capture")

    def __init__(self, capture: Capture, after: frozenset[Node]) -> None:
        self.capture = capture
        self.after = after

    def refuse(self, operation: str) -> RuntimeError:
        """Return the error of a query or wait outside of the capture, and invalidate the capture."""
        self.capture.invalidate()
        return capture_error(CAPTURED_EVENT, operation)


class Capture:
    """Capture, from its begin to its end. `number` is unique in the process."""

    def __init__(self, number: int, origin: Stream, relaxed: bool) -> None:
        self.number = number
        self.origin = origin
        self.thread = None if relaxed else threading.get_ident()
        self.is_invalidated = False
        self.has_ended = False
        self.nodes: list[Node] = []
        self.allocated: dict[int, BlockNote] = {}
        self._tails: dict[Stream, frozenset[Node]] = {}
        self._notes: deque[tuple[Stream, LiveBlocks, int, int | None]] = deque()
        self._lock = threading.RLock()
        self.join(origin, frozenset())

    @property
    def streams(self) -> list[Stream]:
        """Streams that take part, in the order in which they joined."""
        return list(self._tails)

    def invalidate(self) -> None:
        """Invalidate the capture: every use of its streams and events is an error until it ends."""
        if not self.has_ended:
            self.is_invalidated = True

    def refuse(self, error_text: str, detail: str) -> RuntimeError:
        """Return the error of an operation that may not be captured, and invalidate the capture."""
        if self.is_invalidated:
            return capture_error(INVALIDATED, detail)
        self.invalidate()
        return capture_error(error_text, detail)

    def join(self, stream: Stream, after: frozenset[Node]) -> None:
        """Add a stream to the capture, after the given nodes."""
        with self._lock:
            self._tails[stream] = after
            stream.capture = self

    def add(self, stream: Stream, work: Work, kind: str, name: str) -> None:
        """Record work of a stream. Raise RuntimeError if the capture is invalidated."""
        with self._lock:
            if self.is_invalidated:
                raise capture_error(INVALIDATED, f"{kind} {name}".rstrip())
            self._write_notes()
            node = Node(len(self.nodes), name, kind, self._tails[stream])
            node.work = work
            self._append(stream, node)

    def _append(self, stream: Stream, node: Node) -> None:
        self.nodes.append(node)
        self._tails[stream] = frozenset((node,))

    def note(self, stream: Stream, blocks: LiveBlocks, address: int, nbytes: int | None) -> None:
        """Note that a block is allocated (`nbytes`) or freed (None), in stream order.

        Lock-free, as garbage collection calls it.
        """
        self._notes.append((stream, blocks, address, nbytes))
        if self.has_ended:
            self._write_late_notes()

    def _write_notes(self) -> None:
        while self._notes:
            stream, blocks, address, nbytes = self._notes.popleft()
            if nbytes is None and address not in self.allocated:
                # The block is older than the capture: its memory is no part of the graph.
                stream.enqueue_now(partial(blocks.give_back, address))
                continue
            note = BlockNote(len(self.nodes), self._tails[stream], blocks, address, nbytes)
            if nbytes is None:
                self.allocated.pop(address).survives = False
            else:
                self.allocated[address] = note
            self._append(stream, note)

    def _write_late_notes(self) -> None:
        while self._notes:
            stream, blocks, address, nbytes = self._notes.popleft()
            if nbytes is None:
                stream.enqueue_now(partial(blocks.give_back, address))
            else:
                stream.enqueue_now(partial(blocks.add, address, nbytes))

    def record(self, stream: Stream) -> CapturedRecord:
        """Record an event. Raise RuntimeError if the capture is invalidated."""
        with self._lock:
            if self.is_invalidated:
                raise capture_error(INVALIDATED, "an event is recorded")
            self._write_notes()
            return CapturedRecord(self, self._tails[stream])

    def wait(self, stream: Stream, record: EventRecord | CapturedRecord) -> None:
        """Make a stream of this capture wait for an event."""
        if not isinstance(record, CapturedRecord) or record.capture.has_ended:
            raise self.refuse(ISOLATION, "a capturing stream waits for an event that was recorded outside")
        if record.capture is not self:
            record.capture.invalidate()
            raise self.refuse(MERGE, "a capturing stream waits for an event of another capture")
        with self._lock:
            if self.is_invalidated:
                raise capture_error(INVALIDATED, "a stream waits for an event")
            self._write_notes()
            self._tails[stream] |= record.after

    def end(self) -> list[BlockNote]:
        """Release the streams. Return the blocks that live on."""
        with self._lock:
            self.has_ended = True
            self._write_notes()
            for stream in self._tails:
                stream.capture = None
            return list(self.allocated.values())

    def unjoined(self) -> list[Stream]:
        """Return the streams with work that the first stream does not wait for."""
        joined = ancestors(self._tails[self.origin])
        return [s for s, tail in self._tails.items() if not last_work(tail) <= joined]


def begin_waiting(stream: Stream, record: CapturedRecord) -> None:
    """Make a stream that is not capturing wait for a captured event; the stream joins the capture."""
    capture = record.capture
    if capture.has_ended:
        raise capture_error(CAPTURED_EVENT, "a stream waits for an event whose capture has ended")
    if capture.is_invalidated:
        raise capture_error(INVALIDATED, "a stream waits for an event of an invalidated capture")
    if stream.is_legacy:
        raise capture.refuse(IMPLICIT, "the default stream waits for an event of a capture")
    capture.join(stream, record.after)


def refuse_waiting(stream: Stream, operation: str) -> None:
    """Raise RuntimeError if a stream is capturing: captured work does not run, so it cannot be awaited."""
    if stream.capture is not None:
        raise stream.capture.refuse(UNSUPPORTED, operation)


def ancestors(nodes: Iterable[Node]) -> set[Node]:
    """Return the nodes and all their dependencies."""
    visited: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in visited:
            visited.add(node)
            stack.extend(node.after)
    return visited


def last_work(tail: Iterable[Node]) -> set[Node]:
    """Return the nearest work nodes at or before these nodes; notes do not count."""
    work_nodes: set[Node] = set()
    stack = list(tail)
    while stack:
        node = stack.pop()
        if node.work is None:
            stack.extend(node.after)
        else:
            work_nodes.add(node)
    return work_nodes
