"""Fixtures for hand-written PTX in the emulator, without Triton and without a driver."""

import struct
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from triten.runtime.cuda.emulator.global_memory import EmulatedMemory
from triten.runtime.cuda.emulator.machine import Launch, Program
from triten.runtime.cuda.emulator.ptx import parse
from triten.runtime.cuda.simulated.memory import HostMemory

Array = np.ndarray[Any, Any]

HEAD = """.version 8.8
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.visible .entry kernel(
{parameters}
)
{head}
{{
    .reg .pred %p<32>;
    .reg .b16 %h<32>;
    .reg .b32 %r<96>;
    .reg .b64 %d<48>;
    {body}
    ret;
}}
"""


class Machine:
    """Device memory, and kernels of one body."""

    def __init__(self) -> None:
        self.memory = EmulatedMemory(1 << 28)
        self.host = HostMemory(1 << 20)

    def put(self, array: Array) -> int:
        """Allocate a block that holds an array, and return its address."""
        address = self.empty(array.nbytes)
        self.bytes_at(address, array.nbytes)[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.memory.note_written(address, array.nbytes)
        return address

    def empty(self, nbytes: int) -> int:
        """Allocate a block that was never written, and return its address."""
        address = self.memory.malloc(nbytes)
        self.memory.blocks.add(address, nbytes)
        return address

    def bytes_at(self, address: int, nbytes: int) -> Array:
        """Return a writable view of the bytes at an address."""
        import ctypes

        memory: Any = (ctypes.c_uint8 * nbytes).from_address(address)
        return np.frombuffer(memory, np.uint8)

    def get(self, address: int, shape: Any, dtype: Any) -> Array:
        """Read an array from memory."""
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.bytes_at(address, count).copy().view(dtype).reshape(shape)

    def run(
        self,
        body: str,
        *arguments: int,
        grid: tuple[int, int, int] = (1, 1, 1),
        threads: int = 32,
        shared: int = 0,
        strict: bool = True,
        head: str = "",
        mends: bool = False,
        cluster: int = 1,
    ) -> None:
        """Run a body whose arguments are loaded as %d0, %d1 and so on; `head` has the kernel's directives."""
        parameters = ",\n".join(f".param .u64 kernel_param_{i}" for i in range(len(arguments)))
        loads = "\n".join(f"ld.param.b64 %d{i}, [kernel_param_{i}];" for i in range(len(arguments)))
        text = HEAD.format(parameters=parameters, head=head, body=loads + "\n" + body)
        program = Program(parse(text), "kernel", {}, mends)
        packed = struct.pack(f"{len(arguments)}Q", *arguments)
        Launch(program, grid, threads, shared, packed, self.memory, self.host, strict, cluster).run()

    def each(self, statement: str, dtypes: Any, *inputs: Any) -> Array:
        """Run a statement over %x0, %x1 ... for every element of the inputs, and return %y.

        `dtypes` has the dtype of the result and then those of the inputs. The kernel loads each input into a
        register of its width.
        """
        result, *given = (np.dtype(dtype) for dtype in dtypes)
        arrays = [np.asarray(value, dtype) for value, dtype in zip(inputs, given, strict=True)]
        count = arrays[0].size
        padded = count + -count % 32
        lines = ["mov.u32 %r90, %tid.x;", "mov.u32 %r91, %ctaid.x;", "mad.lo.s32 %r90, %r91, 32, %r90;"]
        names = {}
        for i, dtype in enumerate([result, *given]):
            bits = 8 * dtype.itemsize
            name = {8: f"%h{20 + i}", 16: f"%h{20 + i}", 32: f"%r{80 + i}", 64: f"%d{40 + i}"}[bits]
            names["y" if i == 0 else f"x{i - 1}"] = name
            lines.append(f"mad.wide.u32 %d{20 + i}, %r90, {dtype.itemsize}, %d{i};")
            if i:
                lines.append(f"ld.global.b{bits} {name}, [%d{20 + i}];")
        for key, name in names.items():
            statement = statement.replace(f"%{key}", name)
        lines += [statement, f"st.global.b{8 * result.itemsize} [%d20], {names['y']};"]
        out = self.empty(padded * result.itemsize)
        places = [self.put(np.resize(array, padded)) for array in arrays]
        self.run("\n".join(lines), out, *places, grid=(padded // 32, 1, 1))
        return self.get(out, padded, result)[:count]


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def each(machine: Machine) -> Callable[..., Array]:
    return machine.each


assert ml_dtypes.bfloat16  # NumPy knows its name by now
