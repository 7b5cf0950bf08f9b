"""Warp-level operations and calls as Python statements."""

from __future__ import annotations

import numpy as np

from ..device_functions import FUNCTIONS
from ..ptx import Instruction, Pair, Symbol, Vector
from .writer import Writer, dtype_of, emits, items_of


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
    if each.modifiers[0] == "cluster":  # an arrival, whose wait ends the basic block
        return
    writer.line(f"s.synchronize_warp({writer.read(each.operands[0], np.uint32)}, {writer.masked})")


@emits("ldmatrix")
def _load_matrix(writer: Writer, each: Instruction) -> None:
    if "m8n8" not in each.modifiers or each.modifiers[-1] != "b16":
        raise writer.unknown()
    targets = items_of(each.operands[0])
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
    values = [writer.read(operand, np.uint32) for operand in items_of(each.operands[1])]
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
        items = [writer.read(item, np.uint64 if wide else np.uint32) for item in items_of(operand)]
        parts.append(f"({', '.join(items)},)")
    types = (d_type, a_type, b_type, c_type)
    writer.line(f"v = s.multiply_matrices({shape!r}, {types!r}, {', '.join(parts)}, {writer.masked})")
    for i, target in enumerate(items_of(each.operands[0])):
        writer.store(target, f"v[{i}]", np.uint64 if wide else np.uint32)


@emits("call")
def _call(writer: Writer, each: Instruction) -> None:
    operands = list(each.operands)
    results = operands.pop(0) if isinstance(operands[0], Vector) else Vector(())
    name, arguments = operands[0], operands[1] if len(operands) > 1 else Vector(())
    assert isinstance(name, Symbol) and isinstance(arguments, Vector) and isinstance(results, Vector)

    def names(vector: Vector) -> str:
        return "(" + "".join(f"{item.name!r}, " for item in vector.items if isinstance(item, Symbol)) + ")"

    if name.name in writer.translation.module.functions:
        method = "call"
    elif name.name in FUNCTIONS:
        method = "call_device_function"
    else:
        raise writer.unknown(f"(the module does not define the function '{name.name}')")
    writer.line(f"s.{method}({name.name!r}, F, {names(results)}, {names(arguments)}, {writer.masked})")
