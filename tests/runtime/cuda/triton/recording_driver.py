"""Driver without a device: it records the launches of machine code and runs none.

A test reads a launch's parameters from its table, by the types that the test names.
"""

import abc
import ctypes
import itertools
from dataclasses import dataclass, field

from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.machine_code import LaunchShape, LoadedCode, MachineCode

C_TYPES = {
    "u64": ctypes.c_uint64,
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
    "u16": ctypes.c_uint16,
    "i8": ctypes.c_int8,
    "u8": ctypes.c_uint8,
    "fp32": ctypes.c_float,
    "fp64": ctypes.c_double,
}


@dataclass
class Launched:
    name: str
    grid: tuple[int, int, int]
    shape: LaunchShape
    stream: int
    device: int
    pointers: int
    at: list[int] = field(default_factory=list)

    def values(self, *types: str) -> list[object]:
        """Return the current parameters by their types; a number stands for that many bytes."""
        table = (ctypes.c_void_p * len(types)).from_address(self.pointers)
        self.at = list(table)
        return [
            ctypes.string_at(address, type_)
            if isinstance(type_, int)
            else C_TYPES[type_].from_address(address).value
            for address, type_ in zip(table, types, strict=True)
        ]


class RecordingCode(MachineCode):
    def __init__(self, owner):
        self.owner = owner
        self.numbers = itertools.count(0x1000)
        self.names = {}
        self.loaded, self.unloaded, self.launched = [], [], []
        self.reachable = set()

    def load(self, name, cubin, shared):
        assert cubin[:4] == b"\x7fELF"
        module, function = next(self.numbers), next(self.numbers)
        self.names[function] = name
        self.loaded.append((module, name, shared, self.owner.current_device()))
        return LoadedCode(module, function, 32, 0, self.owner.max_threads)

    def unload(self, module):
        self.unloaded.append(module)

    def launch(self, function, grid, shape, stream, pointers):
        self.launched.append(
            Launched(self.names[function], grid, shape, stream, self.owner.current_device(), pointers)
        )

    def reaches(self, address):
        return address in self.reachable

    def library(self):
        raise RuntimeError("no library")

    def check(self, status, doing):
        if status:
            raise RuntimeError(f"CUDA error: status {status}: {doing}")


class RecordingDriver(cuda.Driver):
    """Driver of two devices, whose events measure a millisecond for each launch between them."""

    top = 1 << 40
    max_threads = 1024
    max_shared = 232_448

    def __init__(self, capability=90):
        super().__init__()
        self.capability = capability
        self.code = RecordingCode(self)
        self.handles = itertools.count(0x100)
        self.events = {}
        self.memset_calls = []

    def machine_code(self):
        return self.code

    def _compile(self, kernel, signature, constexprs, divisible, options):
        return NothingLaunched()

    def device_count(self):
        return 2

    def properties(self, device):
        return cuda.DeviceProperties(
            "none",
            self.capability // 10,
            self.capability % 10,
            1 << 36,
            132,
            32,
            self.max_shared,
            regs_per_multiprocessor=65_536,
        )

    def malloc(self, device, nbytes):
        self.top += nbytes + -nbytes % 512
        return self.top

    def free(self, device, address): ...

    def memory_info(self, device):
        return 1 << 36, 1 << 36

    def memset(self, dst, value, nbytes, stream):
        self.memset_calls.append((dst, value, nbytes, stream))

    def create_stream(self, device, priority=0):
        return next(self.handles)

    def create_event(self, timing=False, blocking=False, interprocess=False):
        handle = next(self.handles)
        self.events[handle] = None
        return handle

    def record_event(self, event, stream):
        self.events[event] = sum(self.cost(launched) for launched in self.code.launched)

    def cost(self, launched):
        return 1.0

    def elapsed(self, start, end):
        return self.events[end] - self.events[start]

    def destroy_event(self, event):
        del self.events[event]

    def query_event(self, event):
        return True


def _nothing(self, *args, **kwargs): ...


for _name in RecordingDriver.__abstractmethods__:
    setattr(RecordingDriver, _name, _nothing)
abc.update_abstractmethods(RecordingDriver)


class NothingLaunched(cuda.CompiledKernel):
    name = "nothing"

    def launch(self, grid, stream, *values): ...

    def bound(self, tensors):
        return self.launch
