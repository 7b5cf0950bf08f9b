"""Programs on simulated GPUs, by the Triton kernels, beside the same programs on the CPU."""

import random
from collections.abc import Mapping
from typing import ClassVar

import triten as tt

from ..campaign import AGREED, KNOWN, REFUSED_ALIKE, Case, Finding, Outcome
from ..programs import gradients
from ..programs.execution import Record, run
from ..programs.judgement import Difference, Known, compare, in_double
from ..programs.writer import EVERYTHING, draw_program
from .programs import ProgramCampaign

KINDS = {kind: weight for kind, weight in EVERYTHING.items() if kind is not gradients.autocast}
"""Without autocast, which has other lists on a GPU."""
NAMES = ("CUDA", "the CPU")


class InterpretedPrograms(ProgramCampaign):
    """By kernels in Triton's interpreter."""

    name = "programs_interpreted"
    needs: ClassVar[Mapping[str, str]] = {"TRITEN_CUDA": "interpret", "TRITON_INTERPRET": "1"}
    limit = 120.0
    most: ClassVar[int] = 15

    def draw(self, rng: random.Random) -> Case:
        """A program, short."""
        inputs, body = draw_program(rng, KINDS, most=self.most)
        return {"inputs": inputs, "body": body}

    def run(self, case: Case) -> Outcome:
        """Compare the devices; numbers that differ are looked at again in float64."""
        statements = [*case["inputs"], *case["body"]]
        found, expected = self._both(statements)
        outcome = self._judged(found, expected, statements)
        if not (isinstance(outcome, Finding) and outcome.kind == "wrong value"):
            return outcome
        wide = in_double(statements)
        again = self._judged(*self._both(wide, wide=True), wide)
        return again if isinstance(again, Finding) and again.kind == "wrong value" else AGREED

    def _both(self, statements: list[str], *, wide: bool = False) -> tuple[Record, Record]:
        expected = run(tt, statements, wide=wide)
        with tt.device("cuda"):
            return run(tt, on_cuda(statements), wide=wide), expected

    def _judged(self, found: Record, expected: Record, statements: list[str]) -> Outcome:
        try:
            compare(found, expected, NAMES, statements)
        except Known:
            return KNOWN
        except Difference as difference:
            return Finding(difference.kind, str(difference))
        return REFUSED_ALIKE if found.errors else AGREED


def on_cuda(statements: list[str]) -> list[str]:
    """The same statements, where they name the CPU."""
    return [text.replace("'cpu'", "'cuda'") for text in statements]


class EmulatedPrograms(InterpretedPrograms):
    """By what kernels are compiled to for sm_90, executed on the CPU."""

    name = "programs_emulated"
    needs: ClassVar[Mapping[str, str]] = {"TRITEN_CUDA": "emulate", "TRITEN_EMULATE": "90"}
    limit = 300.0
    most: ClassVar[int] = 8
