"""Schedule of a warp along the main path of a kernel, read from its SASS.

The main path is one iteration of a loop, if a loop accesses global memory or runs matrix instructions. Among
such loops it is the innermost one with the most matrix work, or with the most bytes moved.

Otherwise the main path goes from the entry to an exit. This also applies if the code outside a loop moves
more than twice as many bytes; such a loop searches, as for a tensor in a table.

Among several paths, the main path has the most matrix work, or moves the most bytes if there is none. Ties go
to the shortest: a kernel without masks for whole blocks has another path for the last block.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ...runtime.cuda.occupancy import WARP_SIZE
from .disassembly import MATRIX, access_bits

MEMORY = ("LDG", "STG", "LDGSTS", "UTMALDG", "UTMASTG", "UBLKCP", "RED", "ATOM", "ATOMG")
ASYNCHRONOUS = ("LDGSTS", "UTMALDG", "UBLKCP")
"""Copies to shared memory, which a warp starts and does not wait for."""
EXCHANGES = ("SHFL", "BAR", "REDUX")
"""Instructions that wait for other lanes or warps."""

PIPES = {
    "fma": ("FADD", "FMUL", "FFMA", "FFMA2", "FADD2", "FMUL2", "IMAD", "HADD2", "HMUL2", "HFMA2"),
    "special": ("MUFU",),
    "double": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
    "convert": ("F2F", "F2I", "I2F", "FRND"),
    "memory": ("LDG", "STG", "LDS", "STS", "LDSM", "STSM", "LDGSTS", "LDL", "STL", "ATOM", "ATOMG", "ATOMS", "RED",
               "SHFL"),
    "control": ("BRA", "BRX", "EXIT", "BSSY", "BSYNC", "NOP", "DEPBAR", "LDGDEPBAR", "BAR", "WARPSYNC", "SYNCS",
                "CALL", "RET", "LDC", "LDCU", "S2R", "S2UR", "R2UR", "WARPGROUP", "FENCE"),
}  # fmt: skip
"""Opcodes by the units that execute them; integer and logical ones, compares and moves make the rest, ``alu``."""
PIPE_OF = {opcode: pipe for pipe, opcodes in PIPES.items() for opcode in opcodes}

_LINE = re.compile(
    r"^(?P<label>\.L_\w+):|^\s*/\*[0-9a-f]{4,}\*/\s+(?P<guard>@!?U?P\w+)?\s*(?P<name>[A-Z][\w.]*)\s*(?P<rest>[^;]*);",
    re.M,
)
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_REGISTER = re.compile(r"\bR(\d+)(\.64)?")
_ANY_REGISTER = re.compile(r"\bU?R\d+")
_WARPGROUP_SHAPE = re.compile(r"^(\d+)x(\d+)x(\d+)$")
_WARP_SHAPES = {
    "16816": (16, 8, 16), "1688": (16, 8, 8), "16832": (16, 8, 32), "1684": (16, 8, 4), "884": (8, 8, 4),
    "8x8x4": (8, 8, 4), "16864": (16, 8, 64), "16x8x16": (16, 8, 16), "16x8x8": (16, 8, 8), "16x8x4": (16, 8, 4),
}  # fmt: skip


class Instruction(NamedTuple):
    """One instruction: its opcode and modifiers, its operands as text, and whether a predicate guards it."""

    opcode: str
    modifiers: tuple[str, ...]
    rest: str
    guarded: bool


@dataclass
class Schedule:
    """Work of one warp during one pass along the main path.

    Args:
        is_loop: True if the path is the body of a loop.
        instructions: Number of instructions. `pipes` has the numbers by execution unit.
        shared_cycles: Cycles of shared memory accesses, at 128 bytes per cycle and multiprocessor.
        loaded, stored: Bytes of global memory that a thread loads into registers, and stores.
        copied: Bytes that a thread copies to shared memory, if each thread copies its part.
        batches: Number of waits for loads. Loads in flight at the same time count once.
        exchanges: Number of waits for other lanes or warps, at barriers or for shuffles started together.
        asynchronous: True if copies to shared memory run ahead.
        matrix_operations: Operations of matrix instructions, divided among the warps that share them.
        matrix: The matrix instruction; empty if there is none.
    """

    is_loop: bool = False
    instructions: int = 0
    pipes: dict[str, int] = field(default_factory=dict)
    shared_cycles: float = 0.0
    loaded: int = 0
    stored: int = 0
    copied: int = 0
    batches: int = 0
    exchanges: int = 0
    asynchronous: bool = False
    matrix_operations: float = 0.0
    matrix: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain data, from which ``Schedule(**data)`` makes it again."""
        return asdict(self)


@dataclass
class Block:
    """Basic block: instructions without a branch among them, and the indices of the successors."""

    code: list[Instruction] = field(default_factory=list)
    following: list[int] = field(default_factory=list)
    backward: list[int] = field(default_factory=list)
    """Those before it, or itself: the beginnings of loops."""


def schedule_of(sass: str) -> Schedule:
    """Return the schedule of the main path in a kernel's disassembly (``nvdisasm -c``)."""
    blocks = blocks_of(sass)
    loops = [
        (first, last)
        for last, block in enumerate(blocks)
        for first in block.backward
        if any(i.opcode in (*MEMORY, *MATRIX) for each in blocks[first : last + 1] for i in each.code)
    ]
    everything = [i for block in blocks for i in block.code]
    if not loops:
        path = _heaviest_path(blocks, 0, len(blocks) - 1)
        return _summary(path, is_loop=False, everything=path)
    innermost = [
        (first, last)
        for first, last in loops
        if not any(first <= f and l <= last and (f, l) != (first, last) for f, l in loops)
    ]
    loop_paths = [_heaviest_path(blocks, first, last) for first, last in innermost]
    body = max(loop_paths, key=lambda code: (_matrix_operations(code), _moved(code), len(code)))
    whole = _heaviest_path(blocks, 0, len(blocks) - 1)
    if not any(i.opcode in MATRIX for i in everything) and _moved(whole) > 3 * _moved(body):
        return _summary(whole, is_loop=False, everything=whole)
    return _summary(body, is_loop=True, everything=everything)


def blocks_of(sass: str) -> list[Block]:
    """Return the kernel's basic blocks in order, from the text of one function."""
    blocks = [Block()]
    labels: dict[str, int] = {}
    jumps: list[tuple[int, str]] = []
    for match in _LINE.finditer(sass):
        if match["label"]:
            if blocks[-1].code:
                blocks.append(Block())
            labels[match["label"]] = len(blocks) - 1
            continue
        opcode, *modifiers = match["name"].split(".")
        guarded = match["guard"] is not None or (
            opcode == "BRA" and re.match(r"!?U?P\d", match["rest"]) is not None
        )
        blocks[-1].code.append(Instruction(opcode, tuple(modifiers), match["rest"], guarded))
        if opcode not in ("BRA", "EXIT", "RET", "BRX"):
            continue
        number = len(blocks) - 1
        target = _TARGET.search(match["rest"])
        if opcode == "BRA" and target is not None:
            jumps.append((number, target[1]))
        blocks.append(Block())
        if guarded:
            blocks[number].following.append(number + 1)
    for number, block in enumerate(blocks[:-1]):
        ends = block.code and block.code[-1].opcode in ("BRA", "EXIT", "RET", "BRX")
        if not ends:
            block.following.append(number + 1)
    for number, label in jumps:
        target_number = labels.get(label, number + 1)
        if target_number > number:
            blocks[number].following.append(target_number)
        elif len(blocks[number].code) > 1 or target_number < number:  # not the endless one behind the end
            blocks[number].backward.append(target_number)
    return blocks


def _heaviest_path(blocks: Sequence[Block], first: int, last: int) -> list[Instruction]:
    """Return the path between two blocks, or to an exit, with the most matmul operations.

    Without matmuls, the path with the most bytes counts, then the one with the fewest instructions. In a loop
    over tiles, this leaves out the stores after the last step of a tile.
    """
    multiplies = any(i.opcode in MATRIX for block in blocks[first : last + 1] for i in block.code)
    best: dict[int, tuple[float, int, int, int | None]] = {}
    for number in range(last, first - 1, -1):
        block = blocks[number]
        inside = [n for n in block.following if n <= last]
        # A path that leaves the loop does not count.
        ends = number == last or (not block.following and last == len(blocks) - 1)
        onward = max(
            ((*best[n][:3], n) for n in inside if n in best), default=(0.0, 0, 0, None) if ends else None
        )
        if onward is None:
            continue
        best[number] = (
            _matrix_operations(block.code) + onward[0],
            (0 if multiplies else _moved(block.code)) + onward[1],
            onward[2] - len(block.code),
            onward[3],
        )
    path: list[Instruction] = []
    block_number: int | None = first if first in best else None
    while block_number is not None:
        path += blocks[block_number].code
        block_number = best[block_number][3]
    return path


def _moved(code: Sequence[Instruction]) -> int:
    return sum(access_bits(i.modifiers) // 8 for i in code if i.opcode in MEMORY)


def _matrix_operations(code: Sequence[Instruction]) -> float:
    return sum(matrix_operations(i) for i in code if i.opcode in MATRIX)


def matrix_operations(instruction: Instruction) -> float:
    """Return the operations of a matrix instruction per participating warp; 1 if SASS does not show the shape.

    Example:
        >>> matrix_operations(Instruction("HMMA", ("16816", "F32", "BF16"), "", False))
        4096.0
        >>> matrix_operations(Instruction("HGMMA", ("64x256x16", "F32", "BF16"), "", False))
        131072.0
    """
    for modifier in instruction.modifiers:
        if modifier in _WARP_SHAPES and "GMMA" not in instruction.opcode:
            m, n, k = _WARP_SHAPES[modifier]
            return 2.0 * m * n * k
        shape = _WARPGROUP_SHAPE.match(modifier)
        if shape:
            return 2.0 * int(shape[1]) * int(shape[2]) * int(shape[3]) / 4
    return 1.0


def _summary(code: Sequence[Instruction], is_loop: bool, everything: Sequence[Instruction]) -> Schedule:
    made = Schedule(is_loop=is_loop, instructions=len(code))
    pipes: Counter[str] = Counter()
    for instruction in code:
        opcode, bits = instruction.opcode, access_bits(instruction.modifiers)
        if opcode in MATRIX:
            pipes["matrix"] += 1
            made.matrix_operations += matrix_operations(instruction)
            made.matrix = opcode
        elif opcode.startswith("U") and opcode not in MEMORY:
            pipes["uniform"] += 1
        else:
            pipes[PIPE_OF.get(opcode, "alu")] += 1
        if opcode == "LDG":
            made.loaded += bits // 8
        elif opcode == "STG":
            made.stored += bits // 8
        elif opcode == "LDGSTS":
            made.copied += bits // 8
        elif opcode in ("LDS", "STS"):
            made.shared_cycles += bits / 32
        elif opcode in ("LDSM", "STSM"):
            made.shared_cycles += next((int(m) for m in instruction.modifiers if m in ("1", "2", "4")), 1)
    made.pipes = dict(pipes)
    made.batches = _batches(code)
    made.exchanges = _exchanges(code)
    # A loop's copies may be started by another group of warps.
    made.asynchronous = any(i.opcode in ASYNCHRONOUS for i in everything)
    return made


def _batches(code: Sequence[Instruction]) -> int:
    """Count the waits for loads. Loads started before the first use of any of them count once."""
    pending: set[int] = set()
    waits = 0
    for instruction in code:
        named: set[int] = set()
        for number, pair in _REGISTER.findall(instruction.rest):
            named |= {int(number), int(number) + bool(pair)}
        if instruction.opcode == "STG":  # its last operand is what is stored: as many registers as it is wide
            last = _REGISTER.findall(instruction.rest.rpartition(",")[2])
            named |= (
                {int(last[0][0]) + i for i in range(access_bits(instruction.modifiers) // 32)}
                if last
                else set()
            )
        if instruction.opcode == "LDG":
            address = instruction.rest.partition(",")[2]
            if pending & {int(number) for number, _ in _REGISTER.findall(address)}:
                waits, pending = waits + 1, set()
            target = _REGISTER.match(instruction.rest.strip())
            if target:
                width = max(access_bits(instruction.modifiers) // 32, 1)
                pending |= {int(target[1]) + i for i in range(width)}
        elif pending & named:
            waits, pending = waits + 1, set()
    return waits + bool(pending)


def _exchanges(code: Sequence[Instruction]) -> int:
    """Count the waits for lanes or warps. Shuffles started before the first use of any of them count once."""
    pending: set[str] = set()
    waits = 0
    for instruction in code:
        if instruction.opcode not in EXCHANGES:
            if pending & set(_ANY_REGISTER.findall(instruction.rest)):
                waits, pending = waits + 1, set()
            continue
        if instruction.opcode == "BAR":
            waits, pending = waits + 1, set()
            continue
        # The results come first: of SHFL a predicate and a register, of REDUX a uniform register.
        target, *sources = _ANY_REGISTER.findall(instruction.rest)
        if pending & set(sources):
            waits, pending = waits + 1, set()
        pending.add(target)
    return waits + bool(pending)


_TENSOR_MEMORY_PRODUCT = re.compile(r"tcgen05\.mma\.cta_group::(\d)\S*?kind::(\w+)\S*\s+([^;]*);")
_CONSTANT = re.compile(r"mov\.b32\s+(%r\d+), (-?\d+|0x[0-9a-f]+);")
_DEPTH = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}


def tensor_memory_operations(ptx: str) -> float:
    """Return the mean number of operations of a kernel's tensor memory matmul instructions; 0 if it has none.

    SASS does not contain the shape; the PTX instruction descriptor does. It has columns in eighths from bit
    17, and rows in sixteenths from bit 24 (PTX ISA, "Instruction descriptor").
    """
    constants = {register: int(value, 0) for register, value in _CONSTANT.findall(ptx)}
    counts = []
    for group, kind, operands in _TENSOR_MEMORY_PRODUCT.findall(ptx):
        named = [constants[register] for register in re.findall(r"%r\d+", operands) if register in constants]
        described = next((value for value in reversed(named) if value >> 24), None)
        if described is not None:
            rows, columns = (described >> 24 & 0x1F) * 16, (described >> 17 & 0x3F) * 8
            counts.append(2.0 * rows * columns * _DEPTH.get(kind, 16) / int(group))
    return sum(counts) / len(counts) if counts else 0.0


def with_tensor_memory(schedule: Schedule, operations: float, threads: int) -> Schedule:
    """Add the operations of matrix instructions that one warp issues for all threads of a block.

    `operations` is the number per instruction (`tensor_memory_operations`).
    """
    if operations and schedule.matrix.startswith("UTC"):
        schedule.matrix_operations *= operations * WARP_SIZE / threads
    return schedule
