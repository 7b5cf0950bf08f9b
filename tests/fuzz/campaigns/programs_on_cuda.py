"""Programs on simulated GPUs, by the Triton kernels, beside the same programs on the CPU."""

import random
from collections.abc import Mapping
from typing import ClassVar

import triten as tt

from ..campaign import INTERPRETED, Case
from ..programs import gradients
from ..programs.execution import Record, run
from ..programs.writer import EVERYTHING, draw_program
from .programs import TwoSidedCampaign

KINDS = {kind: weight for kind, weight in EVERYTHING.items() if kind is not gradients.autocast}
"""Without autocast, which has other lists on a GPU."""


class InterpretedPrograms(TwoSidedCampaign):
    """By kernels in Triton's interpreter."""

    name = "programs_interpreted"
    needs: ClassVar[Mapping[str, str]] = INTERPRETED
    sides = ("CUDA", "the CPU")
    limit = 120.0
    most: ClassVar[int] = 15

    def draw(self, rng: random.Random) -> Case:
        """Generate a short program."""
        inputs, body = draw_program(rng, KINDS, most=self.most)
        return {"inputs": inputs, "body": body}

    def both(self, statements: list[str], *, wide: bool = False) -> tuple[Record, Record]:
        """Run the statements on the simulated GPU and on the CPU."""
        expected = run(tt, statements, wide=wide)
        with tt.device("cuda"):
            return run(tt, on_cuda(statements), wide=wide), expected


def on_cuda(statements: list[str]) -> list[str]:
    """Replace the CPU by CUDA in the statements."""
    return [text.replace("'cpu'", "'cuda'") for text in statements]


class EmulatedPrograms(InterpretedPrograms):
    """By what kernels are compiled to for sm_90, executed on the CPU."""

    name = "programs_emulated"
    needs: ClassVar[Mapping[str, str]] = {"TRITEN_CUDA": "emulate", "TRITEN_EMULATE": "90"}
    limit = 300.0
    most: ClassVar[int] = 8
