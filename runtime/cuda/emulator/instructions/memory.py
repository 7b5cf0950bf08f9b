"""Loads, stores, atomic operations, copies and fences as Python statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import arithmetic
from ..ptx import Address, Immediate, Instruction, Operand, Register, Symbol
from .error_bounds import bounds_of
from .writer import EMITTERS, SHORT, Writer, dtype_of, emits, items_of

_SPACES = ("global", "shared", "local", "param", "const")


def _space(each: Instruction) -> str:
    for modifier in each.modifiers:
        name = modifier.split("::")[0]
        if name in _SPACES:
            return "global" if name == "const" else name
    return "generic"


@emits("ld")
def _load(writer: Writer, each: Instruction) -> None:
    space, dtype = _space(each), dtype_of(each.modifiers[-1])
    targets = items_of(each.operands[0])
    kind = dtype if np.dtype(dtype).kind in "iu" else arithmetic.UNSIGNED[8 * np.dtype(dtype).itemsize]
    size = np.dtype(dtype).itemsize
    if space == "param":
        return _load_parameter(writer, each, targets, kind)
    address = ("F, " if space in ("local", "generic") else "") + writer.address(each.operands[1])
    if "shared::cluster" in each.modifiers:
        space = "cluster"
    writer.line(f"v = s.load_{space}({address}, {size}, {len(targets)}, {writer.masked})")
    for i, target in enumerate(targets):
        text = f"v[{i}]" if np.dtype(kind).kind == "u" else f"v[{i}].view({SHORT[kind]})"
        writer.store(target, text, kind)
    if "acquire" in each.modifiers:
        writer.line(f"s.order_memory('acquire', {writer.masked})")
    return None


def _load_parameter(writer: Writer, each: Instruction, targets: Sequence[Operand], kind: Any) -> None:
    address = each.operands[1]
    assert isinstance(address, Address)
    if not isinstance(address.base, Symbol):
        if not writer.translation.function.is_kernel or len(targets) > 1:
            raise writer.unknown("(parameters of calls, and vectors, by addresses in registers)")
        address_text = writer.address(address)
        return writer.store(
            targets[0], f"s.parameter_at({address_text}, {SHORT[kind]}, {writer.masked})", kind
        )
    name, size = address.base.name, np.dtype(kind).itemsize
    begin = writer.translation.parameters.get(name)
    for i, target in enumerate(targets):
        offset = address.offset + i * size
        if begin is not None and writer.translation.function.is_kernel:
            text = f"s.parameter({begin + offset}, {SHORT[kind]})"
        else:
            text = f"F.parameters[{name!r}, {offset}].astype(u{size}).view({SHORT[kind]})"
        writer.store(target, text, kind)
    return None


@emits("mapa")
def _map_to_block(writer: Writer, each: Instruction) -> None:
    if each.modifiers != ("shared::cluster", "u32") or not isinstance(each.operands[1], Register):
        raise writer.unknown()
    address, rank = (writer.read(operand, np.uint32) for operand in each.operands[1:3])
    writer.store(each.operands[0], f"s.address_in_cluster({address}, {rank}, {writer.masked})", np.uint32)


def _refuse_cluster(writer: Writer, each: Instruction) -> None:
    """Raise UntranslatableError for a write to the shared memory of another block."""
    if "shared::cluster" in each.modifiers and writer.translation.function.cluster > 1:
        raise writer.unknown("(writes to the shared memory of another block of the cluster)")


@emits("st")
def _store(writer: Writer, each: Instruction) -> None:
    space, dtype = _space(each), dtype_of(each.modifiers[-1])
    kind = arithmetic.UNSIGNED[8 * np.dtype(dtype).itemsize]
    values = [writer.read(operand, kind) for operand in items_of(each.operands[1])]
    if space == "param":
        address = each.operands[0]
        assert isinstance(address, Address) and isinstance(address.base, Symbol)
        for i, value in enumerate(values):
            key = f"({address.base.name!r}, {address.offset + i * np.dtype(kind).itemsize})"
            writer.line(f"s.store_parameter(F, {key}, {value}, {writer.masked})")
        return
    _refuse_cluster(writer, each)
    if "release" in each.modifiers:
        writer.line(f"s.order_memory('release', {writer.masked})")
    address_text = ("F, " if space in ("local", "generic") else "") + writer.address(each.operands[0])
    size = np.dtype(kind).itemsize
    bounds = "" if space == "local" else bounds_of(writer, items_of(each.operands[1]))
    writer.line(f"s.store_{space}({address_text}, {size}, ({', '.join(values)},), {writer.masked}{bounds})")


@emits("atom", "red")
def _atomic(writer: Writer, each: Instruction) -> None:
    _refuse_cluster(writer, each)
    space = _space(each)
    operation = next(m for m in each.modifiers if m in _ATOMIC)
    dtype = dtype_of(each.modifiers[-1])
    order = next((m for m in each.modifiers if m in ("relaxed", "acquire", "release", "acq_rel")), "relaxed")
    operands = each.operands if each.opcode == "red" else each.operands[1:]
    values = [writer.read(operand, dtype) for operand in operands[1:]]
    memory_name = "shared" if space == "shared" else "global"
    writer.line(
        f"v = s.atomic_{memory_name}({writer.address(operands[0])}, {operation!r}, ({', '.join(values)},), "
        f"{order!r}, {writer.masked})"
    )
    if each.opcode == "atom":
        writer.store(each.operands[0], "v", dtype)


_ATOMIC = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


@emits("cp")
def _copy(writer: Writer, each: Instruction) -> None:
    operation = each.modifiers[1]
    if each.modifiers[:3] == ("reduce", "async", "bulk"):
        return EMITTERS["cp.async.bulk"](writer, each)
    if each.modifiers[0] != "async":
        raise writer.unknown()
    if operation == "bulk":
        return EMITTERS["cp.async.bulk"](writer, each)
    if operation == "commit_group":
        return writer.line(f"s.commit_copies({writer.masked})")
    if operation == "wait_all":
        return writer.line(f"s.wait_for_copies(0, {writer.masked}, True)")
    if operation == "wait_group":
        max_pending = each.operands[0]
        assert isinstance(max_pending, Immediate)
        return writer.line(f"s.wait_for_copies({max_pending.value}, {writer.masked})")
    if operation not in ("ca", "cg"):
        raise writer.unknown()
    target, source = writer.address(each.operands[0]), writer.address(each.operands[1])
    size = each.operands[2]
    assert isinstance(size, Immediate)
    filled = writer.read(each.operands[3], np.uint32) if len(each.operands) > 3 else f"u4({size.value})"
    return writer.line(f"s.copy_to_shared({target}, {source}, {size.value}, {filled}, {writer.masked})")


@emits("membar", "fence")
def _fence(writer: Writer, each: Instruction) -> None:
    if each.modifiers[0] == "proxy":
        return EMITTERS["fence.proxy"](writer, each)
    return writer.line(f"s.order_memory('release', {writer.masked})")


@emits("prefetch", "prefetchu", "discard", "applypriority", "griddepcontrol", "nanosleep")
def _hint(writer: Writer, each: Instruction) -> None:
    """Do nothing: the instruction affects only performance."""


@emits("createpolicy")
def _policy(writer: Writer, each: Instruction) -> None:
    writer.store(each.operands[0], "u8(0)", np.uint64)


@emits("trap", "brkpt")
def _trap(writer: Writer, each: Instruction) -> None:
    writer.line(f"s.trap({writer.masked})")
