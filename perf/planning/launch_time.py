"""Model of a kernel launch's time, from its machine code and published data of a device.

A multiprocessor holds as many blocks as registers and shared memory allow. Their time, for one loop iteration
or one pass from entry to exit, is the longest of:

- moving the bytes,
- issuing the instructions, on the busiest unit,
- the matrix instructions,
- the waits of a single warp for its loads, one batch after the other.

The last one is Little's law: the reached bandwidth is the bytes in flight over the latency. Blocks run in
waves; the last wave is smaller.

The model is simple. It assumes that matmul operands are in caches, that clocks are boost clocks, and that
memory has a bandwidth and a latency. It predicts the best time that a kernel's code allows, and the
bottleneck. Nothing in it was measured on a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ...runtime.cuda.occupancy import WARP_SIZE, resident_blocks
from ..ahead_of_time.schedule import Schedule
from .data_sheets import OF_BANDWIDTH
from .multiprocessor import (
    CACHE_CYCLES,
    DEPENDENT_CYCLES,
    EXCHANGE_CYCLES,
    LAUNCH_CYCLES,
    LAUNCH_SECONDS,
    SCHEDULERS,
    Multiprocessor,
)

OF_TENSOR = 0.8
"""Share of a tensor peak that is left by power limits. cuBLAS' published 685 TFLOP/s of bfloat16 on an H200
NVL are 0.82 of its peak of 835 (NVlabs/tilus #154). Its 54 of float64 on an H100 are 0.81 of 67
(triton-lang/triton #10313).
"""
ASKED = 0.85
"""The share of the bandwidth for which Little's law is to say how many bytes must be in flight."""
BANDWIDTH, IN_FLIGHT, ISSUE, TENSOR, LATENCY, TAIL, LAUNCH = (
    "bandwidth", "bytes in flight", "issue", "tensor pipe", "latency", "tail", "launch"
)  # fmt: skip
"""Names of bottlenecks."""


@dataclass(frozen=True)
class Code:
    """A compiled kernel, as the model takes it.

    Args:
        schedule: Schedule of a warp.
        warps, registers, shared, tensor_memory: Warps, shared memory and tensor memory of a block; registers
            of a thread.
        stages: Stages of a loop with asynchronous copies.
        number: the format of its products, as `DataSheet.peaks` names it.
        reuses: True if blocks share reads, as those of a matmul do, so that the bytes are in the L2 cache.
        groups: groups of warps that compute, each for itself; where there are several, one more group copies.
    """

    schedule: Schedule
    warps: int
    registers: int
    shared: int = 0
    tensor_memory: int = 0
    stages: int = 1
    number: str = "float32"
    reuses: bool = False
    groups: int = 1

    @property
    def computing(self) -> int:
        """Warps of a block that go the main way."""
        return self.warps if self.groups == 1 else self.warps // (self.groups + 1) * self.groups

    @property
    def threads(self) -> int:
        """Number of threads of a block."""
        return self.warps * WARP_SIZE

    @property
    def block_bytes(self) -> float:
        """Bytes of global memory that a block reads and writes, once through its main way."""
        own = self.schedule
        through_registers = self.threads * (own.loaded + own.stored + own.copied)
        # Copies by tensor maps have no size in SASS; they fill a stage of the shared memory.
        return through_registers or (self.shared / max(self.stages, 1) if own.asynchronous else 0)

    @property
    def block_operations(self) -> float:
        """Operations of a block's products, once through its main way: of matrix instructions, or else of FFMA."""
        own = self.schedule
        if own.matrix:
            return self.computing * own.matrix_operations
        pipe = "double" if self.number == "float64" else "fma"
        return 2.0 * self.threads * own.pipes.get(pipe, 0)

    def resident(self, multiprocessor: Multiprocessor) -> int:
        """Return the number of resident blocks per multiprocessor."""
        return resident_blocks(
            multiprocessor.target, self.warps, self.registers, self.shared, self.tensor_memory
        )


@dataclass(frozen=True)
class Times:
    """Cycles of resident blocks for one pass along the main path, by bottleneck."""

    cycles: dict[str, float] = field(default_factory=dict)

    @property
    def longest(self) -> float:
        """Cycles of the bottleneck."""
        return max(self.cycles.values())

    @property
    def term(self) -> str:
        """Name of the bottleneck: one of this module's names, for issue with the unit."""
        return max(self.cycles, key=lambda name: self.cycles[name])


@dataclass(frozen=True)
class Estimate:
    """Result of the model.

    Args:
        share: Share of the limit that is reached.
        limit: ``"bandwidth"``, or the peak's number format.
        term: The bottleneck.
        resident: Resident blocks per multiprocessor.
        in_flight: Bytes of global memory in flight per multiprocessor.
        seconds: Time of a launch; 0 without a launch.
        waves: Number of waves of blocks.
        needed: Bytes that must be in flight for `ASKED` of the bandwidth; 0 if bandwidth is not the limit.
    """

    share: float
    limit: str
    term: str
    resident: int
    in_flight: int
    seconds: float = 0.0
    waves: float = 0.0
    needed: int = 0

    def __str__(self) -> str:
        return f"{self.share:.0%} of {self.limit}, {self.term}"


def bytes_in_flight(code: Code, blocks: int) -> float:
    """Return the bytes in flight per multiprocessor with `blocks` blocks: the loads of a batch, and copies
    ahead.
    """
    own = code.schedule
    ahead = code.shared * (code.stages - 1) / max(code.stages, 1) if own.asynchronous else 0.0
    return blocks * (code.threads * own.loaded / max(own.batches, 1) + ahead)


def needed_in_flight(multiprocessor: Multiprocessor, code: Code) -> float:
    """Return the bytes in flight per multiprocessor that `ASKED` of the bandwidth requires, by Little's law.

    The result is the bandwidth times the latency of a busy memory, times the share of loads in the bytes
    moved, since no warp waits for stores. It is 0 for kernels whose operands are in a cache.

    Example:
        >>> from triten.perf.planning.multiprocessor import MULTIPROCESSORS
        >>> reading, copying = Schedule(loaded=64, batches=1), Schedule(loaded=64, stored=64, batches=1)
        >>> [round(needed_in_flight(MULTIPROCESSORS[90], Code(one, 4, 32))) for one in (reading, copying)]
        [16939, 8470]
    """
    if code.reuses:
        return 0.0
    own = code.schedule
    moved = own.loaded + own.copied + own.stored
    share = (own.loaded + own.copied) / moved if moved else float(own.asynchronous)
    return ASKED * multiprocessor.bytes_per_cycle * multiprocessor.latency_cycles * share


def times_of(multiprocessor: Multiprocessor, code: Code, blocks: int, moved: float | None = None) -> Times:
    """Compute the times of `blocks` resident blocks during one pass along the main path.

    `moved` are the bytes of a block that cross the memory bus, if they are known to differ from the bytes
    that the block accesses. Some data may be in a cache already, and some sectors are only partly used.
    """
    own, warps, groups = code.schedule, blocks * code.computing, blocks * code.groups
    busiest, busy = "", warps * own.instructions / SCHEDULERS
    for pipe, count in own.pipes.items():
        cycles = warps * count / multiprocessor.warps_per_cycle(pipe)
        if cycles > busy and pipe not in ("matrix", "uniform", "control"):
            busiest, busy = pipe, cycles
    if warps * own.shared_cycles > busy:
        busiest, busy = "shared memory", warps * own.shared_cycles
    cycles_by_term = {f"{ISSUE} of {busiest}" if busiest else ISSUE: busy}
    alone = own.exchanges * EXCHANGE_CYCLES + own.instructions * DEPENDENT_CYCLES
    answer = CACHE_CYCLES if code.reuses else multiprocessor.latency_cycles
    waiting = own.batches * answer
    if own.asynchronous:
        waiting += answer / max(code.stages - 1, 1)
    if code.reuses:
        multiplying = blocks * code.block_operations / multiprocessor.operations_per_cycle(_peak_of(code))
        cycles_by_term[TENSOR if own.matrix else code.number] = multiplying / OF_TENSOR
        # If exponentials stand between two matmuls, a group waits for the one and then for the other.
        alone = max(alone, busy / groups)
        alternates = own.matrix and own.pipes.get("special", 0)
        cycles_by_term[LATENCY] = (
            max(alone + multiplying / groups, waiting) if alternates else max(alone, waiting)
        )
    else:
        crossing = code.block_bytes if moved is None else moved
        cycles_by_term[BANDWIDTH] = blocks * crossing / (OF_BANDWIDTH * multiprocessor.bytes_per_cycle)
        cycles_by_term[IN_FLIGHT if waiting >= alone else LATENCY] = (
            waiting + alone + (0 if own.is_loop else LAUNCH_CYCLES)
        )
    return Times(cycles_by_term)


def _peak_of(code: Code) -> str:
    """Return the peak for a kernel's matmuls; without tensor cores, that of the format itself."""
    if code.schedule.matrix:
        return code.number
    return code.number if code.number == "float64" else "float32"


def steady(multiprocessor: Multiprocessor, code: Code) -> Estimate:
    """Estimate the throughput of a multiprocessor full of blocks, the limit for every shape.

    Raise ValueError for code that fits no multiprocessor.

    Example:
        >>> from triten.perf.planning.multiprocessor import MULTIPROCESSORS
        >>> copy = Schedule(instructions=40, pipes={"memory": 8}, loaded=64, stored=64, batches=1)
        >>> str(steady(MULTIPROCESSORS[90], Code(copy, warps=4, registers=32)))
        '90% of bandwidth, bandwidth'
    """
    blocks = code.resident(multiprocessor)
    if not blocks:
        raise ValueError(f"no multiprocessor of {multiprocessor.target.name} holds a block of {code}")
    times = times_of(multiprocessor, code, blocks)
    share, limit = _share(multiprocessor, code, blocks, times.longest)
    in_flight, needed = bytes_in_flight(code, blocks), needed_in_flight(multiprocessor, code)
    return Estimate(share, limit, times.term, blocks, round(in_flight), needed=round(needed))


def _share(multiprocessor: Multiprocessor, code: Code, blocks: float, cycles: float) -> tuple[float, str]:
    if code.reuses:
        peak = _peak_of(code)
        return blocks * code.block_operations / cycles / multiprocessor.operations_per_cycle(peak), peak
    return blocks * code.block_bytes / cycles / multiprocessor.bytes_per_cycle, BANDWIDTH


def waves(blocks: int, multiprocessors: int, resident: int = 1) -> float:
    """Return the number of waves, the last one counted in part.

    Example:
        >>> tiles = (3072 // 128) * (3072 // 256)
        >>> round(waves(tiles, 132), 2)
        2.18
    """
    return blocks / (multiprocessors * resident)


def launch(
    multiprocessor: Multiprocessor,
    code: Code,
    programs: int,
    nbytes: float = 0.0,
    operations: float = 0.0,
    epilogue: float = 0.0,
) -> Estimate:
    """Estimate the time of a launch.

    Args:
        multiprocessor, code: The device and the kernel.
        programs: Number of blocks, or of tiles that persistent blocks process.
        nbytes: Minimum bytes that the launch must move. The number of loop iterations follows from it.
        operations: Minimum operations of the launch's matmuls, which determine their loop iterations instead.
        epilogue: Bytes that a program stores after its loop.

    Raises ValueError for code that fits no multiprocessor.
    """
    held, count = steady(multiprocessor, code), multiprocessor.target.multiprocessors
    amount, each = (operations, code.block_operations) if code.reuses else (nbytes, code.block_bytes)
    rounds = amount / (programs * each) if code.schedule.is_loop and each and amount else 1.0
    moved = nbytes / (programs * rounds) if nbytes and not code.reuses else None
    passed, rest = divmod(programs, count * held.resident)
    ends = multiprocessor.latency_cycles + LAUNCH_CYCLES if code.schedule.is_loop else 0.0
    ends += epilogue / (OF_BANDWIDTH * multiprocessor.bytes_per_cycle)

    def cycles(blocks: int) -> float:
        # While one block begins or ends, those beside it go on.
        together = rounds * times_of(multiprocessor, code, blocks, moved).longest
        return max(together, rounds * times_of(multiprocessor, code, 1, moved).longest + ends)

    last = math.ceil(rest / count)
    total = passed * cycles(held.resident) + (cycles(last) if last else 0.0)
    seconds = total / multiprocessor.clock + LAUNCH_SECONDS
    done = programs * rounds * (each if moved is None else moved)
    # Minimum bytes that a matmul reads and writes, even with a cache.
    floor = (
        nbytes / (OF_BANDWIDTH * multiprocessor.sheet.bytes_per_second) + LAUNCH_SECONDS
        if code.reuses
        else 0.0
    )
    is_moving = floor > seconds
    seconds = max(seconds, floor)
    rate = done / seconds / (count * multiprocessor.clock)
    share = rate / (
        multiprocessor.operations_per_cycle(_peak_of(code)) if code.reuses else multiprocessor.bytes_per_cycle
    )
    even = programs / (count * held.resident) * cycles(held.resident)
    if seconds < 2 * LAUNCH_SECONDS:
        term = LAUNCH
    else:
        term = BANDWIDTH if is_moving else TAIL if total > 1.15 * even else held.term
    turns = waves(programs, count, held.resident)
    return Estimate(share, held.limit, term, held.resident, held.in_flight, seconds, turns, held.needed)
