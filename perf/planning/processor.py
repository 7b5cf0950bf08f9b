"""The model of this machine's CPU: for a call the longer of moving its bytes and of its work, and overhead."""

from __future__ import annotations

from ..._public import get_num_threads
from ...dispatch.core.op_overload import find_overload
from ...runtime.device import CPU
from ...runtime.scalar_type import float32
from ..machine import processor_name
from .heavy_kinds import kind_of
from .kinds import BYTES, FLOPS, Kind, contiguous
from .rates import Curve, Unmeasurable, curve_of
from .recording import RecordedCall
from .timing import node_seconds

COPY = Kind(
    "copy", find_overload("aten::clone"), BYTES, (4, 64, 256, 1024, 3072),
    lambda side: {"self": contiguous(side, side, dtype=float32), "memory_format": None},
)  # fmt: skip
"""The limit of bytes: a copy of up to 36 MB, which no cache holds."""
VIEW = Kind(
    "view",
    find_overload("aten::t"),
    FLOPS,
    (4,),
    lambda side: {"self": contiguous(side, side, dtype=float32)},
)


class Processor:
    """Seconds of calls on this machine's CPU."""

    def __init__(self) -> None:
        self.name = processor_name()
        self.by_copy: set[str] = set()
        """Operators that no probe is known of: they are taken for copies."""

    def roofline_and_overhead(self, key: str, call: RecordedCall) -> tuple[float, float]:
        """Seconds of one call: of its work, and of being called."""
        if call.is_free:
            return 0.0, curve_of(VIEW, 0).overhead
        moved = call.work.bytes
        copy = curve_of(COPY, moved)
        moving = copy.seconds(moved) - copy.overhead
        curve, kind = self._curve(call)
        if curve is None or kind is None:
            self.by_copy.add(call.func.name())
            return moving, copy.overhead
        items = kind.items_of(call)
        work = (moved if kind.unit == BYTES else call.work.flops) / items
        computing = (curve.seconds(work) - curve.overhead) * items / kind.items
        return max(moving, computing), curve.overhead

    def backward_node_seconds(self) -> float:
        """Seconds of autograd for a node."""
        return node_seconds(CPU)

    def _curve(self, call: RecordedCall) -> tuple[Curve | None, Kind | None]:
        kind = kind_of(call)
        if kind is None:
            return None, None
        work = call.work.bytes if kind.unit == BYTES else call.work.flops
        try:
            return curve_of(kind, work / kind.items_of(call)), kind
        except Unmeasurable:
            return None, None

    def basis(self, peak_bytes: int) -> list[str]:
        """Describe the basis of the prediction."""
        lines = [
            f"measured on this machine: {self.name}, {get_num_threads()} threads; by kind of work, on small operands"
        ]
        if self.by_copy:
            lines.append(f"taken for copies, since no probe is known: {', '.join(sorted(self.by_copy))}")
        return lines
