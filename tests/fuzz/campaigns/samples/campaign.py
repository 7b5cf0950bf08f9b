"""Fuzz targets over operator samples: one to three mutations of a sample, and both libraries' outcomes."""

import copy
import random
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from ...campaign import INTERPRETED, KNOWN, OUTSIDE, Campaign, Case, Finding, Outcome
from . import expectations, programs, shrinking
from .mutations import OF_TENSORS
from .mutations_of_numbers import OF_NUMBERS, output

TRIES = 20
IN_PLACE, AS_METHOD, WITH_OUTPUT = 0.15, 0.1, 0.15


class Samples(Campaign):
    """Mutated samples on the CPU."""

    name = "samples"
    needs_oracle = True
    forks = True
    memory_limit = 4 << 30
    device: ClassVar[str] = "cpu"

    def prepare(self) -> None:
        from .database import operators

        operators()

    def draw(self, rng: random.Random) -> Case:
        from .database import DTYPES, bases, operators

        for _ in range(TRIES):
            number = rng.randrange(len(operators()))
            found = []
            if rng.random() < 0.9:
                import torch

                found = bases(number, torch.float32)
            if not found:
                found = bases(number, rng.choice(DTYPES))
            if found:
                break
        else:
            raise RuntimeError("no operator with samples was drawn")
        base = rng.choice(found)
        case = copy.deepcopy(base.case) | {"device": self.device}
        form = rng.random()
        if form < WITH_OUTPUT and base.results is not None:
            output(rng, case, base.results, base.is_single)
        elif form < WITH_OUTPUT + IN_PLACE + AS_METHOD:
            _of_tensor(case, in_place=form < WITH_OUTPUT + IN_PLACE)
        kinds = {**OF_TENSORS, **OF_NUMBERS}
        left = rng.choices((1, 2, 3), (15, 4, 1))[0]
        for _ in range(TRIES):
            if rng.choices(list(kinds), list(kinds.values()))[0](rng, case):
                left -= 1
                if not left:
                    break
        return shrinking.without_unused_storages(case)

    def run(self, case: Case) -> Outcome:
        import warnings

        import torch

        from .oracle import run

        torch.set_num_threads(1)
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run(case)

    def smaller(self, case: Case) -> Iterator[Case]:
        return map(shrinking.without_unused_storages, shrinking.smaller(case))

    def describe(self, case: Case) -> str:
        return programs.program(case)

    def family(self, case: Case, finding: Finding) -> str:
        message = re.sub(r"'[^']*'|\"[^\"]*\"|0x[0-9a-f]+|[-+]?\d[\d.e+-]*", "N", finding.message)
        return f"{finding.kind}: {case.get('call')}: {message[:70]}"

    def judge_death(self, case: Case, finding: Finding) -> Outcome:
        if finding.kind == "hang" and "polynomial" in str(case.get("call")):
            return KNOWN  # a degree of millions takes as many steps
        # The stack's first lines are the innermost frames.
        ours, _, theirs = finding.message.partition(" in theirs_of")
        return OUTSIDE if theirs or "database.py" in ours else finding

    def record(self, case: Case) -> Case:
        from ....conformance.operators import FREE, RANDOM
        from .oracle import name_of, theirs_of

        name = name_of(case)
        free = bool(RANDOM.match(name) or FREE.match(name))
        return case | {"free": free, "expected": expectations.expectation(theirs_of(case).outcome)}

    def replay(self, case: Case) -> Outcome:
        return expectations.replay(case)


def _of_tensor(case: Case, *, in_place: bool) -> None:
    """Change the call to the method of the same name, or its in-place form, if both libraries have it."""
    import torch

    import triten as tt

    name = case["call"].rpartition(".")[2]
    name = f"{name}_" if in_place and not name.endswith("_") else name
    first = case["arguments"][0] if case["arguments"] else None
    if not (isinstance(first, dict) and "tensor" in first) or case["call"].startswith(
        ("special", "fft", "linalg")
    ):
        return
    if callable(getattr(tt.Tensor, name, None)) and callable(getattr(torch.Tensor, name, None)):
        case["call"] = f"Tensor.{name}"


class SamplesOnMeta(Samples):
    """The same without values: shapes, dtypes and refusals."""

    name = "samples_meta"
    device = "meta"


class SamplesOnCuda(Samples):
    """The same on CUDA, in Triton's interpreter where there is no GPU."""

    name = "samples_cuda"
    device = "cuda"
    limit = 120.0
    needs: ClassVar[Mapping[str, str]] = INTERPRETED
