"""A sample of the fuzz target `second_derivatives` passes: every twelfth row, and rows whose formulas keep
statistics.
"""

from typing import Any

import pytest

import triten as tt
from triten.tests.fuzz.campaigns.second_derivatives import OPEN, findings, tried_rows
from triten.tests.shared.second_derivatives import disagreements

ORDERS = ("reverse over reverse", "forward over reverse", "mapped reverse over forward")
ROWS = [row for i, row in enumerate(tried_rows()) if (i % 12 == 0 or "norm" in row) and row not in OPEN]


@pytest.mark.parametrize("row", ROWS)
def test_every_order_of_modes_agrees_with_differences(row: str) -> None:
    assert findings(row, 0, ORDERS) == []


class Cube(tt.autograd.Function):
    """x^3, whose gradient takes its slope for a constant."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.slope = 3 * x.detach() * x.detach()
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.slope


def test_a_lost_term_is_found() -> None:
    x = tt.tensor([0.3, 1.2], dtype=tt.float64)
    assert "reverse over reverse" in [order for order, _ in disagreements(Cube.apply, [x])]
