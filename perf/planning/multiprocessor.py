"""Published throughputs of a multiprocessor per cycle, and memory latencies.

Nothing here was measured by this project. Throughputs are from the CUDA C++ Programming Guide ("Arithmetic
Instructions", results for each clock cycle and multiprocessor). Latencies of an idle device's memory, in
cycles, are from Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via
Microbenchmarking" (2024). They cover A100, H100 and RTX 4090, which shares the L40S' architecture. B200 and
RTX 5090 are assumed to equal H100 and RTX 4090. Clocks are the boost clocks of the data sheets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...runtime.cuda.occupancy import KNOWN, WARP_SIZE, Target
from .data_sheets import DATA_SHEETS, DataSheet

SCHEDULERS = 4
"""Warp instructions that are issued in a cycle."""
SPECIAL, CONVERT, MEMORY, ALU = 16, 16, 32, 64
"""Results of a cycle of transcendental functions, of conversions, of loads, stores and shuffles, and of integers."""
LOADED = 3.0
"""Latency of memory at its sustained rate, relative to idle memory. This is an assumption, by which a
multiprocessor of H100 needs 20 kB in flight.
"""
LAUNCH_CYCLES = 200
"""From a block's place becoming free to the first instruction of the next one: an assumption."""
LAUNCH_SECONDS = 3e-6
"""From one kernel's start to the next one's in a stream, both empty: an assumption, from 2 to 4 us in many reports."""
CACHE_CYCLES = 273
"""Until the L2 cache answers (Luo et al.: 262 on A100, 273 on H100)."""
EXCHANGE_CYCLES = 30
"""A shuffle, or a barrier of warps that arrive together (Luo et al.: 23 to 33 cycles for shared memory)."""
DEPENDENT_CYCLES = 2
"""Cycles between two instructions of a warp. A dependent instruction waits four cycles (Jia et al.,
"Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018). Every second instruction is
assumed to be dependent.
"""


@dataclass(frozen=True)
class Multiprocessor:
    """One of a target's, by its data sheet.

    Args:
        target: what it has.
        sheet: the device's bandwidth and peaks.
        clock: cycles a second.
        single, double: results of a cycle in float32 and float64.
        idle_cycles: until an idle memory's answer.
    """

    target: Target
    sheet: DataSheet
    clock: float
    single: int
    double: int
    idle_cycles: int

    @property
    def bytes_per_cycle(self) -> float:
        """Its share of the memory's bandwidth."""
        return self.sheet.bytes_per_second / self.target.multiprocessors / self.clock

    @property
    def latency_cycles(self) -> float:
        """Until memory answers that is busy."""
        return LOADED * self.idle_cycles

    def operations_per_cycle(self, number: str) -> float:
        """Its share of the peak rate of a number format, as `DataSheet.peaks` names it."""
        return self.sheet.peaks[number] / self.target.multiprocessors / self.clock

    def warps_per_cycle(self, pipe: str) -> float:
        """Warp instructions that one kind of unit takes in a cycle; pipes are those of `schedule.PIPES`."""
        lanes: Mapping[str, int] = {
            "fma": self.single, "double": self.double, "special": SPECIAL, "convert": CONVERT, "memory": MEMORY,
            "alu": ALU,
        }  # fmt: skip
        return min(lanes.get(pipe, SCHEDULERS * WARP_SIZE) / WARP_SIZE, SCHEDULERS)


MULTIPROCESSORS: dict[int, Multiprocessor] = {
    made.target.capability: made
    for made in (
        Multiprocessor(KNOWN[80], DATA_SHEETS["a100"], 1.41e9, 64, 32, 466),
        Multiprocessor(KNOWN[89], DATA_SHEETS["l40s"], 2.52e9, 128, 2, 542),
        Multiprocessor(KNOWN[90], DATA_SHEETS["h100"], 1.83e9, 128, 64, 479),
        Multiprocessor(KNOWN[100], DATA_SHEETS["b200"], 1.965e9, 128, 64, 479),
        Multiprocessor(KNOWN[120], DATA_SHEETS["rtx5090"], 2.41e9, 128, 2, 542),
    )
}
"""By capability: the devices of `occupancy.KNOWN` of which there is a data sheet."""
