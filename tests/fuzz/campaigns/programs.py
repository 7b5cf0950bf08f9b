"""Whole programs of drawn statements, by triten and by PyTorch: every variable and error is compared."""

import random
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import triten as tt

from ..campaign import AGREED, KNOWN, OUTSIDE, REFUSED_ALIKE, Campaign, Case, Finding, Outcome
from ..programs.execution import Record, as_json, from_json, run
from ..programs.judgement import Difference, Known, compare, in_double
from ..programs.writer import draw_program


class ProgramCampaign(Campaign):
    """Base of fuzz targets over programs: a case holds the statements that make inputs, and the body."""

    limit: ClassVar[float] = 60.0

    def draw(self, rng: random.Random) -> Case:
        """Generate a program."""
        inputs, body = draw_program(rng)
        return {"inputs": inputs, "body": body}

    def smaller(self, case: Case) -> Iterator[Case]:
        """Drop half of the statements, a quarter, and so on, the last ones first; then drop an input."""
        body = case["body"]
        size = max(1, len(body) // 2)
        while True:
            for start in range(len(body) - size, -1, -size):
                yield {**case, "body": body[:start] + body[start + size :]}
            if size == 1:
                break
            size //= 2
        for number in range(len(case["inputs"])):
            yield {**case, "inputs": case["inputs"][:number] + case["inputs"][number + 1 :]}

    def family(self, case: Case, finding: Finding) -> str:
        """Return the message without numbers and variable names; all value differences are one family."""
        if finding.kind == "wrong value":
            return finding.kind
        return super().family(case, finding)

    def describe(self, case: Case) -> str:
        """Return the program's source."""
        return "\n".join(["import triten as tt", *case["inputs"], *case["body"]])


class TwoSidedCampaign(ProgramCampaign):
    """Base of fuzz targets that run a program on two sides and compare every statement and variable.

    A numeric difference in lower-precision dtypes is a finding only if it also occurs in float64. Rounding
    may grow, and a discontinuous step may fall on the other side.
    """

    sides: ClassVar[tuple[str, str]]
    """Names of the two sides."""

    @abstractmethod
    def both(self, statements: list[str], *, wide: bool = False) -> tuple[Record, Record]:
        """Return the records of the statements on the tested side and on the reference side."""

    def run(self, case: Case) -> Outcome:
        """Compare what the two did."""
        statements = [*case["inputs"], *case["body"]]
        outcome = self.judged(*self.both(statements), statements)
        if not (isinstance(outcome, Finding) and outcome.kind == "wrong value"):
            return outcome
        if self.needs_oracle and any(".view(tt." in text for text in statements):
            return OUTSIDE  # bits of narrow numbers, which wide ones have not
        wide = in_double(statements)
        again = self.judged(*self.both(wide, wide=True), wide)
        return again if isinstance(again, Finding) and again.kind == "wrong value" else AGREED

    def judged(self, found: Record, expected: Record, statements: list[str]) -> Outcome:
        """Compare two records of one program."""
        try:
            compare(found, expected, self.sides, statements)
        except Known:
            return KNOWN
        except Difference as difference:
            return Finding(difference.kind, str(difference))
        return REFUSED_ALIKE if found.errors else AGREED


class Programs(TwoSidedCampaign):
    """triten's CPU against PyTorch's."""

    name = "programs"
    needs_oracle = True
    sides = ("triten", "PyTorch")

    def both(self, statements: list[str], *, wide: bool = False) -> tuple[Record, Record]:
        """Run the statements in triten and in PyTorch, with one thread."""
        import torch

        torch.set_num_threads(1)
        return run(tt, statements, wide=wide), run(torch, statements, settle=True, wide=wide)

    def record(self, case: Case) -> Case:
        """Return the case with PyTorch's record."""
        import torch

        expected = run(torch, [*case["inputs"], *case["body"]], settle=True)
        return {**case, "expected": as_json(expected)}

    def replay(self, case: Case) -> Outcome:
        """Compare with what PyTorch did then."""
        statements = [*case["inputs"], *case["body"]]
        return self.judged(run(tt, statements), from_json(case["expected"]), statements)

    def judge_death(self, case: Case, finding: Finding) -> Outcome:
        """Return `OUTSIDE` if the worker crashed in PyTorch, otherwise the finding."""
        return OUTSIDE if "site-packages/torch/" in finding.message else finding
