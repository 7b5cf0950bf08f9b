"""CUDA driver that compiles kernels as for a GPU and executes them on the CPU, on simulated devices.

It is for tests: it runs the code that a GPU would get, and detects errors that hardware hides. A kernel that reads
uninitialized memory is also a fault, unless ``TRITEN_EMULATE_UNINITIALISED=1`` allows it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

from ...data_ptr import DataPtr
from ...device import device as Device
from ..device_properties import DeviceProperties
from ..driver import CompiledKernel, current_driver
from ..machine_code import MachineCode
from ..memory.caching_allocator import CUDA_ALLOCATOR, CachingAllocator
from ..simulated.driver import DEVICE_COUNT, SimulatedDriver
from ..triton.compile import compile_kernel
from ..triton.real_triton import real
from .global_memory import EmulatedMemory
from .kernel import EmulatedKernel, arguments_of
from .machine_code import EmulatedCode
from .ptx import Module
from .tensor_maps import EncoderLibrary

TARGET = "TRITEN_EMULATE"
"""Environment variable that chooses the emulated device by its compute capability."""

AMPERE = DeviceProperties(
    name="PTX emulator",
    major=8,
    minor=0,
    total_memory=4 * 2**30,
    multi_processor_count=4,
    warp_size=32,
    max_shared_memory=166_912,
    shared_memory_per_multiprocessor=167_936,
    regs_per_multiprocessor=65_536,
    max_threads_per_multi_processor=2048,
    L2_cache_size=40 * 2**20,
    clock_rate=1_410_000,
    memory_clock_rate=1_512_000,
    memory_bus_width=5120,
)
"""An sm_80 device with few multiprocessors, so that persistent kernels stay small."""

HOPPER = DeviceProperties(
    name="PTX emulator sm_90",
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
"""An sm_90 device with few multiprocessors."""

BLACKWELL = DeviceProperties(
    name="PTX emulator sm_100",
    major=10,
    minor=0,
    total_memory=4 * 2**30,
    multi_processor_count=4,
    warp_size=32,
    max_shared_memory=232_448,
    shared_memory_per_multiprocessor=233_472,
    regs_per_multiprocessor=65_536,
    max_threads_per_multi_processor=2048,
    L2_cache_size=126 * 2**20,
    clock_rate=1_965_000,
    memory_clock_rate=3_996_000,
    memory_bus_width=8192,
)
"""An sm_100 device with few multiprocessors."""

DEVICES = {str(each.capability): each for each in (AMPERE, HOPPER, BLACKWELL)}


def emulated_device() -> DeviceProperties:
    """Return the device that the environment names. Raise RuntimeError if it is not emulated."""
    name = os.environ.get(TARGET) or "80"
    properties = DEVICES.get(name)
    if properties is None:
        *other_names, last = DEVICES
        raise RuntimeError(f"{TARGET}: expected {', '.join(other_names)} or {last}, got {name!r}")
    return properties


class EmulatorDriver(SimulatedDriver):
    """Simulated devices that execute PTX. Default: sm_80, unless ``TRITEN_EMULATE`` names another."""

    def __init__(self, device_count: int = DEVICE_COUNT) -> None:
        super().__init__(emulated_device(), device_count)
        self.strict = os.environ.get("TRITEN_EMULATE_UNINITIALISED") != "1"
        self._scratch: CachingAllocator | None = None
        self.encoder = EncoderLibrary()

    def machine_code(self) -> MachineCode:
        return EmulatedCode(self)

    def new_memory(self, total: int) -> EmulatedMemory:
        return EmulatedMemory(total)

    def scratch(self, nbytes: int, stream: int) -> DataPtr:
        """Allocate memory for one launch on the current device."""
        if self._scratch is None:
            self._scratch = CUDA_ALLOCATOR if current_driver() is self else CachingAllocator(self)
        return self._scratch.allocate(nbytes, Device("cuda", self.current_device()), stream)

    def load_variables(self, module: Module) -> dict[str, int]:
        """Copy a module's variables into the current device's memory; return their addresses."""
        memory, addresses = self.memory(self.current_device()), {}
        for name, variable in module.variables.items():
            address = memory.malloc(max(len(variable.data), 1))
            memory.blocks.add(address, len(variable.data))
            ctypes.memmove(address, variable.data, len(variable.data))
            memory.note_written(address, len(variable.data))
            addresses[name] = address
        return addresses

    def _compile(
        self,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        divisible: frozenset[str],
        options: Mapping[str, object],
    ) -> CompiledKernel:
        properties = self.properties(self.current_device())
        binary = compile_kernel(kernel, signature, constexprs, divisible, properties.capability, options)
        return EmulatedKernel(self, binary, arguments_of(real(kernel), signature), divisible, properties)
