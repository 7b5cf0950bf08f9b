"""Writer of the statements of one basic block: operands become expressions, results assignments.

A register is an entry of the list ``R``. It is an array with an element for each thread of the running blocks, or a
NumPy scalar if all threads have the same value. Entries are unsigned for every instruction. ``M`` is the mask of the
active threads, None for all. Every statement has a form for either, so that converged threads do not pay for a mask.
``s`` is the state (`machine.Blocks`), ``F`` the frame of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arithmetic
from ..basic_blocks import BRANCHES, UntranslatableError
from ..contraction import FLOATS
from ..ptx import Address, Immediate, Instruction, Not, Operand, Register, Special, Symbol, Vector

if TYPE_CHECKING:
    from ..translate import Translation

LOCAL, SHARED = 1 << 57, 1 << 58
"""First generic addresses of local and shared memory. Bits 32 and up of a local address have its frame's depth."""
PARAMETERS = 1 << 56
"""First generic address of a kernel's parameters."""


def dtype_of(name: str) -> Any:
    """Return the NumPy type of a PTX type; untyped bits are unsigned. Raise UntranslatableError for other names.

    Example:
        >>> dtype_of("s32"), dtype_of("b16")
        (<class 'numpy.int32'>, <class 'numpy.uint16'>)
    """
    if name in FLOATS:
        return FLOATS[name]
    kind, bits = name[:1], name[1:]
    if name == "pred":
        return np.bool_
    if kind in "bu" and bits.isdigit() and int(bits) in arithmetic.UNSIGNED:
        return arithmetic.UNSIGNED[int(bits)]
    if kind == "s" and bits.isdigit() and int(bits) in arithmetic.SIGNED:
        return arithmetic.SIGNED[int(bits)]
    raise UntranslatableError(f"type {name!r}")


SHORT: dict[Any, str] = {
    np.bool_: "b1",
    **{dtype: f"u{bits // 8}" for bits, dtype in arithmetic.UNSIGNED.items()},
    **{dtype: f"i{bits // 8}" for bits, dtype in arithmetic.SIGNED.items()},
    np.float16: "f2",
    np.float32: "f4",
    np.float64: "f8",
    arithmetic.bf2: "bf2",
}
"""Names of types in the generated text."""


class Writer:
    """Writer of the statements of one basic block."""

    def __init__(self, translation: Translation, whole: bool) -> None:
        self.translation = translation
        self.whole = whole
        self.lines: list[str] = []
        self.instructions: list[Instruction | None] = []
        self.instruction: Instruction | None = None
        self.mask: str | None = None if whole else "M"

    def begin(self, instruction: Instruction) -> None:
        """Begin an instruction and set the mask for its statements."""
        self.instruction = instruction
        self.mask = None if self.whole else "M"
        if instruction.guard is not None:
            register, negated = instruction.guard
            read = f"R[{self.translation.register_index[register.name]}]"
            self.line(f"m = s.guarded(M, {'~' if negated else ''}{read})")
            self.mask = "m"

    def write(self, instruction: Instruction) -> None:
        """Write one instruction."""
        self.begin(instruction)
        emit = EMITTERS.get(instruction.opcode)
        if emit is None:
            raise self.unknown()
        try:
            emit(self, instruction)
        except (UntranslatableError, KeyError, IndexError, ValueError, AssertionError) as error:
            raise self.unknown(f"{type(error).__name__}: {error}") from error

    def unknown(self, why: str = "") -> UntranslatableError:
        """Return the error for an instruction that is not emulated."""
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
        """Return the number of bits of a register."""
        assert isinstance(operand, Register)
        return self.translation.function.registers[operand.name]

    def place(self, operand: Operand) -> int:
        """Return the index of a register in ``R``."""
        assert isinstance(operand, Register)
        return self.translation.register_index[operand.name]

    def read(self, operand: Operand, dtype: Any) -> str:
        """Return the expression for an operand as a type."""
        if isinstance(operand, Immediate):
            return self.translation.constant(_constant(operand, dtype))
        if isinstance(operand, Symbol):
            return self.translation.constant(_constant(Immediate(self.symbol(operand)), dtype))
        if isinstance(operand, Special):
            return f"s.special({operand.name!r}).astype({SHORT[dtype]})"
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
        return text if np.dtype(dtype).kind == "u" else f"{text}.view({SHORT[dtype]})"

    def symbol(self, operand: Symbol) -> int:
        """Return the address of a variable in its own state space."""
        translation = self.translation
        parameters = translation.parameters if translation.function.is_kernel else {}
        for addresses in (
            translation.function.locals,
            translation.module.shared,
            translation.addresses,
            parameters,
        ):
            if operand.name in addresses:
                return addresses[operand.name]
        raise UntranslatableError(f"symbol {operand.name!r}")

    def joined(self, vector: Vector, dtype: Any) -> str:
        """Return several registers as one wider number, the first in the lowest bits."""
        total = 8 * np.dtype(dtype).itemsize
        each = total // len(vector.items)
        part, whole = arithmetic.UNSIGNED[each], arithmetic.UNSIGNED[total]
        short = SHORT[whole]
        terms = [
            f"({self.read(item, part)}.astype({short}) << {short}({i * each}))"
            for i, item in enumerate(vector.items)
        ]
        text = " | ".join(terms)
        return f"({text})" if np.dtype(dtype).kind == "u" else f"({text}).view({SHORT[dtype]})"

    def store(self, operand: Operand | None, text: str, dtype: Any) -> None:
        """Write a result to a register; zero-extend it to a wider register, or sign-extend a signed number."""
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
        """Return the expression for an address, 64 bits wide."""
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
    if operand.width == 64 and bits == 32:
        return np.float32(np.uint64(value).view(np.float64)).view(dtype)
    if operand.width == 32 and bits == 64 and np.dtype(dtype).kind == "f":
        return np.float64(np.uint32(value).view(np.float32))
    return arithmetic.UNSIGNED[bits](value % (1 << bits)).view(dtype)


Emitter = Callable[[Writer, Instruction], None]
EMITTERS: dict[str, Emitter] = {}


def emits(*opcodes: str) -> Callable[[Emitter], Emitter]:
    """Register the emitter of these opcodes."""

    def register(emitter: Emitter) -> Emitter:
        for opcode in opcodes:
            EMITTERS[opcode] = emitter
        return emitter

    return register


def known_opcodes() -> Sequence[str]:
    """Return the emulated opcodes.

    Example:
        >>> "add" in known_opcodes()
        True
    """
    return sorted({*EMITTERS, *BRANCHES})


def items_of(operand: Operand) -> tuple[Operand, ...]:
    """Return the items of a vector, or the single operand."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def element_of(name: str) -> tuple[str, bool]:
    """Return the type of an element, and whether a register packs two of them."""
    return (name[:-2], True) if name.endswith("x2") and name != "b8x2" else (name, False)


def flushed(text: str, instruction: Instruction, dtype: Any) -> str:
    """Return an expression that flushes subnormals to zero if the instruction says so."""
    return f"flushed({text})" if "ftz" in instruction.modifiers and dtype is np.float32 else text
