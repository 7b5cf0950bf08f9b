"""Comparison of a compiled kernel with its budget: its resource limits and required instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .disassembly import MATRIX, WIDEST


@dataclass(frozen=True)
class Expectation:
    """Numerical requirements that a kernel's declaration places on one request.

    Args:
        registers, shared, tensor_memory: Maximum of each at which the declared blocks are resident.
        opt_in: Maximum shared memory of a block.
        columns: Maximum tensor memory.
        threads: Threads of a block.
        local: Justified bytes of local memory.
        element_bits: Bits of each pointer's elements.
        aligned: Pointers known to be multiples of 16.
        loads, stores: Minimum width in bits of some access through a pointer.
        matrix: Required matrix instruction. None if none is claimed.
        exact: If True, no matrix instruction is allowed.
        bulk: Required copies through tensor maps.
    """

    registers: int
    shared: int
    tensor_memory: int
    opt_in: int
    columns: int
    threads: int
    local: int = 0
    element_bits: dict[str, int] = field(default_factory=dict)
    aligned: list[str] = field(default_factory=list)
    loads: dict[str, int] = field(default_factory=dict)
    stores: dict[str, int] = field(default_factory=dict)
    matrix: str | None = None
    exact: bool = False
    bulk: list[str] = field(default_factory=list)


def faults_of(expected: Expectation, compiled: Mapping[str, Any]) -> list[str]:
    """List the differences between a compiled kernel and its expectation."""
    if "error" in compiled:
        return [str(compiled["error"])]
    return [
        *_resources(expected, compiled),
        *_instructions(expected, compiled),
        *_accesses(expected, compiled),
        *compiled["layout"],
    ]


def _resources(expected: Expectation, compiled: Mapping[str, Any]) -> list[str]:
    faults = []
    for noun, used, limit in (
        ("registers of a thread", compiled["registers"], expected.registers),
        ("bytes of shared memory", compiled["shared"], expected.shared),
        ("columns of tensor memory", compiled["tensor_memory"], expected.tensor_memory),
    ):
        if used > limit:
            faults.append(f"{used} {noun}, where the declared occupancy leaves {limit}")
    if compiled["shared"] > expected.opt_in:
        faults.append(
            f"{compiled['shared']} bytes of shared memory, where a block can have {expected.opt_in}"
        )
    if compiled["tensor_memory"] > expected.columns:
        faults.append(
            f"{compiled['tensor_memory']} columns of tensor memory, where there are {expected.columns}"
        )
    # Local memory that nothing accesses is the frame of a call: a division's, say.
    if compiled["spills"] and (compiled["local"] > expected.local or not expected.local):
        faults.append(
            f"{compiled['local']} bytes of local memory and {compiled['spills']} accesses to it, where "
            f"{expected.local} bytes are justified"
        )
    if compiled["threads"] != expected.threads:
        faults.append(f"{compiled['threads']} threads of a block, expected {expected.threads}")
    return faults


def _instructions(expected: Expectation, compiled: Mapping[str, Any]) -> list[str]:
    faults = []
    if compiled["traps"]:
        faults.append("it traps: the compiler has left out what the target cannot do")
    matrix = compiled["matrix"]
    if expected.matrix is not None and expected.matrix not in matrix:
        faults.append(f"no {expected.matrix}, but {sorted(matrix) or 'no matrix instruction at all'}")
    if expected.exact and matrix:
        faults.append(f"{sorted(matrix)}, where products must round as IEEE 754 has it")
    faults += [
        f"no {name}, though a tensor map is given" for name in expected.bulk if name not in compiled["widths"]
    ]
    unknown = set(matrix) - set(MATRIX)
    return [*faults, *(f"{name} is no matrix instruction" for name in sorted(unknown))]


def _accesses(expected: Expectation, compiled: Mapping[str, Any]) -> list[str]:
    faults = []
    for kind, opcodes, least in (
        ("loads", ("LDG", "LDGSTS", "UTMALDG"), expected.loads),
        ("stores", ("STG", "UTMASTG"), expected.stores),
    ):
        for name, bits in least.items():
            widest = max(map(int, compiled["operands"].get(name, {}).get(kind, {})), default=0)
            if widest < bits:
                faults.append(f"{kind} of '{name}' are {widest} bits wide at most, where {bits} are claimed")
        required_bits = max(least.values(), default=0)
        in_sass = max((int(w) for o in opcodes for w in compiled["widths"].get(o, {})), default=0)
        if in_sass < required_bits:
            faults.append(
                f"{kind} in SASS are {in_sass} bits wide at most, where {required_bits} are claimed"
            )
    for name, element in expected.element_bits.items():
        max_bits = WIDEST if name in expected.aligned else element
        for kind in ("loads", "stores"):
            widest = max(map(int, compiled["operands"].get(name, {}).get(kind, {})), default=0)
            if widest > max_bits:
                faults.append(f"{kind} of '{name}' are {widest} bits wide, where only {max_bits} are aligned")
    return faults
