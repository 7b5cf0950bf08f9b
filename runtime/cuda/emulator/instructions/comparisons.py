"""Comparisons and selections as Python statements."""

from __future__ import annotations

import numpy as np

from .. import arithmetic
from ..ptx import Instruction, Pair
from .writer import SHORT, Writer, dtype_of, element_of, emits, flushed


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
    type_name, packed = element_of(rest[-1])
    dtype = dtype_of(type_name)
    joins = rest[0] if len(rest) > 1 else None
    target = each.operands[0]
    if packed:
        assert isinstance(target, Pair)
        for i, operand in enumerate(each.operands[1:3]):
            writer.line(f"x{i} = {writer.read(operand, np.uint32)}")
        for name, part in (("low", "(x{0} & u4(65535))"), ("high", "(x{0} >> u4(16))")):
            a, b = (f"{part.format(i)}.astype(u2).view({SHORT[dtype]})" for i in range(2))
            writer.line(f"{name} = compared({a}, {b}, {comparison!r})")
        writer.store(target.first, "low", np.bool_)
        return writer.store(target.second, "high", np.bool_)
    a, b = (flushed(writer.read(operand, dtype), each, dtype) for operand in each.operands[1:3])
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
    (result, packed), (source, _) = element_of(rest[-2]), element_of(rest[-1])
    dtype = dtype_of(source)
    true_value = {"f16": "u2(0x3C00)", "bf16": "u2(0x3F80)", "f32": "u4(0x3F800000)"}.get(
        result, "u4(0xFFFFFFFF)"
    )
    false_value = f"{true_value[:2]}(0)"
    if packed:
        for i, operand in enumerate(each.operands[1:3]):
            writer.line(f"x{i} = {writer.read(operand, np.uint32)}")
        for name, part in (("low", "(x{0} & u4(65535))"), ("high", "(x{0} >> u4(16))")):
            a, b = (f"{part.format(i)}.astype(u2).view({SHORT[dtype]})" for i in range(2))
            writer.line(
                f"{name} = where(compared({a}, {b}, {comparison!r}), {true_value}, {false_value}).astype(u4)"
            )
        return writer.store(each.operands[0], "low | (high << u4(16))", np.uint32)
    a, b = (writer.read(operand, dtype) for operand in each.operands[1:3])
    text = f"where(compared({a}, {b}, {comparison!r}), {true_value}, {false_value})"
    return writer.store(each.operands[0], text, np.uint16 if true_value.startswith("u2") else np.uint32)
