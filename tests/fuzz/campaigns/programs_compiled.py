"""Programs as functions, compiled and run eagerly: results to the bit, gradients, writes to arguments."""

import contextlib
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from unittest import mock

import triten as tt

from ..campaign import AGREED, INTERPRETED, OUTSIDE, Case, Finding, Outcome
from ..programs import gradients, views
from ..programs.execution import run
from ..programs.function import Function, outcome
from ..programs.judgement import Difference, compare_results
from ..programs.writer import WITH_BLOCKS, WITHOUT_GRADIENTS, draw_program
from .programs import ProgramCampaign
from .programs_on_cuda import on_cuda

LOOPS = [
    f"triten.compiler.{name}"
    for name in (
        *(
            "concatenations",
            "draws",
            "loss_gradients",
            "norm_gradients",
            "one_hots",
            "passes.views_first",
            "picks",
        ),
        *("host.block_reductions", "host.pointwise", "host.rows", "host.single_steps"),
    )
]
"""Modules that ask whether kernels can have loops in machine code."""


SUM = re.compile(r"\b(nan)?(sum|mean|prod|var|std|var_mean|std_mean|norm|logsumexp)\(")
LARGE = 32768
"""Elements up to which sums have the bits of eager calls."""


def is_large(text: str) -> bool:
    """Return True if a statement makes a large input."""
    count = re.search(r"tt\.arange\((\d+)\)", text)
    return count is not None and int(count[1]) > LARGE


class CompiledPrograms(ProgramCampaign):
    """`tt.compile` of a program beside the program, twice: the second call runs the graph of the first."""

    name = "programs_compiled"

    def draw(self, rng: random.Random) -> Case:
        """Generate a program without errors, with or without compiled loops for the kernels."""
        drawn = WITH_BLOCKS if rng.random() < 0.3 else WITHOUT_GRADIENTS
        # Eagerly, as in PyTorch, no gradient reaches what `as_strided` of a view sees outside of that; a graph's does.
        kinds = {kind: weight for kind, weight in drawn.items() if kind is not views.strided}
        inputs, body = draw_program(rng, kinds, errors=0.0, most=14, large=0.15)
        return {"inputs": inputs, "body": body, "loops": rng.random() < 0.3}

    def run(self, case: Case) -> Outcome:
        """Compare the compiled function with the function."""
        body = what_runs(case["inputs"], case["body"])
        # Backward may compute anew what it reads of memory that is written through `data`, or have kept it.
        is_exact = self.is_exact(case["inputs"], body)
        writes_data = any(".data" in each for each in body)
        function = Function.of(case["inputs"], body)
        with contextlib.ExitStack() as stack:
            if not case["loops"]:
                for module in LOOPS:
                    stack.enter_context(mock.patch(f"{module}.is_possible", lambda: False))
            stack.callback(tt.compiler.reset)
            compiled: Callable[..., Any] = tt.compile(function.call)
            for call in range(2):
                expected = outcome(function, function.call)
                if expected.error:
                    return OUTSIDE
                found = outcome(function, compiled)
                try:
                    compare_results(found, expected, exact=is_exact, compares_gradients=not writes_data)
                except Difference as difference:
                    return Finding(difference.kind, f"call {call}: {difference}")
        return AGREED

    def is_exact(self, inputs: list[str], body: list[str]) -> bool:
        """Return True if results must be bitwise identical to eager; longer sums may use another order."""
        return not (any(SUM.search(each) for each in body) and any(map(is_large, inputs)))


class CompiledProgramsOnCuda(CompiledPrograms):
    """The same on a simulated GPU, by kernels in Triton's interpreter."""

    name = "programs_compiled_cuda"
    needs: ClassVar[Mapping[str, str]] = INTERPRETED
    limit = 120.0

    def draw(self, rng: random.Random) -> Case:
        """Generate a short program on few elements."""
        drawn = WITH_BLOCKS if rng.random() < 0.3 else WITHOUT_GRADIENTS
        kinds = {
            kind: weight for kind, weight in drawn.items() if kind not in (views.strided, gradients.autocast)
        }
        inputs, body = draw_program(rng, kinds, errors=0.0, most=8)
        return {"inputs": on_cuda(inputs), "body": on_cuda(body), "loops": True}

    def run(self, case: Case) -> Outcome:
        """Run the case with CUDA as the default device."""
        with tt.device("cuda"):
            return super().run(case)

    def is_exact(self, inputs: list[str], body: list[str]) -> bool:
        """Return True if the body has no sum: fused reductions on CUDA use other tiles."""
        return not any(SUM.search(each) for each in body)


def what_runs(inputs: list[str], body: list[str]) -> list[str]:
    """Return the statements that do not raise and whose variables exist."""
    record = run(tt, [*inputs, *body])
    passed = set(record.errors) | record.passed_over
    return [text for number, text in enumerate(body, len(inputs)) if number not in passed]
