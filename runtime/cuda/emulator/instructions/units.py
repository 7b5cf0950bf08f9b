"""Instructions of sm_90's asynchronous units as Python statements; see `writer` for how, `asynchronous` for what."""

from __future__ import annotations

import re

import numpy as np

from ..ptx import Address, Immediate, Instruction, Vector
from .writer import Writer, emits, items_of


@emits("mbarrier")
def _barrier(writer: Writer, each: Instruction) -> None:
    operation, rest = each.modifiers[0], each.modifiers[1:]
    if operation in ("init", "inval", "expect_tx"):
        address = writer.address(each.operands[0])
        if operation == "inval":
            return writer.line(f"s.units.end_barrier({address}, {writer.masked})")
        count = writer.read(each.operands[1], np.uint32)
        call = "make_barrier" if operation == "init" else "expect"
        return writer.line(f"s.units.{call}({address}, {count}, {writer.masked})")
    if operation != "arrive" or "noComplete" in rest:
        raise writer.unknown()
    address = writer.address(each.operands[1])
    operand = writer.read(each.operands[2], np.uint32) if len(each.operands) > 2 else "u4(1)"
    count, expected = ("u4(1)", operand) if "expect_tx" in rest else (operand, "u4(0)")
    writer.line(f"v = s.units.arrive({address}, {count}, {expected}, {writer.masked})")
    return writer.store(each.operands[0], "v", np.uint64)


@emits("mbarrier.wait")
def _wait(writer: Writer, each: Instruction) -> None:
    kind = np.uint32 if "parity" in each.modifiers else np.uint64
    address, value = writer.address(each.operands[1]), writer.read(each.operands[2], kind)
    writer.line(f"s.tested_phase = {address}, {value}")


@emits("fence.proxy")
def _fence_proxy(writer: Writer, each: Instruction) -> None:
    if each.modifiers[1].startswith("tensormap") and "acquire" in each.modifiers:
        return writer.line(f"s.units.copies.acquire_map({writer.address(each.operands[0])}, {writer.masked})")
    if each.modifiers[1] != "async":
        raise writer.unknown()
    return writer.line(f"s.units and s.units.fence_proxy({writer.masked})")


@emits("tensormap")
def _map(writer: Writer, each: Instruction) -> None:
    address = writer.address(each.operands[0])
    if each.modifiers[0] == "cp_fenceproxy":
        return writer.line(
            f"s.units.copies.publish_map({address}, {writer.address(each.operands[1])}, {writer.masked})"
        )
    if each.modifiers[:2] != ("replace", "tile") or not each.modifiers[3].startswith("shared"):
        raise writer.unknown()
    *index_operand, value = each.operands[1:]
    number = index_operand[0].value if index_operand and isinstance(index_operand[0], Immediate) else 0
    return writer.line(
        f"s.units.copies.replace_field({each.modifiers[2]!r}, {number}, {address}, {writer.read(value, np.uint64)}, "
        f"{writer.masked})"
    )


@emits("elect")
def _elect(writer: Writer, each: Instruction) -> None:
    target = each.operands[0]
    writer.line(f"v, w = s.elect({writer.read(each.operands[1], np.uint32)}, {writer.masked})")
    writer.store(target.first, "v", np.uint32)  # type: ignore[union-attr]
    writer.store(target.second, "w", np.bool_)  # type: ignore[union-attr]


@emits("setmaxnreg")
def _registers(writer: Writer, each: Instruction) -> None:
    count = each.operands[0]
    assert isinstance(count, Immediate)
    writer.line(f"s.units.give_registers({count.value}, {writer.masked})")


@emits("cp.async.bulk")
def _bulk(writer: Writer, each: Instruction) -> None:
    rest = each.modifiers[3 if each.modifiers[0] == "reduce" else 2 :]
    if rest[0] == "prefetch":
        return None
    if rest[0] == "commit_group":
        return writer.line(f"s.units.copies.commit_stores({writer.masked})")
    if rest[0] == "wait_group":
        max_pending = each.operands[0]
        assert isinstance(max_pending, Immediate)
        return writer.line(f"s.units.copies.wait_for_stores({max_pending.value}, {writer.masked})")
    if each.modifiers[0] == "reduce" and rest[0] != "tensor":
        raise writer.unknown()
    if any(name in rest for name in ("multicast::cluster", "im2col", "tile::gather4", "tile::scatter4")):
        raise writer.unknown()
    if rest[0] == "tensor":
        return _bulk_tensor(writer, each, rest[2:])
    values = [writer.read(each.operands[2], np.uint32), writer.masked]
    target, source = writer.address(each.operands[0]), writer.address(each.operands[1])
    if rest[0].startswith("shared") and rest[1] == "global":
        values.insert(1, writer.address(each.operands[3]))
        return writer.line(f"s.units.copies.load_bytes({target}, {source}, {', '.join(values)})")
    if rest[0] == "global":
        return writer.line(f"s.units.copies.store_bytes({target}, {source}, {', '.join(values)})")
    raise writer.unknown()


def _bulk_tensor(writer: Writer, each: Instruction, rest: tuple[str, ...]) -> None:
    loads = rest[0].startswith("shared") and rest[1] == "global"
    if not loads and rest[0] != "global":
        raise writer.unknown()
    tensor = each.operands[1 if loads else 0]
    assert isinstance(tensor, Address) and tensor.coordinates is not None
    coordinates = ", ".join(writer.read(item, np.uint32) for item in tensor.coordinates.items)
    map_ = writer.address(tensor._replace(coordinates=None))
    shared = writer.address(each.operands[0 if loads else 1])
    if loads:
        barrier = writer.address(each.operands[2])
        writer.line(
            f"s.units.copies.load_box({shared}, {map_}, ({coordinates},), {barrier}, {writer.masked})"
        )
    else:
        operation = rest[2] if each.modifiers[0] == "reduce" else ""
        writer.line(
            f"s.units.copies.store_box({map_}, ({coordinates},), {shared}, {writer.masked}, {operation!r})"
        )


@emits("wgmma")
def _products(writer: Writer, each: Instruction) -> None:
    operation = each.modifiers[0]
    if operation == "fence":
        return writer.line(f"s.units.products.fence(R, {writer.masked})")
    if operation == "commit_group":
        return writer.line(f"s.units.products.commit({writer.masked})")
    if operation == "wait_group":
        max_pending = each.operands[0]
        assert isinstance(max_pending, Immediate)
        return writer.line(f"s.units.products.wait({max_pending.value}, R, {writer.masked})")
    if operation != "mma_async" or "sp" in each.modifiers:
        raise writer.unknown()
    shape = next(match for m in each.modifiers if (match := re.fullmatch(r"m64n(\d+)k(\d+)", m)))
    types = [m for m in each.modifiers[4:] if m != "satfinite"]
    if len(types) != 3 or types[0] not in ("f16", "f32", "s32"):
        raise writer.unknown()
    sums, left, right, scale, *numbers = each.operands
    immediates = [item.value for item in numbers if isinstance(item, Immediate)] + [0] * 4
    signs = (immediates[0], immediates[1]) if len(numbers) >= 2 else (1, 1)
    in_registers = isinstance(left, Vector)
    turned = (False, bool(immediates[2])) if in_registers else (bool(immediates[2]), bool(immediates[3]))
    if isinstance(left, Vector):
        a = repr(tuple(writer.place(item) for item in left.items))
    else:
        a = writer.read(left, np.uint64)
    targets = tuple(writer.place(item) for item in items_of(sums))
    return writer.line(
        f"s.units.products.multiply(R, {targets}, ({shape[1]}, {shape[2]}), {tuple(types)!r}, {a}, "
        f"{writer.read(right, np.uint64)}, {writer.read(scale, np.bool_)}, {signs}, {turned}, "
        f"{'satfinite' in each.modifiers}, {writer.masked})"
    )
