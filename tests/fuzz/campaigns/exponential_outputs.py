"""Results far larger than their operands: refused at once, by an error of the operator or of the allocator."""

import random
import resource
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import triten as tt
from triten.tests.shared.interrupts import HANGS, in_child
from triten.tests.shared.large_outputs import ALLOWED, CALLS, MOST

from ..campaign import AGREED, INTERPRETED, REFUSED_ALIKE, Campaign, Case, Finding, Outcome

DEVICES = ("cpu", "meta", "cuda")
LEAST = 1 << 34
"""Elements, which no machine that runs the campaign computes within the limit."""
LONGEST = 15
"""Seconds of CPU time after which a child counts as a hang."""
ROOM = 4 << 30
"""Bytes of address space that a case has."""


class ExponentialOutputs(Campaign):
    """Each call in a fork with little memory: a value (of Meta, or of a small part), or an error that is allowed."""

    name = "exponential_outputs"
    needs: ClassVar[Mapping[str, str]] = {**INTERPRETED}
    limit: ClassVar[float] = 300.0
    forks = True

    def draw(self, rng: random.Random) -> Case:
        """Generate an operator, a device, and a size: near a power of two, or any size from `LEAST` on."""
        if rng.random() < 0.5:
            size = (1 << rng.randrange(34, 64)) + rng.randrange(-2, 3)
        else:
            size = int(LEAST * (MOST / LEAST) ** rng.random())
        return {"call": rng.choice([*CALLS]), "device": rng.choice(DEVICES), "size": min(size, MOST)}

    def run(self, case: Case) -> Outcome:
        """Make the call in a child."""

        def child() -> Any:
            resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
            tt.set_default_device(case["device"])
            try:
                CALLS[case["call"]](case["size"])
            except ALLOWED as error:
                return type(error).__name__
            return ""

        kind, found = in_child(child, LONGEST)
        if kind == "value":
            return REFUSED_ALIKE if found else AGREED
        what = f"{case['call']} on {case['device']}"
        if kind == "death":
            return Finding("hang" if found in HANGS else "crash", f"{what}: exit status {found}")
        return Finding("inner error", f"{what}: {found}")

    def smaller(self, case: Case) -> Iterator[Case]:
        """Try smaller sizes."""
        if case["size"] > LEAST:
            yield {**case, "size": max(LEAST, case["size"] // 16)}

    def describe(self, case: Case) -> str:
        """Return the case as a call."""
        return f"ExponentialOutputs().run({case!r})"
