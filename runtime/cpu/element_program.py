"""Program of a fused kernel for one element: typed values in static single assignment form.

A value is an LLVM instruction, or a value that NumPy computes for a whole block: a ufunc, or an operator without
instructions. Equal values are merged.

Types have the names of dtypes. A bool is one bit; float16 and bfloat16 are only stored and converted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

REGISTERS = {
    "bool": "i1",
    "uint8": "i8",
    "int8": "i8",
    "uint16": "i16",
    "int16": "i16",
    "uint32": "i32",
    "int32": "i32",
    "uint64": "i64",
    "int64": "i64",
    "float16": "half",
    "bfloat16": "i16",
    "float32": "float",
    "float64": "double",
}
"""LLVM's type of a value, by the dtype's name."""
POINTER = "pointer"
WIDTHS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


class CannotLower(Exception):
    """An operator has no instructions for these dtypes: NumPy computes it."""


class Value:
    """Value of an element program.

    Attributes:
        kind: ``input``, ``place`` (the address of an input's element), ``accumulator``, ``constant``, ``instruction``,
            ``ufunc`` or ``operator``; in rows also ``reduction``, ``picked`` and ``position``.
        dtype: Its type; ``pointer`` for a computed address.
        text: The literal of a constant; the IR of an instruction, with placeholders for the operands.
        operands: The values that it uses.
        detail: Position of an input or of an accumulator's output; a ufunc; or an operator's call.
    """

    __slots__ = ("detail", "dtype", "kind", "operands", "text")

    def __init__(
        self, kind: str, dtype: str, text: str = "", operands: Sequence[Value] = (), detail: Any = None
    ) -> None:
        self.kind, self.dtype, self.text = kind, dtype, text
        self.operands, self.detail = tuple(operands), detail

    @property
    def register(self) -> str:
        """LLVM's type. Raises CannotLower for a dtype that it has not."""
        if self.kind == "place" or self.dtype == POINTER:
            return "ptr"
        register = REGISTERS.get(self.dtype)
        if register is None:
            raise CannotLower(self.dtype)
        return register

    @property
    def name(self) -> str:
        """Name of the ufunc or operator that NumPy computes."""
        return self.detail.__name__ if self.kind == "ufunc" else self.detail.node.target._opname  # type: ignore[no-any-return]

    @property
    def by_numpy(self) -> bool:
        """True if NumPy computes the value for a block."""
        return self.kind in ("ufunc", "operator")


class ElementProgram:
    """Values of one element, and the instructions that make them.

    Args:
        converts_half: whether the processor converts float16.
        truncates: whether the processor makes the least integer of floats that do not fit, as x86 does.
        has_function: whether instructions have the bits of a ufunc of NumPy's, by its name.
        has_ranges: whether there may be instructions that hold for numbers of a range.

    Attributes:
        outside: for each function that was written so, whether its number is outside of its range.
        one_hots: by the `id` of a value that is zero but at one element of a row: that element's position and number.

    Example:
        >>> program = ElementProgram(True, True)
        >>> x = program.value("input", "float32", detail=0)
        >>> program.arithmetic("add", x, program.number(2.0, "float32")).text
        'fadd float {0}, {1}'
    """

    def __init__(
        self,
        converts_half: bool,
        truncates: bool,
        has_function: Callable[[str], bool] = lambda name: False,
        has_ranges: bool = False,
    ) -> None:
        self.converts_half, self.truncates, self.has_function = converts_half, truncates, has_function
        self._known: dict[Any, Value] = {}
        self.has_ranges = has_ranges
        self.outside: list[Value] = []
        self.one_hots: dict[int, tuple[Value, Value]] = {}

    def value(
        self, kind: str, dtype: str, text: str = "", operands: Sequence[Value] = (), detail: Any = None
    ) -> Value:
        """Return a value, an existing one if it is equal."""
        key = (kind, dtype, text, tuple(map(id, operands)), id(detail) if kind == "operator" else detail)
        value = self._known.get(key)
        if value is None:
            value = self._known[key] = Value(kind, dtype, text, operands, detail)
        return value

    def instruction(self, dtype: str, text: str, *operands: Value) -> Value:
        """Return an LLVM instruction; ``{0}`` in its text is the first operand."""
        return self.value("instruction", dtype, text, operands)

    def number(self, number: Any, dtype: str) -> Value:
        """Return a constant that already has the dtype. Raise CannotLower for a dtype without registers."""
        if dtype not in REGISTERS:
            raise CannotLower(dtype)
        register = REGISTERS[dtype]
        if register == "i1":
            text = "true" if number else "false"
        elif dtype == "float16":
            text = f"0xH{np.array(number, np.float16).view(np.uint16):04X}"
        elif dtype == "bfloat16":
            text = str(int(np.array(number).view(np.uint16)))
        elif register in WIDTHS:
            text = str(int(number))
        else:
            text = f"0x{struct.pack('>d', float(number)).hex().upper()}"
        return self.value("constant", dtype, text)

    # Instructions

    def arithmetic(self, name: str, a: Value, b: Value) -> Value:
        """Return ``add``, ``sub``, ``mul``, or for floats ``div``, rounded once; integers wrap."""
        if kind_of(a) == "f":
            return self.instruction(a.dtype, f"f{name} {full(a)} {{0}}, {{1}}", a, b)
        if kind_of(a) == "b":
            word = {"add": "or", "mul": "and"}.get(name)
            if word is None:
                raise CannotLower(name)
            return self.bitwise(word, a, b)
        return self.instruction(a.dtype, f"{name} {a.register} {{0}}, {{1}}", a, b)

    def bitwise(self, name: str, a: Value, b: Value) -> Value:
        """Return ``and``, ``or`` or ``xor`` of integers and bools."""
        if kind_of(a) == "f":
            raise CannotLower(name)
        return self.instruction(a.dtype, f"{name} {a.register} {{0}}, {{1}}", a, b)

    def compare(self, name: str, a: Value, b: Value) -> Value:
        """Return ``eq``, ``ne``, ``lt``, ``le``, ``gt`` or ``ge``; with NaN all but ``ne`` are false."""
        if kind_of(a) == "f":
            code = "une" if name == "ne" else f"o{name}"
            return self.instruction("bool", f"fcmp {code} {full(a)} {{0}}, {{1}}", a, b)
        sign = "" if name in ("eq", "ne") else "s" if kind_of(a) == "i" else "u"
        return self.instruction("bool", f"icmp {sign}{name} {a.register} {{0}}, {{1}}", a, b)

    def is_nan(self, a: Value) -> Value:
        """Return True for NaN floats, as a value."""
        return self.instruction("bool", f"fcmp uno {full(a)} {{0}}, {{0}}", a)

    def select(self, mask: Value, a: Value, b: Value) -> Value:
        """Return `a` where the mask is true, else `b`, bitwise."""
        return self.instruction(
            a.dtype, f"select i1 {{0}}, {a.register} {{1}}, {a.register} {{2}}", mask, a, b
        )

    def intrinsic(self, name: str, a: Value) -> Value:
        """Return an LLVM intrinsic of one float: ``sqrt``, ``floor``, ``fabs``."""
        suffix = {"float": "f32", "double": "f64"}[full(a)]
        return self.instruction(a.dtype, f"call {full(a)} @llvm.{name}.{suffix}({full(a)} {{0}})", a)

    def fused(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c, rounded once (fused multiply-add)."""
        kind = full(a)
        suffix = {"float": "f32", "double": "f64"}[kind]
        parameters = ", ".join(f"{kind} {{{i}}}" for i in range(3))
        return self.instruction(a.dtype, f"call {kind} @llvm.fma.{suffix}({parameters})", a, b, c)

    def reinterpreted(self, a: Value, dtype: str) -> Value:
        """Return a number's bits reinterpreted as another type of the same width."""
        return self.instruction(dtype, f"bitcast {a.register} {{0}} to {REGISTERS[dtype]}", a)

    def shifted(self, name: str, a: Value, count: int) -> Value:
        """Return ``shl``, ``lshr`` or ``ashr`` of an integer by a number of bits."""
        return self.instruction(a.dtype, f"{name} {a.register} {{0}}, {count}", a)

    def negative(self, a: Value) -> Value:
        """Return -a."""
        if kind_of(a) == "f":
            return self.instruction(a.dtype, f"fneg {full(a)} {{0}}", a)
        return self.arithmetic("sub", self.number(0, a.dtype), a)

    def maximum(self, a: Value, b: Value) -> Value:
        """Return the maximum; NaN if either is NaN; `b` of two zeros, as vector instructions do."""
        return self._extreme("gt", a, b)

    def minimum(self, a: Value, b: Value) -> Value:
        """Return the minimum, with the same rules as `maximum`."""
        return self._extreme("lt", a, b)

    def _extreme(self, order: str, a: Value, b: Value) -> Value:
        if kind_of(a) == "b":
            return self.bitwise("or" if order == "gt" else "and", a, b)
        chosen = self.select(self.compare(order, a, b), a, b)
        return self.select(self.is_nan(a), a, chosen) if kind_of(a) == "f" else chosen

    # Conversions

    def convert(self, a: Value, dtype: str) -> Value:
        """Convert a value to another type, as copies do. Raise CannotLower if the processor cannot."""
        if a.dtype == dtype:
            return a
        if dtype not in REGISTERS or a.dtype not in REGISTERS:
            raise CannotLower(f"{a.dtype} to {dtype}")
        if a.dtype == "bfloat16":
            return self.convert(self._widened_bfloat16(a), dtype)
        if a.dtype == "float16":
            if not self.converts_half:
                raise CannotLower("float16")
            return self.convert(self.instruction("float32", "fpext half {0} to float", a), dtype)
        if dtype == "bool":
            return self.compare("ne", a, self.number(0, a.dtype))
        if dtype in ("float16", "bfloat16"):
            if a.dtype == "float64" and dtype == "float16":
                raise CannotLower("float64 to float16")
            narrow = self._narrowed_to_half if dtype == "float16" else self._narrowed_to_bfloat16
            return narrow(self.convert(a, "float32"))
        target, source = REGISTERS[dtype], a.register
        if kind_of(a) == "f":
            if target in ("float", "double"):
                name = "fpext" if target == "double" else "fptrunc"
                return self.instruction(dtype, f"{name} {source} {{0}} to {target}", a)
            return self._truncated(a, dtype)
        if target in ("float", "double"):
            name = "sitofp" if kind_of(a) == "i" else "uitofp"
            return self.instruction(dtype, f"{name} {source} {{0}} to {target}", a)
        if WIDTHS[target] == WIDTHS[source]:
            return self.instruction(dtype, f"or {target} {{0}}, 0", a)
        name = "trunc" if WIDTHS[target] < WIDTHS[source] else "sext" if kind_of(a) == "i" else "zext"
        return self.instruction(dtype, f"{name} {source} {{0}} to {target}", a)

    def _truncated(self, a: Value, dtype: str) -> Value:
        """Truncate a float to an integer. Out of range, the result is the least integer, or its low bits for narrow
        types."""
        width = WIDTHS[REGISTERS[dtype]]
        if not self.truncates or dtype == "uint64":
            raise CannotLower(f"{a.dtype} to {dtype}")
        wide = "int64" if width == 64 or dtype == "uint32" else "int32"
        limit = 2.0 ** (WIDTHS[REGISTERS[wide]] - 1)
        # Below the least int32 by less than 1, float64 has numbers that are truncated to it.
        over, lowest = ("gt", -limit - 1) if (a.dtype, wide) == ("float64", "int32") else ("ge", -limit)
        fits = self.bitwise(
            "and",
            self.compare(over, a, self.number(lowest, a.dtype)),
            self.compare("lt", a, self.number(limit, a.dtype)),
        )
        made = self.instruction(wide, f"fptosi {full(a)} {{0}} to {REGISTERS[wide]}", a)
        return self.convert(self.select(fits, made, self.number(int(-limit), wide)), dtype)

    def _widened_bfloat16(self, a: Value) -> Value:
        word = self.instruction("int32", "zext i16 {0} to i32", a)
        return self.instruction(
            "float32",
            "bitcast i32 {0} to float",
            self.instruction("int32", "shl i32 {0}, 16", word),
        )

    def _narrowed_to_half(self, a: Value) -> Value:
        if not self.converts_half:
            raise CannotLower("float16")
        return self.instruction("float16", "fptrunc float {0} to half", a)

    def _narrowed_to_bfloat16(self, a: Value) -> Value:
        """Round to nearest even; the processor's own instruction would lose subnormal numbers."""
        word = self.instruction("int32", "bitcast float {0} to i32", a)
        high = self.instruction("int32", "lshr i32 {0}, 16", word)
        odd = self.instruction("int32", "and i32 {0}, 1", high)
        half = self.instruction("int32", "add i32 {0}, 32767", odd)
        rounded = self.instruction("int32", "lshr i32 {0}, 16", self.arithmetic("add", word, half))
        quiet = self.instruction("int32", "or i32 {0}, 64", high)
        return self.instruction(
            "bfloat16", "trunc i32 {0} to i16", self.select(self.is_nan(a), quiet, rounded)
        )


def kind_of(value: Value) -> str:
    """Return the kind of a value's dtype: ``f``, ``i``, ``u`` or ``b``."""
    return "f" if "float" in value.dtype else value.dtype[0]


def full(value: Value) -> str:
    """Return the register of a float used in arithmetic. Raise CannotLower for a 16-bit float."""
    if value.dtype not in ("float32", "float64"):
        raise CannotLower(f"arithmetic of {value.dtype}")
    return value.register
