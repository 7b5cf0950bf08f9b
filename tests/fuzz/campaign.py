"""What a campaign is: how it draws a case, runs one, and makes one smaller."""

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
    """What a case that is no finding came to."""

    AGREED = "agreed"
    REFUSED_ALIKE = "refused alike"
    KNOWN = "known difference"
    """It differs on purpose; the campaign has the reason."""
    OUTSIDE = "outside"
    """Nothing is promised about it, or the oracle itself failed."""


AGREED, REFUSED_ALIKE, KNOWN, OUTSIDE = Verdict

INTERPRETED: Mapping[str, str] = {"TRITEN_CUDA": "interpret", "TRITON_INTERPRET": "1"}
"""What a campaign needs whose CUDA tensors are computed by Triton's interpreter."""


@dataclass(frozen=True)
class Finding:
    """What is wrong: a kind, of which a smaller case must be too, and a message.

    Kinds that the frame itself gives are "crash", "hang" and "inner error" (an exception that left `Campaign.run`).
    Others in use: "wrong value", "accuracy", "wrong type", "wrong layout", "refused otherwise", "operand changed".
    """

    kind: str
    message: str


Outcome = Verdict | Finding


class Campaign(ABC):
    """A source of cases, and the judge of each.

    Its module is imported by the parent too, which may lack the oracle: what needs PyTorch is imported where it is
    used. A campaign is made once in each worker, and may keep what is expensive to make; what it keeps must not change
    what a case comes to.
    """

    name: ClassVar[str]
    needs_oracle: ClassVar[bool] = False
    needs: ClassVar[Mapping[str, str]] = {}
    """Environment variables of its workers, beside the parent's own."""
    limit: ClassVar[float] = 20.0
    """Seconds that a case may take: over it, it hangs."""
    forks: ClassVar[bool] = False
    """Whether a worker is a fork of a process that has prepared, and that lives on when the worker dies: for a campaign
    whose preparation takes long and starts no threads."""
    memory_limit: ClassVar[int] = 0
    """Bytes of address space that a worker may have; 0: as many as it likes."""

    def prepare(self) -> None:
        """Import and make what takes long, once in each worker, before the first case's time begins."""
        return

    @abstractmethod
    def draw(self, rng: random.Random) -> Case:
        """A case, with no other source of randomness than `rng`."""

    @abstractmethod
    def run(self, case: Case) -> Outcome:
        """Run a case and judge it. An exception that leaves it is a finding of the kind "inner error"."""

    def smaller(self, case: Case) -> Iterator[Case]:
        """Smaller cases to try in its place, those that take most away first."""
        yield from ()

    def describe(self, case: Case) -> str:
        """The case as a program that a person can paste."""
        return repr(case)

    def family(self, case: Case, finding: Finding) -> str:
        """What findings of one fault have in common: of each family one is made smaller and shown."""
        return f"{finding.kind}: {re.sub(r'0x[0-9a-f]+|[-+]?[0-9][0-9.e+-]*', 'N', finding.message)}"

    def judge_death(self, case: Case, finding: Finding) -> Outcome:
        """What a crash or a hang means; the finding's message ends with the stack of the worker.

        A campaign with an oracle says `OUTSIDE` where that died.
        """
        return finding

    def record(self, case: Case) -> Case:
        """The case as it is stored among the found ones: with what the oracle gives, if there is one."""
        return case

    def replay(self, case: Case) -> Outcome:
        """Run a stored case again, in the tests' own process and without an oracle."""
        return self.run(case)
