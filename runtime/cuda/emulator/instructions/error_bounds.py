"""Error bounds of registers that depend on an exchange, as Python statements before those of each instruction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..contraction import FLOATS, OPAQUE, copies_bits, registers_of, result_type
from ..error_bounds import ARITHMETIC
from ..ptx import Instruction, Operand, Register
from .writer import Writer, dtype_of


def bounds_of(writer: Writer, operands: Sequence[Operand]) -> str:
    """Return the argument with the bounds of a store's values: a comma and a tuple, "" without bounds."""
    exchanged = writer.translation.exchanged
    names = [operand.name if isinstance(operand, Register) else "" for operand in operands]
    if not any(name in exchanged for name in names):
        return ""
    register_index = writer.translation.register_index
    texts = [
        f"(F.bounds[{register_index[name]}], {exchanged[name]!r})" if name in exchanged else "None"
        for name in names
    ]
    return f", ({', '.join(texts)},)"


def write_bounds(writer: Writer, each: Instruction) -> None:
    """Write the update of the bounds of an instruction's targets."""
    exchanged, register_index = writer.translation.exchanged, writer.translation.register_index
    if not each.operands:
        return
    targets = tuple(register_index[name] for name in registers_of(each.operands[0]) if name in exchanged)
    if each.opcode in ("st", "red") or not targets:
        return
    writer.begin(each)
    writer.line(f"F.bounds.put({targets}, {_bound(writer, each)}, {writer.masked})")


def _bound(writer: Writer, each: Instruction) -> str:
    """Return the expression for the bound of an instruction's result."""
    exchanged, register_index = writer.translation.exchanged, writer.translation.register_index
    opcode, sources = each.opcode, each.operands[1:]
    known = tuple(register_index[name] for name in registers_of(*sources) if name in exchanged)
    if not known or opcode in OPAQUE:
        return "0.0"

    def of(*operands: Operand) -> tuple[int, ...]:
        named = (operand.name if isinstance(operand, Register) else "" for operand in operands)
        return tuple(register_index[name] if name in exchanged else -1 for name in named)

    def values(dtype: object, *operands: Operand) -> str:
        return ", ".join(writer.read(operand, dtype) for operand in operands)

    kind = result_type(opcode, each.modifiers)
    if opcode == "shfl":
        lane, clamp, members = (writer.read(operand, np.uint32) for operand in sources[1:])
        mode = each.modifiers[1]
        return f"s.shuffle({mode!r}, F.bounds[{known[0]}], {lane}, {clamp}, {members}, {writer.masked})[0]"
    if opcode in ARITHMETIC and kind and each.modifiers[-2:-1] != ("f32",):
        return f"F.bounds.computed({opcode!r}, {kind!r}, {of(*sources)}, {values(FLOATS[kind], *sources)})"
    if opcode == "cvt" and kind and each.modifiers[-1] in FLOATS:
        read = writer.read(sources[0], FLOATS[each.modifiers[-1]])
        return f"F.bounds.converted({kind!r}, {known}, {read})"
    if opcode == "selp" and each.modifiers[-1] != "pred":
        bits = np.dtype(dtype_of(each.modifiers[-1])).itemsize
        dtype = {2: np.uint16, 4: np.uint32, 8: np.uint64}[bits]
        kind = max((exchanged.get(name, "") for name in registers_of(*sources[:2])), default="")
        kind = kind if kind and np.dtype(FLOATS[kind]).itemsize == bits else ""
        read = f"{values(dtype, *sources[:2])}, {writer.read(sources[2], np.bool_)}"
        return f"F.bounds.selected({kind!r}, {of(*sources)}, {read})"
    if opcode == "setp" and not each.modifiers[-1].endswith("x2"):
        comparison = each.modifiers[0]
        read = values(dtype_of(each.modifiers[-1]), *sources[:2])
        return f"F.bounds.compared({comparison!r}, {of(*sources)}, {read})"
    if opcode in ("and", "or") and each.modifiers == ("pred",):
        return f"F.bounds.joined({opcode!r}, {of(*sources)}, {values(np.bool_, *sources)})"
    if copies_bits(each) or each.name == "not.pred" or (opcode in ("neg", "abs", "min", "max") and kind):
        return f"F.bounds.largest({known})"
    return f"F.bounds.unknown({known})"
