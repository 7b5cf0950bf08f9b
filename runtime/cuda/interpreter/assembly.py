"""Inline PTX of a kernel in the interpreter, executed by the emulator: a thread for each group of `pack` elements.

The assembly becomes the body of a small kernel that loads its input registers from arrays and stores its output
registers. It computes; it cannot address a kernel's memory, which the interpreter keeps elsewhere.

Source: Triton, ``tt.elementwise_inline_asm`` (elements are packed into registers of 32 bits), and LLVM's constraints
for NVPTX.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from ..emulator.basic_blocks import UntranslatableError
from ..emulator.fault import EmulationError
from ..emulator.global_memory import EmulatedMemory
from ..emulator.machine import Launch, Program
from ..emulator.ptx import parse
from ..simulated.memory import HostMemory
from .formats import Array

THREADS = 128
_BITS = {"c": 16, "h": 16, "r": 32, "f": 32, "l": 64, "d": 64}
"""The width of a register by LLVM's letter for it."""
_MEMORY = 1 << 30


class _Operand(NamedTuple):
    """Registers of one input or output, each with `nbytes` of packed elements."""

    registers: int
    nbytes: int


def run(
    assembly: str, constraints: str, inputs: Sequence[Array], results: Sequence[np.dtype], pack: int
) -> list[Array]:
    """Return the results of inline assembly for each element.

    Args:
        assembly: PTX with operands ``$0``, ``$1``, ...: the results, then the inputs.
        constraints: Letters of the operands' registers, with commas between them: ``=r,r,f``.
        inputs: Arrays of one shape.
        results: Number formats of the results.
        pack: Number of elements that the assembly takes at once.

    Raises:
        NotImplementedError: The emulator does not know an instruction, or the assembly accesses memory.
    """
    arrays = np.broadcast_arrays(*inputs) if inputs else []
    shape = arrays[0].shape if arrays else (1,)
    count = math.prod(shape)
    threads = THREADS if count > pack * 32 else 32
    blocks = max(-(-count // (pack * threads)), 1)
    padded = blocks * threads * pack
    memory, host = EmulatedMemory(_MEMORY), HostMemory(_MEMORY)
    addresses = []
    try:
        program = _program(
            assembly,
            constraints,
            tuple(_operand(dtype.itemsize, pack) for dtype in results),
            tuple(_operand(array.dtype.itemsize, pack) for array in arrays),
            threads,
        )
        addresses += [_block(memory, np.zeros(padded, dtype)) for dtype in results]
        for array in arrays:
            flat = np.zeros(padded, array.dtype)
            flat[:count] = array.reshape(-1)
            addresses.append(_block(memory, flat))
        parameters = np.array(addresses, np.uint64).tobytes()
        Launch(program, (blocks, 1, 1), threads, 0, parameters, memory, host).run()
        return [
            np.frombuffer(ctypes.string_at(address, count * dtype.itemsize), dtype).reshape(shape)
            for address, dtype in zip(addresses, results, strict=False)
        ]
    except (EmulationError, UntranslatableError) as error:
        raise NotImplementedError(
            f"the interpreter cannot execute the assembly {assembly!r}: {error}; TRITEN_CUDA=emulate executes whole "
            "kernels"
        ) from error
    finally:
        for address in addresses:
            memory.free(address)


def _operand(itemsize: int, pack: int) -> _Operand:
    elements = min(max(4 // itemsize, 1), pack)
    return _Operand(pack // elements, elements * itemsize)


def _block(memory: EmulatedMemory, values: Array) -> int:
    """Return the address of a copy of an array in the emulator's memory."""
    address = memory.malloc(max(-(-values.nbytes // 512) * 512, 512))
    memory.blocks.add(address, values.nbytes)
    ctypes.memmove(address, values.ctypes.data, values.nbytes)
    memory.note_written(address, values.nbytes)
    return address


@cache
def _program(
    assembly: str,
    constraints: str,
    results: tuple[_Operand, ...],
    inputs: tuple[_Operand, ...],
    threads: int,
) -> Program:
    """Return the kernel of an assembly text."""
    letters = [each.strip().lstrip("=&") for each in constraints.split(",") if "~" not in each]
    operands = [*results, *inputs]
    owner = [(i, k) for i, each in enumerate(operands) for k in range(each.registers)]
    if len(owner) != len(letters):
        raise UntranslatableError(f"constraints {constraints!r} for {len(owner)} registers")
    num_results = sum(each.registers for each in results)
    # An input whose constraint is a number shares the register of that result.
    registers = [int(letter) if letter.isdigit() else i for i, letter in enumerate(letters)]
    unknown = [letter for letter in letters if letter not in _BITS and not letter.isdigit()]
    if unknown:
        raise UntranslatableError(f"constraint {unknown[0]!r}")
    lines = [f".reg .b{_BITS[letter]} %op{i};" for i, letter in enumerate(letters) if letter in _BITS]
    lines += [".reg .b32 %thread, %block;", ".reg .b64 %index, %offset;"]
    lines += [f".reg .b64 %at{i};" for i in range(len(operands))]
    lines += [
        "mov.u32 %thread, %tid.x;",
        "mov.u32 %block, %ctaid.x;",
        f"mad.lo.s32 %thread, %block, {threads}, %thread;",
        "cvt.u64.u32 %index, %thread;",
    ]
    for i, each in enumerate(operands):
        lines += [
            f"ld.param.u64 %at{i}, [assembly_param_{i}];",
            f"mul.lo.u64 %offset, %index, {each.registers * each.nbytes};",
            f"add.s64 %at{i}, %at{i}, %offset;",
        ]
    lines += _moves("ld", owner[num_results:], registers[num_results:], operands)
    text = re.sub(r"\$\$|\$(\d+)|\$\{(\d+)\}", lambda found: _named(found, registers), assembly)
    lines += ["{", text, "}"]
    lines += _moves("st", owner[:num_results], registers, operands)
    parameters = ", ".join(f".param .u64 assembly_param_{i}" for i in range(len(operands)))
    head = f".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry assembly({parameters})\n{{\n"
    module = parse(head + "\n".join(lines) + "\nret;\n}\n")
    return Program(module, "assembly", {})


def _moves(
    opcode: str, owner: Iterable[tuple[int, int]], registers: Iterable[int], operands: Sequence[_Operand]
) -> list[str]:
    """Return the loads or stores of registers."""
    lines = []
    for (i, k), register in zip(owner, registers, strict=False):
        nbytes = operands[i].nbytes
        place, value = f"[%at{i}+{k * nbytes}]", f"%op{register}"
        pair = f"{value}, {place}" if opcode == "ld" else f"{place}, {value}"
        lines.append(f"{opcode}.global.b{8 * nbytes} {pair};")
    return lines


def _named(found: re.Match[str], registers: Sequence[int]) -> str:
    number = found[1] or found[2]
    return "$" if number is None else f"%op{registers[int(number)]}"
