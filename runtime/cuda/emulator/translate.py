"""PTX instructions as Python statements over NumPy arrays: a basic block becomes a function.

A register is an entry of the list ``R``: an array with an element for each thread of the blocks that run together, or
a NumPy scalar where all threads have the same. Entries are unsigned whatever an instruction takes them for. ``M`` is
the mask of the threads that run, None for all; every statement has a form for either, so that threads which go
together pay nothing for those that might not. ``s`` is the state (`machine.Blocks`), ``F`` the frame of the function.

An instruction is a line of one of the tables below, or a function under `emits` where its operands decide more. The
line of the generated text on which a statement stands leads back to its instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np

from . import arithmetic
from .ptx import (
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Not,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)
from .warp_group import merged

Array = np.ndarray[Any, Any]

BRANCHES = ("bra", "ret", "exit", "bar", "barrier", "mbarrier", "setmaxnreg")
"""Where a basic block ends: what follows may be for other threads, or later."""
PARAMETERS = 1 << 56
"""Where generic addresses of a kernel's parameters begin."""


class UntranslatableError(NotImplementedError):
    """An instruction, or a form of it, that is not emulated."""


@dataclass
class End:
    """How a basic block ends.

    `kind` is ``next``, ``bra``, ``ret``, ``bar`` or ``wait``; `target` is the index of the block that is branched to,
    `guard` the register of the predicate, with `negated`. `barrier` has the number of a barrier and how many threads it
    is for, None for all; `result` is the register in which a wait says whether it was successful, and `registers` how
    many a warp waits for.
    """

    kind: str
    target: int = -1
    guard: int = -1
    negated: bool = False
    instruction: Instruction | None = None
    barrier: tuple[Any, Any] = (0, None)
    result: int = -1
    registers: int = 0


@dataclass
class BasicBlock:
    """Instructions that run one after the other, and the index of the block behind them."""

    index: int
    instructions: list[Instruction]
    end: End
    next: int = -1
    _forms: dict[bool, tuple[Callable[..., None], list[Instruction | None]]] = field(default_factory=dict)


def in_order(blocks: list[BasicBlock]) -> list[BasicBlock]:
    """The blocks of a function in an order in which joins come behind what they join, and exits behind their loop.

    Threads that went apart then meet at the earliest place where they can: compilers put blocks anywhere. An edge
    that leads backwards is one to the head of a loop (Collange, "Stack-less SIMT reconvergence at low cost", 2011).
    """
    count = len(blocks)
    leads: list[list[int]] = []
    for block in blocks:
        end = block.end
        to = [end.target] if end.kind == "bra" else []
        if end.kind in ("next", "bar", "wait") or end.guard >= 0:
            to.append(block.index + 1)
        leads.append([each for each in to if each < count])
    order = _ordered(list(range(count)), 0, leads) if count else []
    place = {old: new for new, old in enumerate(order)}
    place[count] = count
    for block in blocks:
        block.next = place.get(block.index + 1, count)
        if block.end.kind == "bra":
            block.end.target = place[block.end.target]
    found = [blocks[old] for old in order]
    for new, block in enumerate(found):
        block.index = new
    return found


def _ordered(nodes: list[int], head: int, leads: list[list[int]]) -> list[int]:
    """The nodes that can be reached from `head`, loops as wholes."""
    inside = set(nodes)
    parts = _components(head, lambda node: [to for to in leads[node] if to in inside])
    order: list[int] = []
    for part in parts:
        if len(part) == 1:
            order += part
            continue
        members = set(part)
        # The head of a loop is where it is entered.
        entered = [to for node in order for to in leads[node] if to in members]
        first = head if head in members else (entered or part)[0]
        without = [[to for to in each if to != first] for each in leads]
        order += _ordered(part, first, without)
    return order


def _components(head: int, leads: Callable[[int], list[int]]) -> list[list[int]]:
    """The strongly connected parts that `head` reaches, those that lead to others first (Tarjan, 1972)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    work = [(head, iter(leads(head)))]
    number[head] = low[head] = 0
    stack.append(head)
    on_stack.add(head)
    while work:
        node, following = work[-1]
        for to in following:
            if to not in number:
                number[to] = low[to] = len(number)
                stack.append(to)
                on_stack.add(to)
                work.append((to, iter(leads(to))))
                break
            if to in on_stack:
                low[node] = min(low[node], number[to])
        else:
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == number[node]:
                at = stack.index(node)
                part, stack = stack[at:], stack[:at]
                on_stack.difference_update(part)
                found.append(part)
    return found[::-1]


class Translation:
    """A function of a module, ready to run: basic blocks, compiled when they are first reached.

    Raises:
        UntranslatableError: for what is not emulated; its message has the line of the PTX text.
    """

    def __init__(self, module: Module, function: Function, addresses: dict[str, int]) -> None:
        self.module = module
        self.function = function
        self.addresses = addresses
        self.places = {name: i for i, name in enumerate(function.registers)}
        self.widths = list(function.registers.values())
        self.constants: dict[str, Any] = dict(_NAMES)
        self._known: dict[tuple[int, int], str] = {}
        self.parameters = {p.name: p.offset for p in function.parameters}
        self.flies = any(each.opcode == "wgmma" for each in function.instructions)
        """Whether registers may be in flight (`warp_group.InFlight`)."""
        self.blocks = in_order(self._split())
        self.sources: dict[str, list[Instruction | None]] = {}
        """The instruction of each line of the generated text, by the text's file name."""

    def _split(self) -> list[BasicBlock]:
        function = self.function
        code, labels = function.instructions, function.labels
        starts = {0, *labels.values()}
        starts |= {i + 1 for i, each in enumerate(code) if each.opcode in BRANCHES and _ends(each)}
        ordered = sorted(start for start in starts if start < len(code))
        number = {start: i for i, start in enumerate(ordered)}
        blocks = []
        for i, start in enumerate(ordered):
            stop = ordered[i + 1] if i + 1 < len(ordered) else len(code)
            body = code[start:stop]
            end = End("next" if i + 1 < len(ordered) else "ret")
            if body and body[-1].opcode in BRANCHES and _ends(body[-1]):
                last, body = body[-1], body[:-1]
                end = self._end(last, number, labels, len(ordered))
            blocks.append(BasicBlock(i, body, end))
        return blocks

    def _end(self, last: Instruction, number: dict[int, int], labels: dict[str, int], count: int) -> End:
        end = End(last.opcode, instruction=last)
        if last.opcode == "exit":
            end.kind = "ret"
        if last.opcode == "bra":
            target = last.operands[0]
            assert isinstance(target, Symbol)
            # A label behind the last instruction is the end of the function.
            end.target = number.get(labels[target.name], count)
        if last.opcode in ("bar", "barrier"):
            if last.modifiers[0] not in ("sync", "arrive"):
                raise UntranslatableError(f"PTX line {last.line}: '{last.name}' is not emulated")
            end.kind = "bar"
            which, *threads = last.operands
            end.barrier = (self._plain(which), self._plain(threads[0]) if threads else None)
        if last.opcode == "mbarrier":
            end.kind = "wait"
            end.result = self.places[last.operands[0].name]  # type: ignore[union-attr]
        if last.opcode == "setmaxnreg":
            end.kind, end.registers = "wait", self._plain(last.operands[0])
        if last.guard is not None:
            end.guard, end.negated = self.places[last.guard[0].name], last.guard[1]
        return end

    def _plain(self, operand: Operand) -> Any:
        if isinstance(operand, Immediate):
            return operand.value
        assert isinstance(operand, Register)
        return ("register", self.places[operand.name])

    def run_block(self, block: BasicBlock, state: Any, registers: list[Any], mask: Any, frame: Any) -> None:
        """Run the instructions of a block, all but the branch at its end."""
        form = block._forms.get(mask is None)
        if form is None:
            form = block._forms[mask is None] = self._compile(block, mask is None)
        form[0](state, registers, mask, frame)

    def _compile(
        self, block: BasicBlock, whole: bool
    ) -> tuple[Callable[..., None], list[Instruction | None]]:
        name = f"<{self.function.name} block {block.index}{'' if whole else ' masked'}>"
        writer = Writer(self, whole)
        for instruction in block.instructions:
            writer.write(instruction)
        if block.end.kind == "wait" and not block.end.registers:
            assert block.end.instruction is not None
            writer.write(block.end.instruction._replace(opcode="mbarrier.wait", guard=None))
        text = "def block(s, R, M, F):\n" + "".join(f"    {line}\n" for line in writer.lines or ["pass"])
        code: CodeType = compile(text, name, "exec")
        exec(code, self.constants)
        self.sources[name] = [None, None, *writer.instructions]
        return self.constants.pop("block"), self.sources[name]

    def constant(self, value: Any) -> str:
        """A name in the generated code for a NumPy scalar."""
        key = (value.dtype.num, int(value.view(f"u{value.dtype.itemsize}")))
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = f"K{len(self._known)}"
            self.constants[name] = value
        return name


def _ends(instruction: Instruction) -> bool:
    if instruction.opcode == "mbarrier":
        return instruction.modifiers[0] in ("try_wait", "test_wait")
    if instruction.opcode == "setmaxnreg":
        return instruction.modifiers[0] == "inc"
    return instruction.opcode not in ("bar", "barrier") or "warp" not in instruction.modifiers


_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": arithmetic.bf2}


def dtype_of(name: str) -> Any:
    """The NumPy type of a type of PTX; bits are unsigned numbers. Raises UntranslatableError.

    Example:
        >>> dtype_of("s32"), dtype_of("b16")
        (<class 'numpy.int32'>, <class 'numpy.uint16'>)
    """
    if name in _FLOATS:
        return _FLOATS[name]
    kind, bits = name[:1], name[1:]
    if name == "pred":
        return np.bool_
    if kind in "bu" and bits.isdigit() and int(bits) in arithmetic.UNSIGNED:
        return arithmetic.UNSIGNED[int(bits)]
    if kind == "s" and bits.isdigit() and int(bits) in arithmetic.SIGNED:
        return arithmetic.SIGNED[int(bits)]
    raise UntranslatableError(f"type {name!r}")


_SHORT: dict[Any, str] = {
    np.bool_: "b1",
    **{dtype: f"u{bits // 8}" for bits, dtype in arithmetic.UNSIGNED.items()},
    **{dtype: f"i{bits // 8}" for bits, dtype in arithmetic.SIGNED.items()},
    np.float16: "f2",
    np.float32: "f4",
    np.float64: "f8",
    arithmetic.bf2: "bf2",
}
_NAMES: dict[str, Any] = {
    **{short: dtype for dtype, short in _SHORT.items()},
    **{name: each for name, each in vars(arithmetic).items() if callable(each) and not name.startswith("_")},
    "where": np.where,
    "merged": merged,
    "np": np,
}


class Writer:
    """Writes the statements of one basic block."""

    def __init__(self, translation: Translation, whole: bool) -> None:
        self.translation = translation
        self.whole = whole
        self.lines: list[str] = []
        self.instructions: list[Instruction | None] = []
        self.instruction: Instruction | None = None
        self.mask: str | None = None if whole else "M"

    def write(self, instruction: Instruction) -> None:
        """Write one instruction."""
        self.instruction = instruction
        self.mask = None if self.whole else "M"
        if instruction.guard is not None:
            register, negated = instruction.guard
            read = f"R[{self.translation.places[register.name]}]"
            self.line(f"m = s.guarded(M, {'~' if negated else ''}{read})")
            self.mask = "m"
        emit = _EMITTERS.get(instruction.opcode)
        if emit is None:
            raise self.unknown()
        try:
            emit(self, instruction)
        except (UntranslatableError, KeyError, IndexError, ValueError, AssertionError) as error:
            raise self.unknown(f"{type(error).__name__}: {error}") from error

    def unknown(self, why: str = "") -> UntranslatableError:
        """The error for an instruction that is not emulated."""
        each = self.instruction
        assert each is not None
        return UntranslatableError(
            f"kernel '{self.translation.function.name}', PTX line {each.line}: '{each.name}' is not emulated {why}"
        )

    def line(self, text: str) -> None:
        """Add a statement."""
        self.lines.append(text)
        self.instructions.append(self.instruction)

    @property
    def masked(self) -> str:
        """The mask as an argument: a name, or None."""
        return self.mask or "None"

    # Operands

    def width(self, operand: Operand) -> int:
        """The bits of a register."""
        assert isinstance(operand, Register)
        return self.translation.function.registers[operand.name]

    def place(self, operand: Operand) -> int:
        """The index of a register in ``R``."""
        assert isinstance(operand, Register)
        return self.translation.places[operand.name]

    def read(self, operand: Operand, dtype: Any) -> str:
        """An expression for an operand as a type."""
        if isinstance(operand, Immediate):
            return self.translation.constant(_constant(operand, dtype))
        if isinstance(operand, Symbol):
            return self.translation.constant(_constant(Immediate(self.symbol(operand)), dtype))
        if isinstance(operand, Special):
            return f"s.special({operand.name!r}).astype({_SHORT[dtype]})"
        if isinstance(operand, Not):
            return f"~{self.read(operand.operand, dtype)}"
        if isinstance(operand, Vector):
            return self.joined(operand, dtype)
        assert isinstance(operand, Register)
        text, have = f"R[{self.place(operand)}]", self.width(operand)
        if dtype is np.bool_ or have == 1:
            if not (dtype is np.bool_ and have == 1):
                raise UntranslatableError("a predicate among numbers")
            return text
        bits = 8 * np.dtype(dtype).itemsize
        if have != bits:
            text = f"{text}.astype(u{bits // 8})"
        return text if np.dtype(dtype).kind == "u" else f"{text}.view({_SHORT[dtype]})"

    def symbol(self, operand: Symbol) -> int:
        """The address of a variable in its own space."""
        translation = self.translation
        parameters = translation.parameters if translation.function.is_kernel else {}
        for places in (
            translation.function.locals,
            translation.module.shared,
            translation.addresses,
            parameters,
        ):
            if operand.name in places:
                return places[operand.name]
        raise UntranslatableError(f"symbol {operand.name!r}")

    def joined(self, vector: Vector, dtype: Any) -> str:
        """Several registers as one wider number, the first in its lowest bits."""
        total = 8 * np.dtype(dtype).itemsize
        each = total // len(vector.items)
        part, whole = arithmetic.UNSIGNED[each], arithmetic.UNSIGNED[total]
        short = _SHORT[whole]
        terms = [
            f"({self.read(item, part)}.astype({short}) << {short}({i * each}))"
            for i, item in enumerate(vector.items)
        ]
        text = " | ".join(terms)
        return f"({text})" if np.dtype(dtype).kind == "u" else f"({text}).view({_SHORT[dtype]})"

    def store(self, operand: Operand | None, text: str, dtype: Any) -> None:
        """Write a result to a register; wider registers are filled with zeros, or a signed number's sign."""
        if operand is None or (isinstance(operand, Special) and operand.name == "_"):
            return
        if isinstance(operand, Symbol) and operand.name == "_":
            return
        if isinstance(operand, Vector):
            return self.split(operand, text, dtype)
        i, have = self.place(operand), self.width(operand)
        kind = np.dtype(dtype)
        if have != 1:
            bits = 8 * kind.itemsize
            if bits != have:
                text = f"({text}).astype({'i' if kind.kind == 'i' else 'u'}{have // 8})"
                if kind.kind == "i":
                    text = f"{text}.view(u{have // 8})"
            elif kind.kind != "u":
                text = f"({text}).view(u{have // 8})"
        if self.mask is None:
            self.line(f"R[{i}] = {text}")
        else:
            call = "merged" if self.translation.flies else "where"
            self.line(f"R[{i}] = {call}({self.mask}, {text}, R[{i}])")
        return None

    def split(self, vector: Vector, text: str, dtype: Any) -> None:
        """Write the parts of a number to several registers."""
        total = 8 * np.dtype(dtype).itemsize
        each = total // len(vector.items)
        short = f"u{total // 8}"
        self.line(f"v = {text}" if np.dtype(dtype).kind == "u" else f"v = ({text}).view({short})")
        for i, item in enumerate(vector.items):
            self.store(item, f"(v >> {short}({i * each})).astype(u{each // 8})", arithmetic.UNSIGNED[each])

    def address(self, operand: Operand) -> str:
        """An expression for an address, 64 bits wide."""
        assert isinstance(operand, Address)
        base = operand.base
        if isinstance(base, Symbol):
            return self.translation.constant(np.uint64(self.symbol(base) + operand.offset))
        if isinstance(base, Immediate):
            return self.translation.constant(np.uint64(base.value + operand.offset))
        text = self.read(base, np.uint64)
        if not operand.offset:
            return text
        if self.width(base) == 32:  # wraps as 32 bits do
            text = self.read(base, np.uint32)
            return f"({text} + {self.translation.constant(np.uint32(operand.offset % 2**32))}).astype(u8)"
        return f"({text} + {self.translation.constant(np.uint64(operand.offset % 2**64))})"


def _constant(operand: Immediate, dtype: Any) -> Any:
    if dtype is np.bool_:
        return np.bool_(operand.value)
    bits = 8 * np.dtype(dtype).itemsize
    value = operand.value
    if operand.width == 64 and bits == 32 and np.dtype(dtype).kind == "f":
        return np.float32(np.uint64(value).view(np.float64))
    if operand.width == 32 and bits == 64 and np.dtype(dtype).kind == "f":
        return np.float64(np.uint32(value).view(np.float32))
    return arithmetic.UNSIGNED[bits](value % (1 << bits)).view(dtype)


Emitter = Callable[[Writer, Instruction], None]
_EMITTERS: dict[str, Emitter] = {}


def emits(*opcodes: str) -> Callable[[Emitter], Emitter]:
    """Register what writes these instructions."""

    def register(emitter: Emitter) -> Emitter:
        for opcode in opcodes:
            _EMITTERS[opcode] = emitter
        return emitter

    return register


def known_opcodes() -> Sequence[str]:
    """The opcodes that are emulated.

    Example:
        >>> "add" in known_opcodes()
        True
    """
    return sorted({*_EMITTERS, *BRANCHES})


def _flush(text: str, instruction: Instruction, dtype: Any) -> str:
    return f"flushed({text})" if "ftz" in instruction.modifiers and dtype is np.float32 else text


def _rounding(instruction: Instruction) -> str:
    return next((m for m in instruction.modifiers if m in ("rn", "rz", "rm", "rp")), "rn")


def _packed(name: str) -> tuple[str, bool]:
    """The type of an element, and whether two of them are packed in a register."""
    return (name[:-2], True) if name.endswith("x2") and name != "b8x2" else (name, False)


_MODIFIERS = {"rn", "rz", "rm", "rp", "ftz", "sat", "lo", "approx", "full"}
_EXTREMES = {"ftz", "NaN", "relu", "xorsign", "abs"}
"""What an instruction may have between its name and its type; anything else would be another instruction."""


def _elementwise(
    writer: Writer, each: Instruction, sources: Sequence[Operand], text: str, dtype: Any
) -> None:
    """A result of one type computed from operands of the same: ``{0}`` and so on in `text` stand for them."""
    known = _EXTREMES if each.opcode in ("min", "max") else _MODIFIERS
    if not known.issuperset(each.modifiers[:-1]):
        raise writer.unknown()
    type_name, packed = _packed(each.modifiers[-1])
    dtype = dtype_of(type_name) if dtype is None else dtype
    if packed and type_name == "f32":
        return _pairs_of_floats(writer, each, sources, text)
    if packed:
        lows, highs = [], []
        for i, operand in enumerate(sources):
            writer.line(f"x{i} = {writer.read(operand, np.uint32)}")
            lows.append(f"(x{i} & u4(65535)).astype(u2).view({_SHORT[dtype]})")
            highs.append(f"(x{i} >> u4(16)).astype(u2).view({_SHORT[dtype]})")
        writer.line(f"low = ({text.format(*lows)}).view(u2).astype(u4)")
        writer.line(f"high = ({text.format(*highs)}).view(u2).astype(u4)")
        writer.store(each.operands[0], "low | (high << u4(16))", np.uint32)
        return
    reads = [_flush(writer.read(operand, dtype), each, dtype) for operand in sources]
    result = _flush(text.format(*reads), each, dtype)
    if "sat" in each.modifiers and np.dtype(dtype).kind not in "iu":
        result = f"saturated({result})"
    writer.store(each.operands[0], result, dtype)


def _pairs_of_floats(writer: Writer, each: Instruction, sources: Sequence[Operand], text: str) -> None:
    """Two floats of 32 bits in each register of 64, as sm_100 adds and multiplies them."""
    reads: tuple[list[str], list[str]] = ([], [])
    for i, operand in enumerate(sources):
        writer.line(f"x{i} = {writer.read(operand, np.uint64)}")
        for part, shift in zip(reads, ("", " >> u8(32)"), strict=True):
            part.append(_flush(f"(x{i}{shift}).astype(u4).view(f4)", each, np.float32))
    for name, part in zip(("low", "high"), reads, strict=True):
        writer.line(f"{name} = ({_flush(text.format(*part), each, np.float32)}).view(u4).astype(u8)")
    writer.store(each.operands[0], "low | (high << u8(32))", np.uint64)


_BITWISE = {
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "not": "~{0}",
    "cnot": "({0} == 0).astype({0}.dtype)",
}


@emits(*_BITWISE)
def _bitwise(writer: Writer, each: Instruction) -> None:
    _elementwise(writer, each, each.operands[1:], _BITWISE[each.opcode], None)


_INTEGER = {"add": "{0} + {1}", "sub": "{0} - {1}", "div": "quotient({0}, {1})", "rem": "remainder({0}, {1})"}
_FLOAT = {
    "add": "add({{0}}, {{1}}, {0!r})",
    "sub": "add({{0}}, -{{1}}, {0!r})",
    "mul": "multiply({{0}}, {{1}}, {0!r})",
    "fma": "fma({{0}}, {{1}}, {{2}}, {0!r})",
    "mad": "fma({{0}}, {{1}}, {{2}}, {0!r})",
}


def _is_float(each: Instruction) -> bool:
    return "f" in each.modifiers[-1]


def _with_narrow(writer: Writer, each: Instruction, text: str) -> None:
    """Floats of 16 bits and, last, one of 32, as sm_100 adds and multiplies them in 32 bits."""
    if not {"rn", "rz", "rm", "rp"}.issuperset(each.modifiers[:-2]):
        raise writer.unknown()
    narrow = dtype_of(each.modifiers[-1])
    *first, last = each.operands[1:]
    reads = [f"{writer.read(operand, narrow)}.astype(f4)" for operand in first]
    writer.store(each.operands[0], text.format(*reads, writer.read(last, np.float32)), np.float32)


@emits("add", "sub", "fma")
def _sums(writer: Writer, each: Instruction) -> None:
    if _is_float(each):
        text = _FLOAT[each.opcode].format(_rounding(each))
        if each.modifiers[-2:-1] == ("f32",):
            return _with_narrow(writer, each, text)
        return _elementwise(writer, each, each.operands[1:], text, None)
    if "cc" in each.modifiers:
        return _carried(writer, each, each.opcode, "np.bool_(False)")
    if "sat" in each.modifiers:
        raise writer.unknown()
    return _elementwise(writer, each, each.operands[1:], _INTEGER[each.opcode], None)


@emits("addc", "subc")
def _sums_with_carry(writer: Writer, each: Instruction) -> None:
    _carried(writer, each, each.opcode[:3], "F.carry")


def _carried(writer: Writer, each: Instruction, operation: str, carry: str) -> None:
    dtype = arithmetic.UNSIGNED[int(each.modifiers[-1][1:])]
    call = "sum_with_carry" if operation == "add" else "difference_with_borrow"
    a, b = (writer.read(operand, dtype) for operand in each.operands[1:])
    writer.line(f"v, c = {call}({a}, {b}, {carry})")
    writer.store(each.operands[0], "v", dtype)
    if "cc" in each.modifiers:
        writer.line("F.carry = c")


@emits("mul", "mad", "madc")
def _products(writer: Writer, each: Instruction) -> None:
    if _is_float(each):
        text = _FLOAT[each.opcode].format(_rounding(each))
        return _elementwise(writer, each, each.operands[1:], text, None)
    dtype = dtype_of(each.modifiers[-1])
    a, b = (writer.read(operand, dtype) for operand in each.operands[1:3])
    if "wide" in each.modifiers:
        product = f"wide_product({a}, {b})"
        dtype = dtype_of(each.modifiers[-1][0] + str(16 * np.dtype(dtype).itemsize))
    else:
        product = f"high_product({a}, {b})" if "hi" in each.modifiers else f"{a} * {b}"
    if each.opcode == "mul":
        return writer.store(each.operands[0], product, dtype)
    c = writer.read(each.operands[3], dtype)
    if "cc" in each.modifiers or each.opcode == "madc":
        unsigned = arithmetic.UNSIGNED[8 * np.dtype(dtype).itemsize]
        carry = "F.carry" if each.opcode == "madc" else "np.bool_(False)"
        short = _SHORT[unsigned]
        writer.line(f"v, c = sum_with_carry(({product}).view({short}), ({c}).view({short}), {carry})")
        writer.store(each.operands[0], "v", unsigned)
        if "cc" in each.modifiers:
            writer.line("F.carry = c")
        return None
    return writer.store(each.operands[0], f"{product} + {c}", dtype)


@emits("div", "rem")
def _quotients(writer: Writer, each: Instruction) -> None:
    text = _INTEGER[each.opcode]
    if _is_float(each):
        text = "canonical({0} / {1})"
        if "approx" in each.modifiers or "full" in each.modifiers:
            text = f"divide_approximate({{0}}, {{1}}, {'full' in each.modifiers})"
        elif _rounding(each) != "rn":
            raise writer.unknown()
    _elementwise(writer, each, each.operands[1:], text, None)


@emits("min", "max")
def _extremes(writer: Writer, each: Instruction) -> None:
    call = "minimum" if each.opcode == "min" else "maximum"
    text = f"{call}({{0}}, {{1}}, {'NaN' in each.modifiers})"
    if len(each.operands) == 4:
        text = f"{call}({text}, {{2}}, {'NaN' in each.modifiers})"
    if "relu" in each.modifiers:
        if _is_float(each):
            raise writer.unknown()
        text = f"np.maximum({text}, 0)"
    if "xorsign" in each.modifiers:
        text = text.replace("{0}, {1}", "np.abs({0}), np.abs({1})")
        text = f"with_sign({text}, {{0}}, {{1}})"
    _elementwise(writer, each, each.operands[1:], text, None)


@emits("neg", "abs")
def _signs(writer: Writer, each: Instruction) -> None:
    type_name, _ = _packed(each.modifiers[-1])
    dtype = dtype_of(type_name)
    text = "-{0}" if each.opcode == "neg" else "np.abs({0})"
    if np.dtype(dtype).kind not in "iu":  # the sign alone changes, of NaN too
        bits = 8 * np.dtype(dtype).itemsize
        unsigned, sign = f"u{bits // 8}", 1 << (bits - 1)
        change = f"^ {unsigned}({sign})" if each.opcode == "neg" else f"& {unsigned}({sign - 1})"
        text = f"(({{0}}).view({unsigned}) {change}).view({_SHORT[dtype]})"
    _elementwise(writer, each, each.operands[1:], text, None)


@emits("copysign")
def _copysign(writer: Writer, each: Instruction) -> None:
    _elementwise(writer, each, each.operands[1:], "np.copysign({1}, {0})", None)


_APPROXIMATE = {
    "ex2": "exp2_approximate({0})",
    "lg2": "log2_approximate({0})",
    "sin": "sine_approximate({0})",
    "cos": "cosine_approximate({0})",
    "tanh": "tanh_approximate({0})",
    "rsqrt": "reciprocal_root_approximate({0})",
}


@emits(*_APPROXIMATE)
def _approximate(writer: Writer, each: Instruction) -> None:
    _elementwise(writer, each, each.operands[1:], _APPROXIMATE[each.opcode], None)


@emits("sqrt", "rcp")
def _roots(writer: Writer, each: Instruction) -> None:
    approximate = "approx" in each.modifiers
    if not approximate and _rounding(each) != "rn":
        raise writer.unknown()
    exact = "canonical(np.sqrt({0}))" if each.opcode == "sqrt" else "canonical({0}.dtype.type(1) / {0})"
    near = "root_approximate({0})" if each.opcode == "sqrt" else "reciprocal_approximate({0})"
    _elementwise(writer, each, each.operands[1:], near if approximate else exact, None)


@emits("shl", "shr")
def _shifts(writer: Writer, each: Instruction) -> None:
    dtype = dtype_of(each.modifiers[-1])
    if each.opcode == "shl":
        dtype = arithmetic.UNSIGNED[8 * np.dtype(dtype).itemsize]
    value, count = writer.read(each.operands[1], dtype), each.operands[2]
    if isinstance(count, Immediate) and 0 <= count.value < 8 * np.dtype(dtype).itemsize:
        symbol = "<<" if each.opcode == "shl" else ">>"
        text = f"{value} {symbol} {writer.translation.constant(dtype(count.value))}"
    else:
        call = "shift_left" if each.opcode == "shl" else "shift_right"
        text = f"{call}({value}, {writer.read(count, np.uint32)})"
    writer.store(each.operands[0], text, dtype)


@emits("shf")
def _funnel(writer: Writer, each: Instruction) -> None:
    low, high, count = (writer.read(operand, np.uint32) for operand in each.operands[1:])
    call = "funnel_left" if "l" in each.modifiers else "funnel_right"
    writer.store(each.operands[0], f"{call}({low}, {high}, {count}, {'wrap' in each.modifiers})", np.uint32)


@emits("bfe", "bfi", "prmt", "lop3", "popc", "clz", "brev", "bfind")
def _bits(writer: Writer, each: Instruction) -> None:
    dtype = dtype_of(each.modifiers[-1])
    sources = each.operands[1:]
    if each.opcode == "bfe":
        a, rest = writer.read(sources[0], dtype), [writer.read(x, np.uint32) for x in sources[1:]]
        return writer.store(each.operands[0], f"extract({a}, {', '.join(rest)})", dtype)
    if each.opcode == "bfi":
        values = [writer.read(x, dtype) for x in sources[:2]] + [
            writer.read(x, np.uint32) for x in sources[2:]
        ]
        return writer.store(each.operands[0], f"insert({', '.join(values)})", dtype)
    if each.opcode == "prmt":
        if each.modifiers != ("b32",):
            raise writer.unknown()
        return writer.store(
            each.operands[0], f"permuted({', '.join(writer.read(x, np.uint32) for x in sources)})", np.uint32
        )
    if each.opcode == "lop3":
        table = sources[3]
        assert isinstance(table, Immediate)
        values = [writer.read(x, np.uint32) for x in sources[:3]]
        return writer.store(each.operands[0], f"logic({', '.join(values)}, {table.value})", np.uint32)
    if each.opcode == "brev":
        return writer.store(each.operands[0], f"reversed_bits({writer.read(sources[0], dtype)})", dtype)
    call = {"popc": "ones", "clz": "leading_zeros", "bfind": "highest_bit"}[each.opcode]
    return writer.store(each.operands[0], f"{call}({writer.read(sources[0], dtype)})", np.uint32)


@emits("mov", "cvta")
def _moves(writer: Writer, each: Instruction) -> None:
    dtype = dtype_of(each.modifiers[-1])
    if np.dtype(dtype).kind not in "ub":
        dtype = arithmetic.UNSIGNED[8 * np.dtype(dtype).itemsize]
    source = each.operands[1]
    if each.opcode == "cvta" and any(m in ("local", "shared") for m in each.modifiers):
        raise writer.unknown("(generic addresses of local and shared memory)")
    text = writer.read(source, dtype)
    if each.opcode == "cvta" and each.modifiers[0] == "param":
        text = f"{text} + {writer.translation.constant(np.uint64(PARAMETERS))}"
    writer.store(each.operands[0], text, dtype)


@emits("selp")
def _select(writer: Writer, each: Instruction) -> None:
    dtype = dtype_of(each.modifiers[-1])
    if np.dtype(dtype).kind not in "ub":
        dtype = arithmetic.UNSIGNED[8 * np.dtype(dtype).itemsize]
    a, b = (writer.read(operand, dtype) for operand in each.operands[1:3])
    writer.store(each.operands[0], f"where({writer.read(each.operands[3], np.bool_)}, {a}, {b})", dtype)


_JOINED = {"and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}"}


@emits("setp")
def _set_predicate(writer: Writer, each: Instruction) -> None:
    comparison, *rest = [m for m in each.modifiers if m != "ftz"]
    type_name, packed = _packed(rest[-1])
    dtype = dtype_of(type_name)
    joins = rest[0] if len(rest) > 1 else None
    target = each.operands[0]
    if packed:
        assert isinstance(target, Pair)
        for i, operand in enumerate(each.operands[1:3]):
            writer.line(f"x{i} = {writer.read(operand, np.uint32)}")
        for name, part in (("low", "(x{0} & u4(65535))"), ("high", "(x{0} >> u4(16))")):
            a, b = (f"{part.format(i)}.astype(u2).view({_SHORT[dtype]})" for i in range(2))
            writer.line(f"{name} = compared({a}, {b}, {comparison!r})")
        writer.store(target.first, "low", np.bool_)
        return writer.store(target.second, "high", np.bool_)
    a, b = (_flush(writer.read(operand, dtype), each, dtype) for operand in each.operands[1:3])
    writer.line(f"v = compared({a}, {b}, {comparison!r})")
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    if joins is not None:
        other = writer.read(each.operands[3], np.bool_)
        writer.line(f"w = {_JOINED[joins].format('~v', other)}")
        writer.line(f"v = {_JOINED[joins].format('v', other)}")
    else:
        writer.line("w = ~v")
    writer.store(first, "v", np.bool_)
    return writer.store(second, "w", np.bool_)


@emits("set")
def _set(writer: Writer, each: Instruction) -> None:
    comparison, *rest = [m for m in each.modifiers if m != "ftz"]
    (result, packed), (source, _) = _packed(rest[-2]), _packed(rest[-1])
    dtype = dtype_of(source)
    one = {"f16": "u2(0x3C00)", "bf16": "u2(0x3F80)", "f32": "u4(0x3F800000)"}.get(result, "u4(0xFFFFFFFF)")
    zero = f"{one[:2]}(0)"
    if packed:
        for i, operand in enumerate(each.operands[1:3]):
            writer.line(f"x{i} = {writer.read(operand, np.uint32)}")
        for name, part in (("low", "(x{0} & u4(65535))"), ("high", "(x{0} >> u4(16))")):
            a, b = (f"{part.format(i)}.astype(u2).view({_SHORT[dtype]})" for i in range(2))
            writer.line(f"{name} = where(compared({a}, {b}, {comparison!r}), {one}, {zero}).astype(u4)")
        return writer.store(each.operands[0], "low | (high << u4(16))", np.uint32)
    a, b = (writer.read(operand, dtype) for operand in each.operands[1:3])
    text = f"where(compared({a}, {b}, {comparison!r}), {one}, {zero})"
    return writer.store(each.operands[0], text, np.uint16 if one.startswith("u2") else np.uint32)


@emits("cvt")
def _convert(writer: Writer, each: Instruction) -> None:
    target_name, source_name = each.modifiers[-2:]
    rounding = next((m for m in each.modifiers if m[0] == "r" and m in _ROUNDINGS), "")
    if source_name in _EIGHT_BITS or target_name in _EIGHT_BITS:
        return _convert_eight_bits(writer, each, target_name, source_name)
    if target_name in ("bf16x2", "f16x2"):
        element = _SHORT[dtype_of(target_name[:-2])]
        high, low = (writer.read(operand, np.float32) for operand in each.operands[1:3])
        if "relu" in each.modifiers or "satfinite" in each.modifiers:
            raise writer.unknown()
        parts = [f"to_float({x}, {element}, {rounding!r}).view(u2).astype(u4)" for x in (low, high)]
        return writer.store(each.operands[0], f"{parts[0]} | ({parts[1]} << u4(16))", np.uint32)
    target, source = dtype_of(target_name), dtype_of(source_name)
    value = _flush(writer.read(each.operands[1], source), each, source)
    to_float, from_float = (np.dtype(t).kind not in "iu" for t in (target, source))
    short = _SHORT[target]
    if from_float and not to_float:
        text = f"to_integer({value}, {short}, {rounding!r})"
    elif from_float and rounding in arithmetic.ROUNDED:
        call = {"rni": "np.rint", "rzi": "np.trunc", "rmi": "np.floor", "rpi": "np.ceil"}[rounding]
        text = f"canonical({call}({value})).astype({short})"
    elif to_float:
        text = f"to_float({value}, {short}, {rounding!r})"
    elif "sat" in each.modifiers:
        limits = np.iinfo(target)
        text = f"np.clip({value}.astype(np.int64), {limits.min}, {limits.max}).astype({short})"
        if np.dtype(source) == np.uint64:
            raise writer.unknown()
    else:
        text = f"{value}.astype({short})"
    if to_float and "sat" in each.modifiers:
        text = f"saturated({text})"
    return writer.store(each.operands[0], _flush(text, each, target), target)


_EIGHT_BITS = ("e4m3x2", "e5m2x2")


def _convert_eight_bits(writer: Writer, each: Instruction, target: str, source: str) -> None:
    """Two floats of 8 bits in 16, to or from wider ones: the second operand of two is the lower half."""
    if "relu" in each.modifiers:
        raise writer.unknown()
    if target in _EIGHT_BITS:
        if source == "f32":
            high, low = (writer.read(operand, np.float32) for operand in each.operands[1:3])
        elif source == "f16x2":
            writer.line(f"x = {writer.read(each.operands[1], np.uint32)}")
            high, low = "(x >> u4(16)).astype(u2).view(f2)", "(x & u4(65535)).astype(u2).view(f2)"
        else:
            raise writer.unknown()
        parts = [f"to_eight_bits({x}, {target[:4]!r}).astype(u2)" for x in (low, high)]
        return writer.store(each.operands[0], f"{parts[0]} | ({parts[1]} << u2(8))", np.uint16)
    if target != "f16x2":
        raise writer.unknown()
    writer.line(f"x = {writer.read(each.operands[1], np.uint16)}")
    wide = [
        f"from_eight_bits({x}, {source[:4]!r}).view(u2).astype(u4)" for x in ("x & u2(255)", "x >> u2(8)")
    ]
    return writer.store(each.operands[0], f"{wide[0]} | ({wide[1]} << u4(16))", np.uint32)


_ROUNDINGS = {"rn", "rz", "rm", "rp", "rna", *arithmetic.ROUNDED}


# Memory

_SPACES = ("global", "shared", "local", "param", "const")


def _space(each: Instruction) -> str:
    for modifier in each.modifiers:
        name = modifier.split("::")[0]
        if name in _SPACES:
            return "global" if name == "const" else name
    return "generic"


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


@emits("ld")
def _load(writer: Writer, each: Instruction) -> None:
    space, dtype = _space(each), dtype_of(each.modifiers[-1])
    targets = _items(each.operands[0])
    kind = dtype if np.dtype(dtype).kind in "iu" else arithmetic.UNSIGNED[8 * np.dtype(dtype).itemsize]
    size = np.dtype(dtype).itemsize
    if space == "param":
        return _load_parameter(writer, each, targets, kind)
    address = ("F, " if space == "local" else "") + writer.address(each.operands[1])
    writer.line(f"v = s.load_{space}({address}, {size}, {len(targets)}, {writer.masked})")
    for i, target in enumerate(targets):
        text = f"v[{i}]" if np.dtype(kind).kind == "u" else f"v[{i}].view({_SHORT[kind]})"
        writer.store(target, text, kind)
    return None


def _load_parameter(writer: Writer, each: Instruction, targets: Sequence[Operand], kind: Any) -> None:
    address = each.operands[1]
    assert isinstance(address, Address)
    if not isinstance(address.base, Symbol):
        if not writer.translation.function.is_kernel or len(targets) > 1:
            raise writer.unknown("(parameters of calls, and vectors, by addresses in registers)")
        at = writer.address(address)
        return writer.store(targets[0], f"s.parameter_at({at}, {_SHORT[kind]}, {writer.masked})", kind)
    name, size = address.base.name, np.dtype(kind).itemsize
    begin = writer.translation.parameters.get(name)
    for i, target in enumerate(targets):
        offset = address.offset + i * size
        if begin is not None and writer.translation.function.is_kernel:
            text = f"s.parameter({begin + offset}, {_SHORT[kind]})"
        else:
            text = f"F.parameters[{name!r}, {offset}].astype(u{size}).view({_SHORT[kind]})"
        writer.store(target, text, kind)
    return None


@emits("st")
def _store(writer: Writer, each: Instruction) -> None:
    space, dtype = _space(each), dtype_of(each.modifiers[-1])
    kind = arithmetic.UNSIGNED[8 * np.dtype(dtype).itemsize]
    values = [writer.read(operand, kind) for operand in _items(each.operands[1])]
    if space == "param":
        address = each.operands[0]
        assert isinstance(address, Address) and isinstance(address.base, Symbol)
        for i, value in enumerate(values):
            key = f"({address.base.name!r}, {address.offset + i * np.dtype(kind).itemsize})"
            writer.line(f"s.store_parameter(F, {key}, {value}, {writer.masked})")
        return
    address_text = ("F, " if space == "local" else "") + writer.address(each.operands[0])
    size = np.dtype(kind).itemsize
    writer.line(f"s.store_{space}({address_text}, {size}, ({', '.join(values)},), {writer.masked})")


@emits("atom", "red")
def _atomic(writer: Writer, each: Instruction) -> None:
    space = _space(each)
    operation = next(m for m in each.modifiers if m in _ATOMIC)
    dtype = dtype_of(each.modifiers[-1])
    order = next((m for m in each.modifiers if m in ("relaxed", "acquire", "release", "acq_rel")), "relaxed")
    operands = each.operands if each.opcode == "red" else each.operands[1:]
    values = [writer.read(operand, dtype) for operand in operands[1:]]
    place = "shared" if space == "shared" else "global"
    writer.line(
        f"v = s.atomic_{place}({writer.address(operands[0])}, {operation!r}, ({', '.join(values)},), "
        f"{order!r}, {writer.masked})"
    )
    if each.opcode == "atom":
        writer.store(each.operands[0], "v", dtype)


_ATOMIC = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


@emits("cp")
def _copy(writer: Writer, each: Instruction) -> None:
    what = each.modifiers[1]
    if each.modifiers[0] != "async":
        raise writer.unknown()
    if what == "bulk":
        return _EMITTERS["cp.async.bulk"](writer, each)
    if what == "commit_group":
        return writer.line(f"s.commit_copies({writer.masked})")
    if what == "wait_all":
        return writer.line(f"s.wait_for_copies(0, {writer.masked}, True)")
    if what == "wait_group":
        kept = each.operands[0]
        assert isinstance(kept, Immediate)
        return writer.line(f"s.wait_for_copies({kept.value}, {writer.masked})")
    if what not in ("ca", "cg"):
        raise writer.unknown()
    target, source = writer.address(each.operands[0]), writer.address(each.operands[1])
    size = each.operands[2]
    assert isinstance(size, Immediate)
    filled = writer.read(each.operands[3], np.uint32) if len(each.operands) > 3 else f"u4({size.value})"
    return writer.line(f"s.copy_to_shared({target}, {source}, {size.value}, {filled}, {writer.masked})")


@emits("membar", "fence")
def _fence(writer: Writer, each: Instruction) -> None:
    if each.modifiers[0] == "proxy":
        return _EMITTERS["fence.proxy"](writer, each)
    return writer.line(f"s.fence({writer.masked})")


@emits("prefetch", "prefetchu", "discard", "applypriority", "griddepcontrol", "nanosleep")
def _hint(writer: Writer, each: Instruction) -> None:
    """Nothing: it changes how fast a GPU is, or how long it waits."""


@emits("createpolicy")
def _policy(writer: Writer, each: Instruction) -> None:
    writer.store(each.operands[0], "u8(0)", np.uint64)


@emits("trap", "brkpt")
def _trap(writer: Writer, each: Instruction) -> None:
    writer.line(f"s.trap({writer.masked})")


# Warps


@emits("shfl")
def _shuffle(writer: Writer, each: Instruction) -> None:
    target = each.operands[0]
    mode = each.modifiers[1]
    value, lane, clamp = (writer.read(operand, np.uint32) for operand in each.operands[1:4])
    members = writer.read(each.operands[4], np.uint32)
    writer.line(f"v, w = s.shuffle({mode!r}, {value}, {lane}, {clamp}, {members}, {writer.masked})")
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    writer.store(first, "v", np.uint32)
    writer.store(second, "w", np.bool_)


@emits("redux")
def _reduce(writer: Writer, each: Instruction) -> None:
    dtype = dtype_of(each.modifiers[-1])
    value, members = writer.read(each.operands[1], dtype), writer.read(each.operands[2], np.uint32)
    text = f"s.reduce({each.modifiers[1]!r}, {value}, {members}, {writer.masked})"
    writer.store(each.operands[0], text, dtype)


@emits("vote")
def _vote(writer: Writer, each: Instruction) -> None:
    mode = each.modifiers[1]
    value, members = writer.read(each.operands[1], np.bool_), writer.read(each.operands[2], np.uint32)
    text = f"s.vote({mode!r}, {value}, {members}, {writer.masked})"
    writer.store(each.operands[0], text, np.uint32 if mode == "ballot" else np.bool_)


@emits("activemask")
def _active(writer: Writer, each: Instruction) -> None:
    writer.store(each.operands[0], f"s.active({writer.masked})", np.uint32)


@emits("bar", "barrier")
def _warp_barrier(writer: Writer, each: Instruction) -> None:
    writer.line(f"s.synchronize_warp({writer.read(each.operands[0], np.uint32)}, {writer.masked})")


@emits("ldmatrix")
def _load_matrix(writer: Writer, each: Instruction) -> None:
    if "m8n8" not in each.modifiers or each.modifiers[-1] != "b16":
        raise writer.unknown()
    targets = _items(each.operands[0])
    writer.line(
        f"v = s.load_matrix({writer.address(each.operands[1])}, {len(targets)}, {'trans' in each.modifiers}, "
        f"{writer.masked})"
    )
    for i, target in enumerate(targets):
        writer.store(target, f"v[{i}]", np.uint32)


@emits("stmatrix")
def _store_matrix(writer: Writer, each: Instruction) -> None:
    if "m8n8" not in each.modifiers or each.modifiers[-1] != "b16":
        raise writer.unknown()
    values = [writer.read(operand, np.uint32) for operand in _items(each.operands[1])]
    writer.line(
        f"s.store_matrix({writer.address(each.operands[0])}, ({', '.join(values)},), {'trans' in each.modifiers}, "
        f"{writer.masked})"
    )


@emits("mma")
def _multiply_matrices(writer: Writer, each: Instruction) -> None:
    shape = next(m for m in each.modifiers if m[0] == "m" and m[1:2].isdigit())
    d_type, a_type, b_type, c_type = each.modifiers[-4:]
    wide = "f64" in (a_type, d_type)
    parts = []
    for operand in each.operands[1:4]:
        items = [writer.read(item, np.uint64 if wide else np.uint32) for item in _items(operand)]
        parts.append(f"({', '.join(items)},)")
    types = (d_type, a_type, b_type, c_type)
    writer.line(f"v = s.multiply_matrices({shape!r}, {types!r}, {', '.join(parts)}, {writer.masked})")
    for i, target in enumerate(_items(each.operands[0])):
        writer.store(target, f"v[{i}]", np.uint64 if wide else np.uint32)


@emits("call")
def _call(writer: Writer, each: Instruction) -> None:
    operands = list(each.operands)
    results = operands.pop(0) if isinstance(operands[0], Vector) else Vector(())
    name, arguments = operands[0], operands[1] if len(operands) > 1 else Vector(())
    assert isinstance(name, Symbol) and isinstance(arguments, Vector) and isinstance(results, Vector)

    def names(vector: Vector) -> str:
        return "(" + "".join(f"{item.name!r}, " for item in vector.items if isinstance(item, Symbol)) + ")"

    writer.line(f"s.call({name.name!r}, F, {names(results)}, {names(arguments)}, {writer.masked})")
