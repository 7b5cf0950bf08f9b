"""`DistributedPlan`: the predicted step on a mesh of devices, as an object that prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..shown import shown_seconds
from .memory import MemoryPlan
from .mesh import Mesh
from .stage import CollectiveRow
from .strategies import Pipeline, TensorParallel

if TYPE_CHECKING:
    from ..prediction import Plan

PARTS = ("parameters", "gradients", "optimizer_state", "activations", "communication", "given")


@dataclass(frozen=True)
class DistributedPlan:
    """Predicted step on a mesh: time of the slowest rank, its collectives, and memory by rank.

    The program is the work of a single rank. Along data parallel and sharded dimensions, every rank runs it
    on its own batch. Tensor parallel and pipeline ranks divide the work.

    Attributes:
        single: Plan of the program on one device.
        mesh: Dimensions with their strategies.
        collectives: Row for each collective, dimension and algorithm, of the slowest rank in one step.
        compute_seconds: Computation time of the slowest rank.
        exposed_seconds: Time that it waits for communication.
        overlapped_seconds: Time of communication that overlaps with computation.
        bubble_seconds: Time that it waits for other pipeline ranks.
        step_seconds: Time of the step, from the first forward to the last update.
        memory: Memory of a rank, by its pipeline stage (one entry without a pipeline).
        units: Units of the program, by pipeline rank.
        basis: Basis of the plan's figures.
    """

    single: Plan
    mesh: Mesh
    collectives: tuple[CollectiveRow, ...]
    compute_seconds: float
    exposed_seconds: float
    overlapped_seconds: float
    bubble_seconds: float
    step_seconds: float
    memory: tuple[MemoryPlan, ...]
    units: tuple[tuple[str, ...], ...]
    basis: tuple[str, ...]

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.mesh.size

    @property
    def communication_seconds(self) -> float:
        """Time of all collectives of the slowest rank, exposed or not."""
        return sum(row.seconds for row in self.collectives)

    @property
    def speedup(self) -> float:
        """How many times as much the mesh does in a second as one device would."""
        copies = self.ranks / self._divisors
        return copies * self.single.seconds / self.step_seconds if self.step_seconds else float(self.ranks)

    @property
    def efficiency(self) -> float:
        """The scaling efficiency: the speedup over the number of ranks."""
        return self.speedup / self.ranks

    @property
    def peak_bytes(self) -> int:
        """The most that any rank holds at once."""
        return max(plan.peak for plan in self.memory)

    @property
    def peak_bytes_by_rank(self) -> list[int]:
        """The most that each rank holds at once."""
        return [self.memory_of(rank).peak for rank in range(self.ranks)]

    def memory_of(self, rank: int) -> MemoryPlan:
        """Return the memory of a rank. Raise IndexError for a rank that the mesh does not have."""
        if not 0 <= rank < self.ranks:
            raise IndexError(f"memory_of(): the mesh has ranks 0 to {self.ranks - 1}, got {rank}")
        pipeline = self.mesh.of(Pipeline)
        return self.memory[self.mesh.coordinate(rank, pipeline[0].name) if pipeline else 0]

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as numbers, strings, lists and dicts, for JSON."""
        return {
            "device": self.single.device,
            "ranks": self.ranks,
            "mesh": {dimension.name: dimension.size for dimension in self.mesh.dimensions},
            "single_seconds": self.single.seconds,
            "step_seconds": self.step_seconds,
            "compute_seconds": self.compute_seconds,
            "exposed_seconds": self.exposed_seconds,
            "overlapped_seconds": self.overlapped_seconds,
            "bubble_seconds": self.bubble_seconds,
            "speedup": self.speedup,
            "efficiency": self.efficiency,
            "collectives": [asdict(row) for row in self.collectives],
            "memory": [plan.as_dict() for plan in self.memory],
            "units": [list(names) for names in self.units],
            "basis": list(self.basis),
        }

    def __str__(self) -> str:
        dimensions = ", ".join(
            _dimension(each.name, each.size, each.strategy) for each in self.mesh.dimensions
        )
        lines = [f"mesh of {self.ranks:,} ranks: {dimensions}", *self._table()]
        lines.append(
            f"predicted step on {self.single.device}: {shown_seconds(self.step_seconds)} "
            f"({shown_seconds(self.compute_seconds)} of computing, {shown_seconds(self.exposed_seconds)} of exposed "
            f"and {shown_seconds(self.overlapped_seconds)} of overlapped communication, "
            f"{shown_seconds(self.bubble_seconds)} of waiting for other stages)"
        )
        lines.append(
            f"one device: {shown_seconds(self.single.seconds)}; speedup {self.speedup:,.2f}, "
            f"efficiency {self.efficiency:.1%}"
        )
        for stage, plan in enumerate(self.memory):
            where = f"stage {stage}" if len(self.memory) > 1 else "each rank"
            parts = ", ".join(f"{getattr(plan, part):,} {part.replace('_', ' ')}" for part in PARTS)
            lines.append(f"peak memory of {where}: {plan.peak:,} bytes ({parts})")
        return "\n".join([*lines, *self.basis])

    def _table(self) -> Sequence[str]:
        rows = [(f"{row.dimension}: {row.collective}, {row.algorithm}", row) for row in self.collectives]
        width = max((len("collective of a rank"), *(len(name) for name, _ in rows)))
        lines = [f"{'collective of a rank':<{width}}{'calls':>8}{'bytes':>18}{'sent':>18}{'us':>14}"]
        return lines + [
            f"{name:<{width}}{row.calls:>8,}{row.bytes:>18,.0f}{row.sent:>18,.0f}{1e6 * row.seconds:>14,.1f}"
            for name, row in rows
        ]

    @property
    def _divisors(self) -> int:
        """Among how many ranks one program is divided."""
        return self.mesh.size_of(TensorParallel) * self.mesh.size_of(Pipeline)


def _dimension(name: str, size: int, strategy: object) -> str:
    return f"{name} {size} ({type(strategy).__name__ if strategy else 'by the program'})"
