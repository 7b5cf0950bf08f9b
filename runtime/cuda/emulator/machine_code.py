"""Machine code that Triton compiled for its caller, ``kernel[grid](x, n)``, on emulated devices."""

from __future__ import annotations

import ctypes
import itertools
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..driver import Grid
from ..machine_code import LaunchShape, LoadedCode, MachineCode
from ..occupancy import WARP_SIZE
from ..simulated.memory import LiveBlocks
from .global_memory import EmulatedMemory
from .images import check_resources, code_sizes, most_threads, ptx_of
from .machine import Launch, Program
from .ptx import parse

if TYPE_CHECKING:
    from .driver import EmulatorDriver

MAX_THREADS = 1024


class _Loaded(NamedTuple):
    """Loaded function: its program, its image, and the addresses of the image's variables by device."""

    name: str
    program: Program
    image: bytes
    device: int
    variables: tuple[int, ...]


class EmulatedCode(MachineCode):
    """Loader of images: parses their PTX (`images.ptx_of`), and executes it."""

    def __init__(self, owner: EmulatorDriver) -> None:
        self._owner = owner
        self._handles = itertools.count(1)
        self._loaded: dict[int, _Loaded] = {}
        self._given_up: deque[int] = deque()

    def load(self, name: str, cubin: bytes, shared: int) -> LoadedCode:
        owner = self._owner
        device = owner.current_device()
        owner.check_may_load(name)
        while self._given_up:
            self._drop(self._given_up.popleft())
        module = parse(ptx_of(cubin))
        kernel = module.kernel(name)
        shape = LaunchShape(kernel.threads or WARP_SIZE, shared, kernel.cluster or 1)
        check_resources(name, module, cubin, shape, owner.properties(device))
        variables = owner.load_variables(module)
        handle, program = next(self._handles), Program(module, name, variables, mends=True)
        self._loaded[handle] = _Loaded(name, program, cubin, device, tuple(variables.values()))
        registers, frame = code_sizes(cubin, name)
        return LoadedCode(handle, handle, registers, frame // 4, min(most_threads(registers), MAX_THREADS))

    def unload(self, module: int) -> None:
        # Garbage collection may run while a launch is still pending.
        self._given_up.append(module)

    def _drop(self, module: int) -> None:
        loaded = self._loaded.pop(module, None)
        if loaded is not None and loaded.variables:
            self._owner.synchronize(loaded.device)
            memory = self._owner.memory(loaded.device)
            for address in loaded.variables:
                memory.blocks.remove(address)
                memory.free(address)

    def launch(self, function: int, grid: Grid, shape: LaunchShape, stream: int, pointers: int) -> None:
        loaded, owner = self._loaded[function], self._owner
        device = owner.current_device()
        check_resources(loaded.name, loaded.program.module, loaded.image, shape, owner.properties(device))
        taken = loaded.program.kernel.function
        packed = bytearray(taken.bytes_of_parameters())
        table = (ctypes.c_void_p * len(taken.parameters)).from_address(pointers)
        for parameter, address in zip(taken.parameters, table, strict=True):
            packed[parameter.offset : parameter.offset + parameter.size] = ctypes.string_at(
                cast(int, address), parameter.size
            )
        work = partial(self._run, loaded.program, grid, shape, bytes(packed), device)
        owner.launch_kernel(loaded.name, grid, stream, work, counts=False)

    def _run(
        self,
        program: Program,
        grid: Grid,
        shape: LaunchShape,
        packed: bytes,
        device: int,
        blocks: LiveBlocks,
    ) -> None:
        del blocks
        owner, size = self._owner, (grid[0] * shape.cluster, grid[1], grid[2])
        memory = cast(EmulatedMemory, owner.memory(device))
        launch = Launch(
            program,
            size,
            shape.threads,
            shape.shared,
            packed,
            memory,
            owner.host_memory,
            owner.strict,
            shape.cluster,
        )
        launch.run()

    def reaches(self, address: int) -> bool:
        owner = self._owner
        memory = cast(EmulatedMemory, owner.memory(owner.current_device()))
        return memory.segment_at(address) is not None or owner.host_memory.holds(address, 1)

    def library(self) -> Any:
        return self._owner.encoder.library()

    def check(self, status: int, doing: str) -> None:
        self._owner.encoder.check(status, doing)
