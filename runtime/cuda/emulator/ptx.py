"""PTX parser: functions, their registers and parameters, and one `Instruction` for each statement.

It understands the output of LLVM's NVPTX back end, and the inline assembly that Triton inserts. `instructions` gives
an instruction its meaning. Source: NVIDIA, PTX ISA 8.8, "Syntax" and "State Spaces, Types, and Variables".
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

WIDTHS = {"pred": 1, "8": 8, "16": 16, "32": 32, "64": 64, "128": 128}


class PTXSyntaxError(RuntimeError):
    """Error: the text is not PTX that this parser understands."""


class Register(NamedTuple):
    """Register by name; inside a scope in braces, the name is prefixed with the scope's number."""

    name: str


class Special(NamedTuple):
    """Special register, without the percent sign: ``tid.x``."""

    name: str


class Immediate(NamedTuple):
    """Constant: an integer, or the bits of a float of `width` bits (0 for an integer, which has no width)."""

    value: int
    width: int = 0


class Symbol(NamedTuple):
    """Name of a variable or a function."""

    name: str


class Vector(NamedTuple):
    """Operands in braces or parentheses."""

    items: tuple[Operand, ...]


class Pair(NamedTuple):
    """Two destinations separated by a bar; None stands for the sink, ``_``."""

    first: Operand | None
    second: Operand | None


class Address(NamedTuple):
    """Operand in brackets: a base, an offset in bytes, and coordinates if the base is a tensor map."""

    base: Operand
    offset: int = 0
    coordinates: Vector | None = None


class Not(NamedTuple):
    """Predicate with an exclamation mark."""

    operand: Operand


Operand = Register | Special | Immediate | Symbol | Vector | Pair | Address | Not


class SourceLine(NamedTuple):
    """Line of a kernel's Python source, and the calling line if the compiler inlined the call."""

    file: int
    line: int
    caller: SourceLine | None = None


class Instruction(NamedTuple):
    """Statement of PTX.

    Args:
        opcode: Name up to the first dot. `modifiers` are the rest: ``add``, ``("rn", "f32")``.
        guard: Predicate of the instruction, and whether it is negated.
        line: Line in the PTX text, from 1 on.
        source: Line of Python that it was compiled from.
    """

    opcode: str
    modifiers: tuple[str, ...]
    guard: tuple[Register, bool] | None
    operands: tuple[Operand, ...]
    line: int
    source: SourceLine | None

    @property
    def name(self) -> str:
        """Name as written: ``add.rn.f32``."""
        return ".".join((self.opcode, *self.modifiers))


class Parameter(NamedTuple):
    """Parameter of a function, with its offset in bytes among all of them, and its alignment."""

    name: str
    offset: int
    size: int
    alignment: int = 1


@dataclass
class Function:
    """Kernel, or a function that kernels call.

    `threads` and `cluster` are the block size and the blocks of a cluster that the code requires, 0 for any.
    `registers` has the width in bits of each register (1 for a predicate), `local` the bytes of local memory per
    thread and the offsets of its variables. `labels` maps a label to the index of the next instruction.
    """

    name: str
    is_kernel: bool
    parameters: list[Parameter]
    results: list[Parameter]
    max_registers: int = 0
    threads: int = 0
    cluster: int = 0
    registers: dict[str, int] = field(default_factory=dict)
    local: int = 0
    locals: dict[str, int] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def bytes_of_parameters(self) -> int:
        """Return the total size of the parameters in bytes."""
        last = self.parameters[-1] if self.parameters else Parameter("", 0, 0)
        return last.offset + last.size


class Variable(NamedTuple):
    """Variable of a module in global memory."""

    alignment: int
    data: bytes


@dataclass
class Module:
    """PTX module: its functions and variables; `shared` has the addresses of variables in shared memory."""

    target: str = ""
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    shared_size: int = 0
    files: dict[int, str] = field(default_factory=dict)

    def kernel(self, name: str) -> Function:
        """Return a kernel by name. Raise KeyError if there is none."""
        function = self.functions[name]
        if not function.is_kernel:
            raise KeyError(name)
        return function


_COMMENT = re.compile(r"//[^\n]*")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)(?:\s+\.ptr)?(?:\s+\.\w+)*?(?:\s+\.align\s+\d+)?\s+([\w$]+)(?:\[(\d+)\])?"
)
_GLOBAL = re.compile(
    r"^(?:\.visible\s+|\.extern\s+|\.weak\s+)*\.(global|const)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?\s*"
    r"(?:=\s*(\{[^}]*\}|[^;]+))?;",
    re.M,
)
_SHARED = re.compile(
    r"^(?:\.visible\s+|\.extern\s+)*\.shared\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?;", re.M
)
_FUNCTION = re.compile(r"^(?:\.visible\s+|\.weak\s+|\.extern\s+)*\.(entry|func)\b", re.M)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+\d+(?:[^\n]*inlined_at\s+(\d+)\s+(\d+))?[^\n]*")
_REG = re.compile(r"\.reg\s+\.(\w+)\s+([^;]*);")
_LOCAL = re.compile(r"\.local\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?\s*;")
_SKIPPED = re.compile(r"\.(?:pragma|param|branchtargets|callprototype)\b[^;]*;|\.(?:section|file)\b[^\n]*")
_USED = re.compile(r'\.pragma\s+"used_bytes_mask\s+(\w+)"\s*;')
_TARGETS = re.compile(r"([$\w]+):\s*\.branchtargets\b([^;]*);")
_LABEL = re.compile(r"([$\w]+):(?!:)")
_DELIMITER = re.compile(r"[{}()\[\],]")
_GUARD = re.compile(r"@(!?)([%\w]+)\s+")
_OPCODE = re.compile(r"[a-z][\w.:]*")
_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)U?$")
_DECIMAL = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?$")


def bytes_of(type_name: str) -> int:
    """Return the size in bytes of a type such as ``b32``.

    Example:
        >>> bytes_of("f64")
        8
    """
    return WIDTHS[type_name.lstrip("bsuf")] // 8


def parse(text: str) -> Module:
    """Parse a module.

    Raises:
        PTXSyntaxError: for a statement that is not understood; the message has its line.

    Example:
        >>> text = '''.version 8.8
        ... .target sm_80
        ... .visible .entry nothing(
        ...     .param .u64 nothing_param_0
        ... )
        ... {
        ...     .reg .b32 %r<3>;
        ...     mov.u32 %r1, %tid.x;
        ...     add.s32 %r2, %r1, -1;
        ...     ret;
        ... }
        ... '''
        >>> kernel = parse(text).kernel("nothing")
        >>> [instruction.name for instruction in kernel.instructions], kernel.registers["%r2"]
        (['mov.u32', 'add.s32', 'ret'], 32)
        >>> kernel.instructions[1].operands
        (Register(name='%r2'), Register(name='%r1'), Immediate(value=-1, width=0))
    """
    module = Module()
    module.files = {int(number): path for number, path in _FILE.findall(text)}
    text = _COMMENT.sub("", text)
    target = re.search(r"^\.target\s+(\w+)", text, re.M)
    module.target = target[1] if target else ""
    _read_variables(module, text)
    position = 0
    while match := _FUNCTION.search(text, position):
        position = _read_function(module, text, match)
    return module


def _read_variables(module: Module, text: str) -> None:
    for _, alignment, type_name, name, count, data in _GLOBAL.findall(text):
        size = bytes_of(type_name)
        items = [int(item, 0) for item in data.strip("{} \n").split(",") if item.strip()] if data else []
        content = b"".join((item % (1 << 8 * size)).to_bytes(size, "little") for item in items)
        module.variables[name] = Variable(
            int(alignment or size), content.ljust((int(count) if count else 1) * size, b"\0")
        )
    for alignment, type_name, name, count in _SHARED.findall(text):
        begin = module.shared_size + -module.shared_size % int(alignment or 1)
        module.shared[name] = begin
        module.shared_size = begin + bytes_of(type_name) * int(count or 0)


def _read_function(module: Module, text: str, match: re.Match[str]) -> int:
    """Parse one function, or skip a declaration; return the position after it."""
    brace, semicolon = text.find("{", match.end()), text.find(";", match.end())
    if brace < 0 or 0 <= semicolon < brace:
        return semicolon + 1
    head = text[match.end() : brace]
    is_kernel = match[1] == "entry"
    results: list[Parameter] = []
    if not is_kernel and head.lstrip().startswith("("):
        inside, head = head.lstrip()[1:].split(")", 1)
        results = _parameters(inside)
    named = re.match(r"\s*([\w$]+)\s*(?:\(([^)]*)\))?", head)
    if named is None:
        raise PTXSyntaxError(f"PTX line {_line(text, match.start())}: a function without a name")
    function = Function(named[1], is_kernel, _parameters(named[2] or ""), results)
    for directive, value in re.findall(r"\.(maxnreg|reqntid|maxntid|reqnctapercluster)\s+([\d, ]+)", head):
        first = int(value.split(",")[0])
        if directive == "maxnreg":
            function.max_registers = first
        elif directive == "reqnctapercluster":
            function.cluster = first
        else:
            function.threads = first
    module.functions[function.name] = function
    return _Body(function, text, brace + 1).read()


def _parameters(text: str) -> list[Parameter]:
    parameters, end = [], 0
    for alignment, type_name, name, count in _PARAMETER.findall(text):
        size = bytes_of(type_name)
        multiple = int(alignment or size)
        begin = end + -end % multiple
        end = begin + size * int(count or 1)
        parameters.append(Parameter(name, begin, end - begin, multiple))
    return parameters


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


class _Body:
    """Parser of one function's statements."""

    def __init__(self, function: Function, text: str, position: int) -> None:
        self.function, self.text, self.at = function, text, position
        self.line, self.counted = _line(text, position), position
        self.scopes: list[tuple[int, set[str]]] = []
        self.began: list[int] = []
        """First instruction of each scope."""
        self.numbered = 0
        self.targets: dict[str, list[str]] = {}
        """Labels of each branch table."""
        self.operands: dict[str, Operand] = {}
        """Parsed operands outside of scopes, by text."""
        self.used: int | None = None
        """Mask of the used bytes of the next load, if the compiler loads more than it needs."""

    def read(self) -> int:
        """Parse the function and return the position after it."""
        function, text = self.function, self.text
        source: SourceLine | None = None
        while True:
            while text[self.at].isspace() or text[self.at] == ";":
                self.at += 1
            character = text[self.at]
            if character == "{":
                self.numbered += 1
                self.scopes.append((self.numbered, set()))
                self.began.append(len(function.instructions))
                self.at += 1
            elif character == "}":
                self.at += 1
                if not self.scopes:
                    return self.at
                self._close(self.scopes.pop()[0], self.began.pop())
            elif character == ".":
                if match := _LOC.match(text, self.at):
                    caller = SourceLine(int(match[3]), int(match[4])) if match[3] else None
                    source = SourceLine(int(match[1]), int(match[2]), caller)
                elif match := _REG.match(text, self.at):
                    self._declare(match[1], match[2])
                elif match := _LOCAL.match(text, self.at):
                    begin = function.local + -function.local % int(match[1] or 1)
                    function.locals[match[3]] = begin
                    function.local = begin + bytes_of(match[2]) * int(match[4] or 1)
                elif match := _USED.match(text, self.at):
                    self.used = int(match[1], 0)
                elif not (match := _SKIPPED.match(text, self.at)):
                    raise self._unknown()
                self.at = match.end()
            elif match := _TARGETS.match(text, self.at):
                self.targets[match[1]] = [name.strip() for name in match[2].split(",")]
                self.at = match.end()
            elif match := _LABEL.match(text, self.at):
                name = f"{self.scopes[-1][0]}:{match[1]}" if self.scopes else match[1]
                function.labels[name] = len(function.instructions)
                self.at = match.end()
            else:
                self._statement(source)

    def _close(self, number: int, first: int) -> None:
        """Close a scope: resolve its branches to its own labels, whose names other scopes may share."""
        instructions, labels = self.function.instructions, self.function.labels
        for i in range(first, len(instructions)):
            each = instructions[i]
            if each.opcode == "bra" and isinstance(each.operands[0], Symbol):
                own = f"{number}:{each.operands[0].name}"
                if own in labels:
                    instructions[i] = each._replace(operands=(Symbol(own),))

    def _unknown(self) -> PTXSyntaxError:
        end = self.text.find("\n", self.at)
        return PTXSyntaxError(f"PTX line {self._line()}: not understood: {self.text[self.at : end]!r}")

    def _line(self) -> int:
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line

    def _declare(self, type_name: str, names: str) -> None:
        width = 1 if type_name == "pred" else 8 * bytes_of(type_name)
        for name in (part.strip() for part in names.split(",")):
            range_match = re.fullmatch(r"(%?\w+)<(\d+)>", name)
            for each in (
                [f"{range_match[1]}{i}" for i in range(int(range_match[2]))] if range_match else [name]
            ):
                if self.scopes:
                    number, own = self.scopes[-1]
                    own.add(each)
                    self.function.registers[f"{number}:{each}"] = width
                else:
                    self.function.registers[each] = width

    def _statement(self, source: SourceLine | None) -> None:
        text, line = self.text, self._line()
        end = text.index(";", self.at)
        statement = text[self.at : end]
        guard = None
        if guarded := _GUARD.match(statement):
            register = self._operand(guarded[2])
            assert isinstance(register, Register)
            guard = register, bool(guarded[1])
            statement = statement[guarded.end() :]
        opcode = _OPCODE.match(statement)
        if opcode is None:
            raise self._unknown()
        head, *modifiers = opcode[0].split(".")
        operands = tuple(self._operand(part) for part in _parts(statement[opcode.end() :]))
        instruction = Instruction(head, tuple(modifiers), guard, operands, line, source)
        if head == "brx":
            self._choose(operands, line, source)
        elif head == "ld" and self.used is not None:
            self._load_used(instruction)
        else:
            self.function.instructions.append(instruction)
        self.used = None
        self.at = end + 1

    def _load_used(self, whole: Instruction) -> None:
        """Split a vector load into loads of the used elements: the others may lie outside of memory."""
        targets, address = whole.operands
        assert self.used is not None and isinstance(targets, Vector) and isinstance(address, Address)
        modifiers = tuple(m for m in whole.modifiers if not re.fullmatch(r"v\d", m))
        nbytes = bytes_of(modifiers[-1])
        for i, element in enumerate(targets.items):
            if self.used >> i * nbytes & (1 << nbytes) - 1:
                element_address = address._replace(offset=address.offset + i * nbytes)
                self.function.instructions.append(
                    whole._replace(modifiers=modifiers, operands=(element, element_address))
                )

    def _choose(self, operands: tuple[Operand, ...], line: int, source: SourceLine | None) -> None:
        """Lower a table branch (``brx.idx``) to a comparison and a branch for each label, and a trap."""
        index, table = operands
        assert isinstance(table, Symbol)
        taken = Register("%brx")
        self.function.registers[taken.name] = 1
        add = self.function.instructions.append
        for i, label in enumerate(self.targets[table.name]):
            add(Instruction("setp", ("eq", "u32"), None, (taken, index, Immediate(i)), line, source))
            add(Instruction("bra", (), (taken, False), (Symbol(label),), line, source))
        add(Instruction("trap", (), None, (), line, source))

    def _operand(self, text: str) -> Operand:
        if self.scopes:
            return self._read_operand(text)
        operand = self.operands.get(text)
        if operand is None:
            operand = self.operands[text] = self._read_operand(text)
        return operand

    def _read_operand(self, text: str) -> Operand:
        first = text[0]
        if first in "{(":
            return Vector(tuple(self._operand(part) for part in _parts(text[1:-1])))
        if first == "[":
            return self._address(text[1:-1])
        if first == "!":
            return Not(self._operand(text[1:].strip()))
        if "|" in text:
            parts = [part.strip() for part in text.split("|")]
            return Pair(*(None if part == "_" else self._operand(part) for part in parts))
        for number, own in reversed(self.scopes):
            if text in own:
                return Register(f"{number}:{text}")
        if text in self.function.registers:
            return Register(text)
        if first == "%":
            return Special(text[1:])
        if text[:2] in ("0f", "0F", "0d", "0D"):
            return Immediate(int(text[2:], 16), 32 if text[1] in "fF" else 64)
        if _INTEGER.match(text):
            return Immediate(int(text.rstrip("U"), 0))
        if _DECIMAL.match(text):
            return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), 64)
        if text in ("true", "false"):
            return Immediate(int(text == "true"))
        if re.fullmatch(r"[\w$]+", text):
            return Symbol(text)
        raise PTXSyntaxError(f"PTX line {self.line}: operand {text!r} is not understood")

    def _address(self, text: str) -> Address:
        base, *coordinates = _parts(text)
        match = re.fullmatch(r"([^+]+?)\s*(?:\+\s*(-?\w+))?", base.strip())
        if match is None:
            raise PTXSyntaxError(f"PTX line {self.line}: address {text!r} is not understood")
        tail = self._operand(coordinates[0]) if coordinates else None
        assert tail is None or isinstance(tail, Vector)
        return Address(self._operand(match[1].strip()), int(match[2] or "0", 0), tail)


@lru_cache(maxsize=1 << 14)
def _parts(text: str) -> tuple[str, ...]:
    """Split operands at commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for match in _DELIMITER.finditer(text):
        character = match[0]
        if character in "{[(":
            depth += 1
        elif character in "}])":
            depth -= 1
        elif not depth:
            parts.append(text[begin : match.start()].strip())
            begin = match.end()
    last = text[begin:].strip()
    return (*parts, last) if last else tuple(parts)
