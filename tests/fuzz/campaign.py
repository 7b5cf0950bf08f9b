"""Interface of a fuzz target: generate a case, run it, and shrink it."""

import enum
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

Case = dict[str, Any]
"""One case, of what JSON can hold: all that is needed to run it again on any machine."""


class Verdict(enum.Enum):
    """Result of a case that is not a finding."""

    AGREED = "agreed"
    REFUSED_ALIKE = "refused alike"
    KNOWN = "known difference"
    """An intended difference, whose reason the target states."""
    OUTSIDE = "outside"
    """A case without a promise, or on which the oracle itself failed."""


AGREED, REFUSED_ALIKE, KNOWN, OUTSIDE = Verdict

INTERPRETED: Mapping[str, str] = {"TRITEN_CUDA": "interpret", "TRITON_INTERPRET": "1"}
"""What a campaign needs whose CUDA tensors are computed by Triton's interpreter."""


@dataclass(frozen=True)
class Finding:
    """A failure: its kind, which shrinking preserves, and a message.

    The framework itself reports "crash", "hang" and "inner error" (an exception that left `Campaign.run`).
    Fuzz targets also report "wrong value", "accuracy", "wrong type", "wrong layout", "refused otherwise" and
    "operand changed".
    """

    kind: str
    message: str


Outcome = Verdict | Finding


class Campaign(ABC):
    """A fuzz target: a source of cases and the judge of each.

    The parent process also imports the target's module and may lack the oracle, so methods import PyTorch
    where they use it. Each worker makes the target once. The target may cache expensive objects, but the
    cache must not change a case's result.
    """

    name: ClassVar[str]
    needs_oracle: ClassVar[bool] = False
    needs: ClassVar[Mapping[str, str]] = {}
    """Environment variables of the workers, in addition to the parent's."""
    limit: ClassVar[float] = 20.0
    """Time limit of a case in seconds; a slower case counts as a hang."""
    forks: ClassVar[bool] = False
    """Whether a worker is a fork of a process that has prepared, and that lives on when the worker dies: for a campaign
    whose preparation takes long and starts no threads."""
    memory_limit: ClassVar[int] = 0
    """Limit of a worker's address space in bytes; 0 for no limit."""

    def prepare(self) -> None:
        """Import and make what takes long, once in each worker, before the first case's time begins."""
        return

    @abstractmethod
    def draw(self, rng: random.Random) -> Case:
        """Return a random case; `rng` is the only source of randomness."""

    @abstractmethod
    def run(self, case: Case) -> Outcome:
        """Run a case and judge it. An exception that leaves it is a finding of the kind "inner error"."""

    def smaller(self, case: Case) -> Iterator[Case]:
        """Yield smaller cases to try, the largest reductions first."""
        yield from ()

    def describe(self, case: Case) -> str:
        """Return the case as a program that a person can paste."""
        return repr(case)

    def family(self, case: Case, finding: Finding) -> str:
        """Return a key for findings of one fault; the search shrinks and prints one finding of each family."""
        return f"{finding.kind}: {re.sub(r'0x[0-9a-f]+|[-+]?[0-9][0-9.e+-]*', 'N', finding.message)}"

    def judge_death(self, case: Case, finding: Finding) -> Outcome:
        """Return the outcome of a crash or a hang; the finding's message ends with the worker's stack.

        A fuzz target with an oracle returns `OUTSIDE` when the oracle crashed.
        """
        return finding

    def record(self, case: Case) -> Case:
        """Return the case as `found/` stores it, including the oracle's result if there is an oracle."""
        return case

    def replay(self, case: Case) -> Outcome:
        """Run a stored case again, in the tests' own process and without an oracle."""
        return self.run(case)
