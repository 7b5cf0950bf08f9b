"""Injected faults at random points: out-of-memory errors, interrupts, writers that are killed or run out of
disk space.

A case names the action, the fault, and the number of the event at which the fault occurs. Events are
allocations, kernel calls, calls of the package's functions, or a writer's calls.
"""

import re
from collections.abc import Mapping
from typing import ClassVar

from triten.tests.fuzz.campaign import INTERPRETED, Campaign, Finding

WRITERS = 0.35
"""The share of the cases that are writers'."""
NUMBERS = 100_000
FEW = 60
"""Moments before a writer's end, at which half of the kills come: its file is put into place then."""


class Faults(Campaign):
    """Fuzz target on the CPU; it caches each action's state for later cases."""

    name = "faults"
    needs: ClassVar[Mapping[str, str]] = INTERPRETED
    limit = 240.0
    device = "cpu"

    def __init__(self):
        self._injectors = None
        self._disturbed = {}

    def draw(self, rng):
        from triten.tests.fuzz.faults import actions, disturbed, writers

        at = rng.randrange(NUMBERS)
        if self.device == "cpu" and rng.random() < WRITERS:
            at = rng.choice([at, -1 - rng.randrange(FEW)])
            return {
                "writer": rng.choice(list(writers.WRITERS)),
                "fault": rng.choice(writers.FAULTS),
                "at": at,
            }
        names = list(actions.ACTIONS) if self.device == "cpu" else list(actions.ON_CUDA)
        return {"action": rng.choice(names), "fault": rng.choice(disturbed.FAULTS), "at": at}

    def run(self, case):
        from triten.tests.fuzz.faults import writers
        from triten.tests.fuzz.faults.disturbed import Disturbed, Injectors

        if "writer" in case:
            return writers.disturb(case["writer"], case["fault"], case["at"])
        if self._injectors is None:
            self._injectors = Injectors(self.device).__enter__()
        name = case["action"]
        if name not in self._disturbed:
            self._disturbed[name] = Disturbed(name, self._injectors)
        outcome = self._disturbed[name].disturb(case["fault"], case["at"])
        if isinstance(outcome, Finding):
            self._drop()
        return outcome

    def replay(self, case):
        try:
            return self.run(case)
        finally:
            self._drop()

    def describe(self, case):
        return f"Faults().replay({case!r})"

    def family(self, case, finding):
        where = re.search(r"\(([^()]*)\)", finding.message)
        return f"{finding.kind}: {case.get('action', case.get('writer'))}, {case['fault']}, {where[1] if where else ''}"

    def _drop(self):
        self._disturbed.clear()
        if self._injectors is not None:
            self._injectors.__exit__()
            self._injectors = None


class FaultsOnCuda(Faults):
    """Those of actions on a GPU, which Triton's interpreter stands in for."""

    name = "faults_cuda"
    device = "cuda"
