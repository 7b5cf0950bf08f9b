"""Properties of a compiled kernel: registers, local memory, widths of accesses, matrix instructions.

SASS and resource usage come from the disassembler in Triton's wheel. PTX shows which operand an access
belongs to, since its addresses can be traced back to the kernel's parameters.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .combined_cubin import codes, combine, target_of

MATRIX = (
    "HMMA",
    "IMMA",
    "DMMA",
    "QMMA",
    "OMMA",
    "HGMMA",
    "IGMMA",
    "QGMMA",
    "UTCHMMA",
    "UTCIMMA",
    "UTCOMMA",
    "UTCQMMA",
)
"""Opcodes of tensor core instructions in SASS."""
ACCESSES = ("LDG", "STG", "LDGSTS", "UTMALDG", "UTMASTG")
"""Loads, stores, copies to shared memory, and those by tensor maps."""
SPILLS = ("LDL", "STL")
WIDEST = 128

_INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)", re.M
)
_RESOURCE = re.compile(r"\b(REG|STACK|LOCAL|SHARED):(\d+)")


@dataclass(frozen=True)
class Operand:
    """Accesses through one pointer parameter: how many of each width in bits."""

    loads: dict[int, int] = field(default_factory=dict)
    stores: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Instructions:
    """A kernel's SASS, counted: opcodes as a whole, and global accesses by opcode and width in bits."""

    opcodes: dict[str, int]
    widths: dict[str, dict[int, int]]

    @property
    def spills(self) -> int:
        """Loads and stores of local memory."""
        return sum(self.opcodes.get(name, 0) for name in SPILLS)

    @property
    def matrix(self) -> dict[str, int]:
        """Instructions of tensor cores."""
        return {name: self.opcodes[name] for name in MATRIX if name in self.opcodes}

    @property
    def traps(self) -> int:
        """Instructions that end the program with an error."""
        return self.opcodes.get("BPT.TRAP", 0)


def count_instructions(sass: str) -> Instructions:
    """Count the instructions of a disassembly."""
    opcodes: Counter[str] = Counter()
    widths: dict[str, Counter[int]] = {}
    for name in _INSTRUCTION.findall(sass):
        opcode, *modifiers = name.split(".")
        opcodes["BPT.TRAP" if name.startswith("BPT.TRAP") else opcode] += 1
        if opcode in ACCESSES:
            widths.setdefault(opcode, Counter())[access_bits(modifiers)] += 1
    return Instructions(dict(opcodes), {name: dict(counts) for name, counts in widths.items()})


def access_bits(modifiers: Sequence[str]) -> int:
    """Return the width of a load or store from an opcode's modifiers; 32 by default."""
    for modifier in modifiers:
        if modifier in ("U8", "S8", "U16", "S16"):
            return int(modifier[1:])
        if modifier in ("64", "128", "256"):
            return int(modifier)
    return 32


def resources(usage: str) -> dict[str, int]:
    """Return REG, STACK, LOCAL and SHARED of a kernel, as ``cuobjdump -res-usage`` prints them.

    Raises:
        ValueError: if there is not exactly one kernel, or it says nothing of registers.
    """
    kernels = re.findall(r"Function .*?:\n(.*)", usage)
    if len(kernels) != 1:
        raise ValueError(f"cuobjdump -res-usage: expected one kernel, got {len(kernels)} in {usage!r}")
    usage_of_resources = {name: int(value) for name, value in _RESOURCE.findall(kernels[0])}
    if "REG" not in usage_of_resources:
        raise ValueError(f"cuobjdump -res-usage: no registers in {usage!r}")
    return usage_of_resources


def disassemble(cubin: bytes, tools: Path) -> tuple[str, str]:
    """(SASS, resource usage) of a cubin, by the ``nvdisasm`` and ``cuobjdump`` of a folder.

    Raises:
        subprocess.CalledProcessError: if a tool fails.
    """
    return disassemble_code(cubin, tools), usage_of(cubin, tools)


def disassemble_code(cubin: bytes, tools: Path) -> str:
    """Return the SASS of a cubin. Raise subprocess.CalledProcessError if ``nvdisasm`` fails."""
    # -ndf: the analysis of data flow takes half of the time, and nothing here needs it.
    return _printed([str(tools / "nvdisasm"), "-c", "-ndf"], cubin)


def usage_of(cubin: bytes, tools: Path) -> str:
    """Return the resource usage of a cubin. Raise subprocess.CalledProcessError if ``cuobjdump`` fails."""
    return _printed([str(tools / "cuobjdump"), "-res-usage"], cubin)


def _printed(command: Sequence[str], cubin: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([*command, file.name], capture_output=True, text=True, check=True).stdout


def disassemble_together(cubins: Sequence[bytes], tools: Path) -> list[str]:
    """Disassemble many cubins in few runs of ``nvdisasm``, whose start takes a quarter of a second.

    Raises:
        subprocess.CalledProcessError: if it fails for one of them.
    """
    alike: dict[tuple[int, ...], list[int]] = {}
    for i, cubin in enumerate(cubins):
        alike.setdefault(target_of(cubin), []).append(i)
    texts = [""] * len(cubins)
    for positions in alike.values():
        text = disassemble_code(combine([cubins[i] for i in positions]), tools)
        for position, sass in codes(text):
            texts[positions[position]] += sass
    return texts


_PARAMETER = re.compile(r"ld\.param\.[bu]64\s+(%\w+), \[\w+_param_(\d+)\]")
_ADDRESS = re.compile(r"(?:ld|st|red|atom)\.global\S*|cp\.async\.c[ag]\.shared\S*")
_REGISTER = re.compile(r"%rd\d+")
_STATEMENT = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)\s+(.*?);", re.M)


def operands_of(ptx: str, names: Sequence[str | None]) -> dict[str, Operand]:
    """Return the global accesses by the pointer parameter that their addresses come from.

    Args:
        ptx: the kernel.
        names: the pointers' names by the position of the parameter; None for one that is no pointer.

    An address that follows from several pointers counts for each of them, one from none for nothing.
    """
    ptx = entry_of(ptx)
    statements = _STATEMENT.findall(ptx)
    origins = _origins(ptx, statements, names)
    operands = {name: Operand() for name in names if name is not None}
    for operation, rest in statements:
        if not _ADDRESS.match(operation):
            continue
        is_copy = operation.startswith("cp.async")
        brackets = re.findall(r"\[([^\]]*)\]", rest)
        address = brackets[1 if is_copy else 0]
        bits = _bits(operation, rest, is_copy)
        for register in _REGISTER.findall(address):
            for name in origins.get(register, ()):
                counts = operands[name].loads if operation.startswith(("ld", "cp")) else operands[name].stores
                counts[bits] = counts.get(bits, 0) + 1
    return operands


def entry_of(ptx: str) -> str:
    """Extract the kernel itself: other functions, such as libdevice's, use the same register names.

    Example:
        >>> from triten.perf.ahead_of_time.disassembly import entry_of
        >>> entry_of(".func helper() { }\\n.visible .entry k() { ret; }\\n.func other() { }")
        '.entry k() { ret; }'
    """
    start = ptx.find(".entry")
    if start < 0:
        return ptx
    # Braces do not tell the end: assembly that a kernel has inline has braces of its own.
    end = ptx.find("\n.func", start)
    return ptx[start:] if end < 0 else ptx[start:end]


def _bits(operation: str, rest: str, is_copy: bool) -> int:
    if is_copy:
        size = re.search(r"\],\s*(0x[0-9a-f]+|\d+)", rest.partition("]")[2])
        assert size is not None, rest
        return 8 * int(size.group(1), 0)
    parts = operation.split(".")
    lanes = next((int(part[1:]) for part in parts if re.fullmatch(r"v\d", part)), 1)
    return lanes * next(int(part[1:]) for part in reversed(parts) if re.fullmatch(r"[bufs]\d+", part))


def _origins(
    ptx: str, statements: Sequence[tuple[str, str]], names: Sequence[str | None]
) -> dict[str, frozenset[str]]:
    """Map each 64-bit register to the pointers that it is computed from; a loaded value has none."""
    origins: dict[str, frozenset[str]] = {}
    for register, position in _PARAMETER.findall(ptx):
        name = names[int(position)] if int(position) < len(names) else None
        if name is not None:
            origins[register] = frozenset((name,))
    edges: list[tuple[str, list[str]]] = []
    for operation, rest in statements:
        if operation.startswith(("ld.", "st.", "atom.", "red.", "cp.", "bra", "setp")):
            continue
        target, *sources = _REGISTER.findall(rest) or [""]
        if sources and rest.startswith(target):
            edges.append((target, sources))
    changed = True
    while changed:
        changed = False
        for target, sources in edges:
            joined = frozenset().union(origins.get(target, ()), *(origins.get(s, ()) for s in sources))
            if joined and joined != origins.get(target):
                origins[target] = joined
                changed = True
    return origins


def tensor_memory_columns(ptx: str) -> int:
    """Columns of tensor memory that a kernel allocates, all its allocations together."""
    return sum(int(n) for n in re.findall(r"tcgen05\.alloc\.\S+\s+\[[^\]]*\],\s*(\d+)", ptx))


def threads_of(ptx: str) -> int:
    """Return the threads of a block that the kernel requires (`.reqntid`). Raise ValueError if it states none."""
    match = re.search(r"^\s*\.reqntid\s+(\d+)", ptx, re.M)
    if match is None:
        raise ValueError("the PTX names no number of threads (.reqntid)")
    return int(match.group(1))
