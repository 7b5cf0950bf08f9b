"""Calls for fault injection into sm_100 kernels, and the faults: misuses of tensor memory.

Places are counted in the text, executed or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import triten as tt
from triten.tests.runtime.cuda.emulator.planted_calls import F, halves
from triten.tests.runtime.cuda.emulator.planted_text import (
    AWAITED,
    EXPECTED,
    Change,
    Mutant,
    Text,
    waited_with,
)
from triten.triton_kernels.attention import forward
from triten.triton_kernels.products import tensor_memory

LOADED = r"(@%p\d+) (cp\.async\.bulk\.tensor\.\dd\.shared\S+) \[(%r\d+)\], (\[%rd\d+, \{)(%r\d+), (%r\d+)"


def nth(pattern: str, change: Change, number: int) -> Mutant:
    """Return a mutant that changes the number-th match, or None if there is none. Negative numbers count
    from the end.
    """

    def mutate(given: Text) -> str | None:
        found = list(re.finditer(pattern, given.text))
        if not -len(found) <= number < len(found):
            return None
        match = found[number]
        return given.text[: match.start()] + change(match) + given.text[match.end() :]

    return mutate


def without(pattern: str, *numbers: int) -> list[Mutant]:
    """Return mutants that delete a match."""
    return [nth(pattern, lambda m: "", number) for number in numbers]


CALLS_OF_TENSOR_MEMORY: dict[str, tuple[str, Callable[..., Any], list[Any]]] = {
    # Three tiles in two places, and more steps than the ring has.
    "mm": ("matmul_tensor_memory", tt.mm, [halves(72, 200), halves(200, 328)]),
    "attention": (
        "attention_tensor_memory",
        F.scaled_dot_product_attention,
        [halves(1, 1, 136, 64), halves(1, 1, 136, 64), halves(1, 1, 136, 64)],
    ),
}

COMMIT = r"@%p\d+ tcgen05\.commit[^;]*;"
ANY_PRODUCT = r"@%p\d+ tcgen05\.mma[^;]*;"
PRODUCT_OF_A_THREAD = r"(@%p\d+ tcgen05\.mma[^;]*?, %r\d+), %p\d+;"
ADDRESS = r"(\[ ?%r\d+ \+ )(\d+)"


def with_address(name: str, change: Callable[[int], int], which: int = 0) -> Callable[[int], Mutant]:
    """Return mutants that change the which-th address of an instruction."""

    def mutant(number: int) -> Mutant:
        def changed(m: re.Match[str]) -> str:
            found = list(re.finditer(ADDRESS, m[0]))[which]
            return m[0][: found.start()] + found[1] + str(change(int(found[2]))) + m[0][found.end() :]

        return nth(rf"tcgen05\.{name}\b[^;]*;", changed, number)

    return mutant


TEXT_OF_TENSOR_MEMORY: dict[str, list[Mutant]] = {
    "missing commit": without(COMMIT, 0, 1, -1),
    "missing wait": without(AWAITED, 0, 1, 2, -3, -2, -1),
    "wrong parity": [nth(AWAITED, waited_with(parity), i) for parity in ("0", "1") for i in (0, 1, -2, -1)],
    "missing wait for loads": [
        lambda given: re.sub(r"tcgen05\.wait::ld[^;]*;", "", given.text),
        *without(r"tcgen05\.wait::ld[^;]*;", -1),
    ],
    "missing wait for stores": [
        lambda given: re.sub(r"tcgen05\.wait::st[^;]*;", "", given.text),
        *without(r"tcgen05\.wait::st[^;]*;", -1),
    ],
    "wrong column of a load": [with_address("ld", lambda at: at + 8)(i) for i in (0, -1)],
    "lanes of another warp": [with_address("ld", lambda at: at + (32 << 16))(0)],
    "wrong column of a store": [with_address("st", lambda at: at + 8)(i) for i in (0, -1)],
    "wrong column of sums": [with_address("mma", lambda at: at + 32)(i) for i in (0, -1)],
    "wrong column of weights": [with_address("mma", lambda at: at + 8, 1)(-5)],
    "fewer columns": [lambda given: re.sub(r"(tcgen05\.(?:de)?alloc[^;]*, )512;", r"\g<1>256;", given.text)],
    "missing deallocation": [lambda given: re.sub(r"@%p\d+ tcgen05\.dealloc[^;]*;", "", given.text)],
    "another number of columns freed": [
        nth(r"(tcgen05\.dealloc[^;]*, )(\d+);", lambda m: f"{m[1]}{int(m[2]) // 2};", i) for i in (0, -1)
    ],
    "missing allocation": without(r"@%p\d+ tcgen05\.alloc[^;]*;", 0),
    "products left out": without(r"@%p\d+ tcgen05\.mma[^;]*;", 0, 1, -1),
    "products by every thread": [nth(r"@%p\d+ tcgen05\.mma", lambda m: "tcgen05.mma", i) for i in (0, -1)],
    "sums that are always added to": [
        nth(PRODUCT_OF_A_THREAD, lambda m: f"{{ .reg .pred q; setp.eq.b32 q, 0, 0; {m[1]}, q; }}", 0)
    ],
    "commit before the products": [nth(rf"((?:{ANY_PRODUCT}[^@]*)+)({COMMIT})", lambda m: m[2] + m[1], -1)],
    "fewer bytes expected": [
        nth(EXPECTED, lambda m: m[0].replace(f", {m[3]};", f", {int(m[3]) // 2};"), i) for i in (0, -1)
    ],
    "missing proxy fence": [
        *without(r"fence\.proxy\.async[^;]*;", 1, -1),
        lambda given: re.sub(r"fence\.proxy[^;]*;", "", given.text),
    ],
    "missing barriers of a group": [lambda given: re.sub(r"bar\.sync \t\d+, 128;", "", given.text)],
    "missing wait for stores to memory": [
        lambda given: re.sub(r"cp\.async\.bulk\.wait_group[^;]*;", "", given.text)
    ],
    "barrier for one more": [
        nth(r"(mbarrier\.init\S+ \[%r\d+\]), (\d);", lambda m: f"{m[1]}, {int(m[2]) + 1};", i)
        for i in (0, -1)
    ],
    "other types": [
        nth(r"mov\.b32 \t(%r\d+), (13\d{7});", lambda m: f"mov.b32 {m[1]}, {int(m[2]) ^ 1 << 7};", i)
        for i in (0, -1)
    ],
    "operand turned round": [
        nth(r"mov\.b32 \t(%r\d+), (13\d{7});", lambda m: f"mov.b32 {m[1]}, {int(m[2]) ^ 1 << 16};", i)
        for i in (0, -1)
    ],
    "wrong swizzle": [
        nth(r"mov\.b32 \t(%r\d+), 1073758272;", lambda m: f"mov.b32 {m[1]}, {1073758272 ^ 3 << 30};", 0)
    ],
    "coordinates exchanged": [
        nth(LOADED, lambda m: f"{m[1]} {m[2]} [{m[3]}], {m[4]}{m[6]}, {m[5]}", i) for i in (0, -1)
    ],
}


FEWER_FOR_ATTENTION = (
    *("missing wait", "wrong parity", "missing wait for loads", "missing wait for stores", "fewer columns"),
    *("wrong column of a store", "wrong column of weights", "missing commit", "commit before the products"),
    *("missing barriers of a group", "missing proxy fence"),
)
"""What is planted into the longer one of both kernels."""


def mutants_of(call: str) -> dict[str, list[Mutant]]:
    """Return the faults of a call's kernel."""
    if call != "attention":
        return TEXT_OF_TENSOR_MEMORY
    return {name: TEXT_OF_TENSOR_MEMORY[name] for name in FEWER_FOR_ATTENTION}


def choose_small_tiles() -> None:
    """Let the kernels with tensor memory serve small calls, a program of two tiles each."""
    forward.MIN_SPAN = 1 << 20
    tensor_memory.MIN_WAVES = 0
    tensor_memory.multiprocessors = lambda device: 1  # type: ignore[assignment]
    tensor_memory.TILES = {itemsize: tiles[-1:] for itemsize, tiles in tensor_memory.TILES.items()}
