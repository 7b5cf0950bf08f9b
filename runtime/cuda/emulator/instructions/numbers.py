"""Arithmetic, bit operations and moves as Python statements: a row of a table, or a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import arithmetic
from ..ptx import Immediate, Instruction, Operand
from .writer import LOCAL, PARAMETERS, SHARED, SHORT, Writer, dtype_of, element_of, emits, flushed


def _rounding(instruction: Instruction) -> str:
    return next((m for m in instruction.modifiers if m in ("rn", "rz", "rm", "rp")), "rn")


_MODIFIERS = {"rn", "rz", "rm", "rp", "ftz", "sat", "lo", "approx", "full"}
_EXTREMES = {"ftz", "NaN", "relu", "xorsign", "abs"}
"""Modifiers allowed between an instruction's name and its type; others would change the instruction."""


def _elementwise(
    writer: Writer, each: Instruction, sources: Sequence[Operand], text: str, dtype: Any
) -> None:
    """Write a result of one type from operands of the same type, which replace ``{0}`` and so on in `text`."""
    known = _EXTREMES if each.opcode in ("min", "max") else _MODIFIERS
    if not known.issuperset(each.modifiers[:-1]):
        raise writer.unknown()
    type_name, packed = element_of(each.modifiers[-1])
    dtype = dtype_of(type_name) if dtype is None else dtype
    if packed and type_name == "f32":
        return _pairs_of_floats(writer, each, sources, text)
    if packed:
        lows, highs = [], []
        for i, operand in enumerate(sources):
            writer.line(f"x{i} = {writer.read(operand, np.uint32)}")
            lows.append(f"(x{i} & u4(65535)).astype(u2).view({SHORT[dtype]})")
            highs.append(f"(x{i} >> u4(16)).astype(u2).view({SHORT[dtype]})")
        writer.line(f"low = ({text.format(*lows)}).view(u2).astype(u4)")
        writer.line(f"high = ({text.format(*highs)}).view(u2).astype(u4)")
        writer.store(each.operands[0], "low | (high << u4(16))", np.uint32)
        return
    reads = [flushed(writer.read(operand, dtype), each, dtype) for operand in sources]
    result = flushed(text.format(*reads), each, dtype)
    if "sat" in each.modifiers and np.dtype(dtype).kind not in "iu":
        result = f"saturated({result})"
    writer.store(each.operands[0], result, dtype)


def _pairs_of_floats(writer: Writer, each: Instruction, sources: Sequence[Operand], text: str) -> None:
    """Write an operation on two 32-bit floats packed in 64-bit registers, as sm_100 adds and multiplies them."""
    reads: tuple[list[str], list[str]] = ([], [])
    for i, operand in enumerate(sources):
        writer.line(f"x{i} = {writer.read(operand, np.uint64)}")
        for part, shift in zip(reads, ("", " >> u8(32)"), strict=True):
            part.append(flushed(f"(x{i}{shift}).astype(u4).view(f4)", each, np.float32))
    for name, part in zip(("low", "high"), reads, strict=True):
        writer.line(f"{name} = ({flushed(text.format(*part), each, np.float32)}).view(u4).astype(u8)")
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
    """Write a mixed operation on 16-bit floats and a final 32-bit float, as sm_100 computes it in 32 bits."""
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
        short = SHORT[unsigned]
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
            if each.modifiers[-1] != "f32":
                raise writer.unknown()
            text = f"divide({{0}}, {{1}}, {_rounding(each)!r})"
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
    type_name, _ = element_of(each.modifiers[-1])
    dtype = dtype_of(type_name)
    text = "-{0}" if each.opcode == "neg" else "np.abs({0})"
    if np.dtype(dtype).kind not in "iu":  # only the sign changes, that of NaN too
        bits = 8 * np.dtype(dtype).itemsize
        unsigned, sign = f"u{bits // 8}", 1 << (bits - 1)
        sign_operation = f"^ {unsigned}({sign})" if each.opcode == "neg" else f"& {unsigned}({sign - 1})"
        text = f"(({{0}}).view({unsigned}) {sign_operation}).view({SHORT[dtype]})"
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
    text = _APPROXIMATE[each.opcode]
    if each.opcode == "rsqrt" and "ftz" in each.modifiers:
        text = "reciprocal_root_approximate({0}, True)"
    _elementwise(writer, each, each.operands[1:], text, None)


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
    text = writer.read(source, dtype)
    if each.opcode == "cvta" and not {"local", "shared"}.isdisjoint(each.modifiers):
        if each.modifiers[0] == "to":
            text = f"{text} & u8(0xFFFFFFFF)"
        elif "shared" in each.modifiers:
            text = f"{text} + u8({SHARED})"
        else:
            text = f"{text} + u8({LOCAL} + (F.depth << 32))"
    if each.opcode == "cvta" and each.modifiers[0] == "param":
        text = f"{text} + {writer.translation.constant(np.uint64(PARAMETERS))}"
    writer.store(each.operands[0], text, dtype)
