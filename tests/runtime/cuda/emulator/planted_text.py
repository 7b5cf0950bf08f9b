"""Text faults: changes of a kernel's PTX, at places where a change can matter.

A place counts if the call reaches it: it executes the instruction, the omitted mask hides a thread, or the
exchanged operands differ. A `Probe` tests this: a piece of PTX that traps, put before the line of the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

Change = Callable[[re.Match[str]], str]
Probe = Callable[[re.Match[str], str], str]
"""The PTX that traps where a place matters, of the match and of the guard that its line begins with."""
GUARD = re.compile(r"\s*@(!?)(%p\d+)\s")


@dataclass
class Text:
    """Text of a kernel, and a predicate: whether the call traps with another text."""

    text: str
    traps: Callable[[str], bool]
    _known: dict[tuple[int, str], bool] = field(default_factory=dict)

    def matters(self, match: re.Match[str], probe: Probe) -> bool:
        """Return True if a probe before the line of a match traps."""
        at = self.text.rfind("\n", 0, match.start()) + 1
        found = GUARD.match(self.text, at)
        inserted = probe(match, f"@{found[1]}{found[2]} " if found else "")
        key = at, inserted
        if key not in self._known:
            self._known[key] = self.traps(f"{self.text[:at]}{inserted}\n{self.text[at:]}")
        return self._known[key]


Mutant = Callable[[Text], str | None]


def is_executed(match: re.Match[str], guard: str) -> str:
    """Return a probe that traps if a thread executes the instruction."""
    return f"{guard}trap;"


def is_masked(match: re.Match[str], guard: str) -> str:
    """Return a probe that traps if the instruction's mask hides a thread."""
    return f"{guard.replace('@', '@!').replace('!!', '')}trap;"


def differ(first: str, second: str, guard: str) -> str:
    """Return a probe that traps if two operands differ in a thread that executes the instruction."""
    if not guard:
        return f"{{ .reg .pred planted; setp.ne.b32 planted, {first}, {second}; @planted trap; }}"
    test = f"setp.ne.and.b32 planted, {first}, {second}, {guard.strip().removeprefix('@')};"
    return f"{{ .reg .pred planted; {test} @planted trap; }}"


def nth(pattern: str, change: Change, number: int, probe: Probe = is_executed) -> Mutant:
    """Return a mutant that changes the number-th match that matters, or None. Negative numbers count from
    the end.
    """

    def mutate(given: Text) -> str | None:
        left, matches = number, list(re.finditer(pattern, given.text))
        if number < 0:
            left, matches = -number - 1, matches[::-1]
        for match in matches:
            if given.matters(match, probe):
                if left == 0:
                    return given.text[: match.start()] + change(match) + given.text[match.end() :]
                left -= 1
        return None

    return mutate


def everywhere(pattern: str, change: str, start: int | str = 0) -> Mutant:
    """Return a mutant that changes all matches from a place on."""

    def mutate(given: Text) -> str:
        text = given.text
        at = start if isinstance(start, int) else max(text.find(start), 0)
        return text[:at] + re.sub(pattern, change, text[at:])

    return mutate


def without(pattern: str, *numbers: int) -> list[Mutant]:
    """Return mutants that delete a match."""
    return [nth(pattern, lambda m: "", number) for number in numbers]


BARRIER = r"bar\.sync \t0;"
WIDE = r"(mad|mul)\.wide\.(s32|u32) \t(%rd\d+, (%r\d+)), (\d+)"
WAIT = r"cp\.async\.wait_group \t(\d+)"
SHARED_LOAD = r"(ld\.shared\.\S+ \t[^;]*\[%r\d+)\]"
TEXT: dict[str, list[Mutant]] = {
    "missing barrier": without(BARRIER, -1, 0),
    "missing barriers": [everywhere(BARRIER, "")],
    "missing mask of a load": [
        nth(r"@%p\d+ (ld\.global|cp\.async\.c[ag])", lambda m: m[1], i, is_masked) for i in (-1, 0)
    ],
    "missing mask of a store": [nth(r"@%p\d+ (st\.global)", lambda m: m[1], i, is_masked) for i in (-1, 0)],
    "wrong stride": [
        nth(
            WIDE,
            lambda m: f"{m[1]}.wide.{m[2]} \t{m[3]}, {int(m[5]) * 2}",
            0,
            lambda m, guard: differ(m[4], "0", guard),
        )
    ],
    "wrong offset of a store": [nth(r"(st\.global\.\S+ \[ %rd\d+) \+ 0", lambda m: f"{m[1]} + 8", 0)],
    "wrong place in shared memory": [nth(SHARED_LOAD, lambda m: f"{m[1]}+128]", i) for i in (0, -1)],
    "bounds off by one": [everywhere(r"setp\.lt\.s(32|64)", r"setp.le.s\1")],
    "wait for too few copies": [nth(WAIT, lambda m: f"cp.async.wait_group \t{int(m[1]) + 2}", 0)],
    "atomic operation without an order": [everywhere(r"(atom\.\S*?)acq_rel", r"\1relaxed")],
    "wrong partner": [nth(r"(shfl\.sync\.bfly\.b32 \t[^;]*?), 16, 31", lambda m: f"{m[1]}, 8, 31", 0)],
}

AWAITED = r"mbarrier\.try_wait\.parity\.\S+ complete, (\[%r\d+\]), (%r\d+);\s*@!complete bra\.uni waitLoop;"
EXPECTED = r"mbarrier\.arrive\.expect_tx\.(\S+) _, (\[%r\d+\]), (\d+);"
FIRST_TWO = r"\{(%r\d+), (%r\d+)((?:, %r\d+)*)\}"
LOADED = r"(cp\.async\.bulk\.tensor\.\dd\.shared\S+) \[(%r\d+)\], \[(%rd\d+), " + FIRST_TWO
STORED = r"(cp\.async\.bulk\.tensor\.\dd\.global\S+ \[%rd\d+, )" + FIRST_TWO
DESCRIPTOR = r"or\.b64 \t(%rd\d+), (%rd\d+), (\d{18,});"
PRODUCT = r"(wgmma\.mma_async[^;]*\}, %rd\d+, %rd\d+, )([^;]*?), 1, 1, (\d), (\d);"


def waited_with(parity: str) -> Change:
    """Return a change that gives a match's wait another parity."""
    return lambda m: m[0].replace(f"{m[1]}, {m[2]};", f"{m[1]}, {parity};")


def expecting(change: Callable[[int], int]) -> Change:
    """Return a change that makes an arrival expect another number of bytes."""
    return lambda m: m[0].replace(f", {m[3]};", f", {change(int(m[3]))};")


TEXT_BY_UNITS: dict[str, list[Mutant]] = {
    "missing wait for a bulk copy": without(AWAITED, 0, -1),
    "wrong parity": [
        nth(AWAITED, waited_with(parity), i, lambda m, guard, parity=parity: differ(m[2], parity, guard))  # type: ignore[misc]
        for parity in ("0", "1")
        for i in (0, -1)
    ],
    "fewer bytes expected": [nth(EXPECTED, expecting(lambda n: n // 2), i) for i in (0, -1)],
    "more bytes expected": [nth(EXPECTED, expecting(lambda n: n + 16), i) for i in (0, -1)],
    "no bytes expected": [nth(EXPECTED, lambda m: f"mbarrier.arrive.{m[1]} _, {m[2]};", i) for i in (0, -1)],
    "nothing expected": without(r"@%p\d+ mbarrier\.arrive\.expect_tx[^;]*;", 0, -1),
    "barrier that is not made": without(r"@%p\d+ mbarrier\.init[^;]*;", 0, -1),
    "barrier for two": [nth(r"(mbarrier\.init\S+ \[%r\d+\]), 1;", lambda m: f"{m[1]}, 2;", 0)],
    "missing proxy fence": [
        *without(r"fence\.proxy\.async[^;]*;", 0, -1),
        everywhere(r"fence\.proxy[^;]*;", ""),
    ],
    "missing wait for products": without(r"wgmma\.wait_group[^;]*;", 0, -2, -1),
    "wait for too few products": [
        nth(
            r"wgmma\.wait_group\.sync\.aligned (\d)",
            lambda m: f"wgmma.wait_group.sync.aligned {int(m[1]) + 1}",
            i,
        )
        for i in (0, -2)
    ],
    "missing commit of products": without(r"wgmma\.commit_group[^;]*;", 0, -1),
    "missing fence of registers": without(r"wgmma\.fence[^;]*;", 0, -1),
    "missing barriers": [everywhere(BARRIER, "", start) for start in (0, "wgmma", "stmatrix")],
    "missing wait for stores": [
        *without(r"cp\.async\.bulk\.wait_group[^;]*;", 0, -1),
        everywhere(r"cp\.async\.bulk\.wait_group[^;]*;", ""),
    ],
    "missing commit of stores": without(r"cp\.async\.bulk\.commit_group;", 0),
    "coordinates exchanged": [
        *(
            nth(
                LOADED,
                lambda m: f"{m[1]} [{m[2]}], [{m[3]}, {{{m[5]}, {m[4]}{m[6]}}}",
                i,
                lambda m, guard: differ(m[4], m[5], guard),
            )
            for i in (0, -1)
        ),
        nth(
            STORED,
            lambda m: f"{m[1]}{{{m[3]}, {m[2]}{m[4]}}}",
            -1,
            lambda m, guard: differ(m[2], m[3], guard),
        ),
    ],
    "wrong place in shared memory": [
        nth(LOADED, lambda m: m[0].replace(f"[{m[2]}]", f"[{m[2]}+1024]"), i) for i in (0, -1)
    ],
    "misaligned place in shared memory": [
        nth(LOADED, lambda m: m[0].replace(f"[{m[2]}]", f"[{m[2]}+16]"), 0)
    ],
    "copy by every thread": [nth(r"@%p\d+ " + LOADED, lambda m: m[0].split(" ", 1)[1], i) for i in (0, -1)],
    "wrong swizzle": [
        nth(DESCRIPTOR, lambda m: f"or.b64 {m[1]}, {m[2]}, {int(m[3]) ^ 3 << 62};", i) for i in (0, -1)
    ],
    "wrong stride of a descriptor": [
        nth(DESCRIPTOR, lambda m: f"or.b64 {m[1]}, {m[2]}, {int(m[3]) ^ 1 << 38};", 0)
    ],
    "operand turned round": [nth(PRODUCT, lambda m: f"{m[1]}{m[2]}, 1, 1, {m[3]}, {1 - int(m[4])};", 0)],
    "sums dropped": [nth(PRODUCT, lambda m: f"{m[1]}0, 1, 1, {m[3]}, {m[4]};", -1)],
}
