"""Allocator history: one entry for each event, in the format of pytorch.org/memory_viz (`_record_memory_history`)."""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path
from types import FrameType
from typing import Any

from .block import Block, PoolId, Segment

ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "oom",
    "snapshot",
)
CONTEXTS = (None, "state", "alloc", "all")
Entry = dict[str, Any]
Frames = list[tuple[str, int, str]]
_HERE = str(Path(__file__).parent)


def python_frames() -> Frames:
    """Return filename, line and function of each caller outside this package, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    frames = []
    while frame is not None:
        code = frame.f_code
        frames.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return frames


def frame_dicts(frames: object) -> list[dict[str, Any]]:
    """Return frames in the snapshot format, for None an empty list."""
    if not isinstance(frames, list):
        return []
    return [{"filename": filename, "line": line, "name": name} for filename, line, name in frames]


class MemoryHistory:
    """Event history of one device. `note` is lock-free, as it also runs inside garbage collection."""

    def __init__(
        self, device: int, keep_trace: bool, context: str | None, max_entries: int, skip: frozenset[str]
    ) -> None:
        self.device = device
        self.context = context
        self.skip = skip
        self.entries: deque[Entry] = deque(maxlen=min(max_entries, sys.maxsize) if keep_trace else 0)

    def note(
        self,
        action: str,
        address: int,
        size: int,
        stream: int,
        pool: PoolId,
        frames: Frames | None,
        **more: int,
    ) -> None:
        """Add an entry."""
        if self.entries.maxlen == 0 or action in self.skip:
            return
        entry = {
            "action": action,
            "addr": address,
            "size": size,
            "stream": stream,
            "time_us": time.time_ns() // 1000,
            "pool_id": pool,
            "frames": frames,
        }
        entry.update(more)
        self.entries.append(entry)

    def allocated(self, block: Block) -> None:
        """Record an allocation and keep the caller's frames with the block."""
        frames = python_frames() if self.context is not None else None
        block.frames = frames
        self._block("alloc", block, frames if self.context in ("alloc", "all") else None)

    def freed(self, action: str, block: Block) -> None:
        """Record that a block was freed by its owner, or that it became reusable."""
        self._block(action, block, python_frames() if self.context == "all" else None)

    def segment(self, action: str, segment: Segment) -> Frames | None:
        """Record that the driver allocated or freed a segment."""
        frames = python_frames() if self.context is not None else None
        self.note(
            action,
            segment.address,
            segment.size,
            segment.pool.stream,
            segment.pool.owner,
            frames if self.context in ("alloc", "all") else None,
        )
        return frames

    def out_of_memory(self, size: int, stream: int, pool: PoolId, free: int) -> None:
        """Record a failed request with the driver's number of free bytes."""
        frames = python_frames() if self.context in ("alloc", "all") else None
        self.note("oom", free, size, stream, pool, frames, device_free=free)

    def _block(self, action: str, block: Block, frames: Frames | None) -> None:
        pool = block.segment.pool
        self.note(action, block.address, block.size, pool.stream, pool.owner, frames)

    def trace(self) -> list[Entry]:
        """Return the entries so far, oldest first."""
        return [entry | {"frames": frame_dicts(entry["frames"])} for entry in list(self.entries)]
