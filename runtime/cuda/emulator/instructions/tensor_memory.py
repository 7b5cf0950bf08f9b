"""Instructions of sm_100's tensor memory as Python statements; see `writer` for how, `tensor_cores` for what."""

from __future__ import annotations

import numpy as np

from ..ptx import Address, Immediate, Instruction, Operand, Vector
from .writer import Writer, emits

SHAPES = ("32x32b", "16x32bx2")
"""Emulated shapes of loads and stores."""
SCALED = {"mxf8f6f4": ("block32",), "mxf4": ("block32",), "mxf4nvf4": ("block16", "block32")}
"""Kinds of block-scaled matmuls, and their block sizes."""


@emits("tcgen05")
def _tensor_memory(writer: Writer, each: Instruction) -> None:
    operation = each.modifiers[0]
    if "cta_group::2" in each.modifiers:
        raise writer.unknown("(products of two blocks)")
    match operation:
        case "alloc" | "dealloc":
            first, count = each.operands
            address = writer.address(first) if operation == "alloc" else writer.read(first, np.uint32)
            call = "allocate" if operation == "alloc" else "free"
            writer.line(f"s.units.cores.{call}({address}, {writer.read(count, np.uint32)}, {writer.masked})")
        case "relinquish_alloc_permit":
            writer.line(f"s.units.cores.relinquish({writer.masked})")
        case "ld" | "st":
            _access(writer, each)
        case "wait::ld":
            writer.line(f"s.units.cores.wait_for_loads({writer.masked})")
        case "wait::st":
            writer.line(f"s.units.cores.wait_for_stores({writer.masked})")
        case "commit" if "multicast::cluster" not in each.modifiers:
            writer.line(f"s.units.cores.commit({writer.address(each.operands[0])}, {writer.masked})")
        case "mma":
            _products(writer, each)
        case "fence::before_thread_sync" | "fence::after_thread_sync":
            # These fences order a thread's own accesses around a barrier, which run in program order here. Triton
            # omits them, so that a missing fence is no finding.
            pass
        case _:
            raise writer.unknown()


def _access(writer: Writer, each: Instruction) -> None:
    shape = each.modifiers[3]
    if shape not in SHAPES or each.modifiers[-1] != "b32" or len(each.modifiers) != 6:
        raise writer.unknown()
    operands = list(each.operands)
    registers = operands.pop(0 if each.modifiers[0] == "ld" else -1)
    items = registers.items if isinstance(registers, Vector) else (registers,)
    address, *rest = operands
    split = rest[0].value if rest and isinstance(rest[0], Immediate) else 0
    if len(items) != int(each.modifiers[4][1:]) or (shape == "16x32bx2") != bool(rest):
        raise writer.unknown()
    address_text = writer.address(address)
    if each.modifiers[0] == "ld":
        writer.line(
            f"v = s.units.cores.load({len(items)}, {shape!r}, {address_text}, {split}, {writer.masked})"
        )
        for i, item in enumerate(items):
            writer.store(item, f"v[{i}]", np.uint32)
    else:
        values = ", ".join(writer.read(item, np.uint32) for item in items)
        writer.line(f"s.units.cores.store({shape!r}, {address_text}, {split}, ({values},), {writer.masked})")


def _products(writer: Writer, each: Instruction) -> None:
    if "block_scale" in each.modifiers:
        _scaled_products(writer, each)
        return
    kind = each.modifiers[-1].removeprefix("kind::")
    if len(each.modifiers) != 3 or kind not in ("f16", "tf32", "f8f6f4", "i8") or len(each.operands) != 5:
        raise writer.unknown()
    sums, left, right, descriptor, adds = each.operands
    writer.line(
        f"s.units.cores.multiply({kind!r}, {writer.address(sums)}, {_operand(writer, left)}, "
        f"{writer.read(right, np.uint64)}, {writer.read(descriptor, np.uint32)}, {writer.read(adds, np.bool_)}, "
        f"{isinstance(left, Address)}, {writer.masked})"
    )


def _scaled_products(writer: Writer, each: Instruction) -> None:
    kind, vector = each.modifiers[2].removeprefix("kind::"), each.modifiers[-1]
    if (
        len(each.modifiers) != 5
        or kind not in SCALED
        or vector not in SCALED[kind]
        or len(each.operands) != 7
    ):
        raise writer.unknown()
    sums, left, right, descriptor, *scales, adds = each.operands
    if isinstance(left, Address):
        raise writer.unknown("(a scaled left operand in tensor memory)")
    scale_addresses = ", ".join(writer.address(each) for each in scales)
    writer.line(
        f"s.units.cores.multiply_scaled({kind!r}, {int(vector.removeprefix('block'))}, {writer.address(sums)}, "
        f"{_operand(writer, left)}, {writer.read(right, np.uint64)}, {writer.read(descriptor, np.uint32)}, "
        f"{scale_addresses}, {writer.read(adds, np.bool_)}, {writer.masked})"
    )


def _operand(writer: Writer, operand: Operand) -> str:
    """Return the expression for a matrix descriptor, or for an address of tensor memory."""
    return writer.address(operand) if isinstance(operand, Address) else writer.read(operand, np.uint64)
