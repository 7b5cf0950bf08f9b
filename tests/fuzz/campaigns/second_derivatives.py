"""Rows of `derivatives.yaml`: second derivatives in every order of modes beside differences, at drawn values."""

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import triten as tt
from triten.tests.dispatch.autograd import test_every_derivative as every
from triten.tests.shared.second_derivatives import ORDERS, NotSmoothError, disagreements

from ..campaign import AGREED, KNOWN, OUTSIDE, Campaign, Case, Finding, Outcome

MAY_REFUSE = (
    "vmap: ",
    "lengths' argument should be a 1D CPU int64 tensor",
    "specified up to multiplication by e^{i phi}",
)
"""What an order of modes may say of a row: a write to what is not mapped, values that are read."""


def tried_rows() -> list[str]:
    """Return the rows with a second derivative."""
    outside = (
        every.RANDOM | every.STRAIGHT_THROUGH | every.UNDERIVABLE | every.NO_FLOAT64 | every.REVERSE_ONLY
    )
    return [row for row in every.ROWS if row not in outside | {"_basic_index_backward"}]


def function_of(row: str, seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """Return a row as a function of only its inputs, and the inputs."""
    call, given = every.prepared(row, seed)
    leaves: list[Any] = []

    def opened(value: Any) -> Any:
        if isinstance(value, tt.Tensor) and value.requires_grad:
            leaves.append(value)
            number = len(leaves) - 1
            return lambda values: values[number]
        if isinstance(value, list):
            parts = [opened(each) for each in value]
            return lambda values: [part(values) for part in parts]
        return lambda values: value

    arguments = [opened(value) for value in given]
    return lambda *values: call(*[argument(values) for argument in arguments]), leaves


def findings(row: str, seed: int, orders: Sequence[str] = tuple(ORDERS)) -> list[tuple[str, str]]:
    """Return the orders of modes that disagree with finite differences. Raises NotSmoothError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            (order, found)
            for order, found in disagreements(*function_of(row, seed), orders)
            if not any(text in found for text in MAY_REFUSE)
        ]


class SecondDerivatives(Campaign):
    """One row at values of a seed."""

    name = "second_derivatives"

    def draw(self, rng: random.Random) -> Case:
        """Choose a row and the seed of its values."""
        return {"row": rng.choice(tried_rows()), "seed": rng.randrange(1 << 20)}

    def run(self, case: Case) -> Outcome:
        """Compare every order of modes with differences."""
        try:
            found = findings(case["row"], case["seed"])
        except NotSmoothError:
            return OUTSIDE
        if not found:
            return AGREED
        if case["row"] in OPEN:
            return KNOWN
        return Finding("wrong value", f"{case['row']}: {'; '.join(f'{o}: {f}' for o, f in found)}")

    def describe(self, case: Case) -> str:
        """Return the case as a call."""
        return f"findings({case['row']!r}, {case['seed']})"


OPEN = {"grid_sampler_2d_backward"}
"""Rows that refuse an order of modes: a tangent has other strides than its tensor, and is viewed like it."""
