"""Driver that runs kernels in Triton's interpreter, on simulated devices.

Masked-off lanes hold poison, and every access is bounds-checked against live blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..device_properties import DeviceProperties
from ..driver import CompiledKernel
from ..simulated.driver import DEVICE_COUNT, SimulatedDriver
from ..triton.real_triton import real, real_constants

PROPERTIES = DeviceProperties(
    name="Triton interpreter",
    major=9,
    minor=0,
    total_memory=4 * 2**30,
    multi_processor_count=4,
    warp_size=32,
    max_shared_memory=232_448,
    shared_memory_per_multiprocessor=233_472,
    regs_per_multiprocessor=65_536,
    max_threads_per_multi_processor=2048,
    L2_cache_size=50 * 2**20,
    clock_rate=1_980_000,
    memory_clock_rate=2_619_000,
    memory_bus_width=5120,
)
"""An sm_90 device with few multiprocessors, so that persistent kernels stay small."""


class InterpreterDriver(SimulatedDriver):
    """Simulated sm_90 devices whose kernels are interpreted."""

    has_gluon = False

    def __init__(self, device_count: int = DEVICE_COUNT) -> None:
        super().__init__(PROPERTIES, device_count)

    def _compile(
        self,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        divisible: frozenset[str],
        options: Mapping[str, object],
    ) -> CompiledKernel:
        from .kernel import InterpretedKernel  # a process that runs no kernel here may compile them

        return InterpretedKernel(self, real(kernel), signature, real_constants(constexprs), divisible)
