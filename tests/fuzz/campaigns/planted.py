"""Fuzz target with its own injected faults, which the framework must find: a wrong value, a crash, a hang, an
inner error.

A case is a list of small numbers. Each kind of fault has its own number. The environment variable
``FUZZ_PLANTED_FAULTS`` names the injected faults.
"""

import os
import random
import signal
import time
from collections.abc import Iterator

from ..campaign import AGREED, REFUSED_ALIKE, Campaign, Case, Finding, Outcome

CRASH, HANG, ERROR, WRONG, REFUSED = 90, 91, 92, 93, 94


class Planted(Campaign):
    name = "planted"
    limit = 1.0

    def draw(self, rng: random.Random) -> Case:
        return {"numbers": [rng.randrange(100) for _ in range(rng.randrange(1, 5))]}

    def run(self, case: Case) -> Outcome:
        planted = set(os.environ.get("FUZZ_PLANTED_FAULTS", "").split())
        numbers = case["numbers"]
        if "crash" in planted and CRASH in numbers:
            os.kill(os.getpid(), signal.SIGSEGV)
        if "hang" in planted and HANG in numbers:
            time.sleep(60)
        if "error" in planted and ERROR in numbers:
            raise KeyError(ERROR)
        if "wrong" in planted and WRONG in numbers:
            return Finding("wrong value", f"the sum of {len(numbers)} numbers is {sum(numbers)}")
        return REFUSED_ALIKE if REFUSED in numbers else AGREED

    def smaller(self, case: Case) -> Iterator[Case]:
        numbers = case["numbers"]
        for place in range(len(numbers)):
            yield {"numbers": numbers[:place] + numbers[place + 1 :]}

    def describe(self, case: Case) -> str:
        return f"sum({case['numbers']})"
