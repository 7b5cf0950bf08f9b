"""Merging of matmuls with one right operand."""

from __future__ import annotations

import pytest

import triten as tt
from triten.fx.experimental.merge_matmul import merge_matmul


class Shared(tt.nn.Module):
    """The right operand is a parameter; a use of the first result stands before the second left operand."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tt.nn.Parameter(tt.randn(3, 5))

    def forward(self, a: tt.Tensor, b: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
        first = tt.matmul(a, self.w).relu()
        return first, tt.matmul(b.exp(), self.w)


class Groups(tt.nn.Module):
    """Two groups of matmuls, the second of which uses the results of the first."""

    def forward(self, a: tt.Tensor, b: tt.Tensor, w: tt.Tensor, v: tt.Tensor) -> tuple[tt.Tensor, ...]:
        return tt.matmul(tt.matmul(a, w), v), tt.matmul(tt.matmul(b, other=w), v)


class Chain(tt.nn.Module):
    """The second matmul uses the first."""

    def forward(self, a: tt.Tensor, w: tt.Tensor) -> tuple[tt.Tensor]:
        return (tt.matmul(tt.matmul(a, w), w),)


CASES = [
    (Shared, [(2, 3), (4, 3)], 1),
    (Groups, [(2, 3), (4, 3), (3, 5), (5, 2)], 2),
    (Chain, [(2, 3), (3, 3)], 2),
]


@pytest.mark.parametrize(("model", "shapes", "matmuls"), CASES)
def test_independent_matmuls_are_one(
    model: type[tt.nn.Module], shapes: list[tuple[int, ...]], matmuls: int
) -> None:
    module = model()
    merged = merge_matmul(module)
    assert sum(node.target is tt.matmul for node in merged.graph.nodes) == matmuls
    operands = [tt.randn(*shape) for shape in shapes]
    for found, expected in zip(merged(*operands), module(*operands), strict=True):
        tt.testing.assert_close(found, expected)
