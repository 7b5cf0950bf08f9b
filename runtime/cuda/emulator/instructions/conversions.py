"""Conversions between types of numbers (``cvt``) as Python statements."""

from __future__ import annotations

import numpy as np

from .. import arithmetic
from ..ptx import Instruction
from .writer import SHORT, Writer, dtype_of, emits, flushed

_ROUNDINGS = {"rn", "rz", "rm", "rp", "rna", *arithmetic.ROUNDED}
_EIGHT_BITS = ("e4m3x2", "e5m2x2")


@emits("cvt")
def _convert(writer: Writer, each: Instruction) -> None:
    target_name, source_name = each.modifiers[-2:]
    rounding = next((m for m in each.modifiers if m[0] == "r" and m in _ROUNDINGS), "")
    if source_name in _EIGHT_BITS or target_name in _EIGHT_BITS:
        return _convert_eight_bits(writer, each, target_name, source_name)
    if target_name in ("bf16x2", "f16x2"):
        element = SHORT[dtype_of(target_name[:-2])]
        high, low = (writer.read(operand, np.float32) for operand in each.operands[1:3])
        if "relu" in each.modifiers or "satfinite" in each.modifiers:
            raise writer.unknown()
        parts = [f"to_float({x}, {element}, {rounding!r}).view(u2).astype(u4)" for x in (low, high)]
        return writer.store(each.operands[0], f"{parts[0]} | ({parts[1]} << u4(16))", np.uint32)
    if target_name == "tf32":
        if rounding not in ("rn", "rna") or source_name != "f32" or "relu" in each.modifiers:
            raise writer.unknown()
        bits = writer.read(each.operands[1], np.uint32)
        return writer.store(each.operands[0], f"to_tf32({bits}, {rounding!r})", np.uint32)
    target, source = dtype_of(target_name), dtype_of(source_name)
    value = flushed(writer.read(each.operands[1], source), each, source)
    to_float, from_float = (np.dtype(t).kind not in "iu" for t in (target, source))
    short = SHORT[target]
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
    return writer.store(each.operands[0], flushed(text, each, target), target)


def _convert_eight_bits(writer: Writer, each: Instruction, target: str, source: str) -> None:
    """Convert two 8-bit floats packed in 16 bits, to or from wider floats; the second operand is the lower half."""
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
