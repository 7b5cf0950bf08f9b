"""How an integer follows from sizes: a polynomial of the second degree, found from examples and held to more."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import NamedTuple


class Polynomial(NamedTuple):
    """An integer for each choice of sizes: the sum of coefficients times products of at most two sizes.

    Example:
        >>> from triten.compiler.dynamic_shapes.polynomials import fitted
        >>> area = fitted([(2,), (3,), (5,), (7,)], [7, 12, 28, 52])
        >>> area.at((10,))
        103
        >>> fitted([(2,), (3,), (5,), (7,)], [1, 1, 2, 3]) is None
        True
    """

    terms: tuple[tuple[int, tuple[int, ...]], ...]

    def at(self, sizes: Sequence[int]) -> int:
        """Its value for these sizes."""
        total = 0
        for coefficient, factors in self.terms:
            for factor in factors:
                coefficient *= sizes[factor]
            total += coefficient
        return total


def products(count: int) -> list[tuple[int, ...]]:
    """The products of at most two of so many sizes, by the sizes' places."""
    return [factors for degree in range(3) for factors in combinations_with_replacement(range(count), degree)]


def fitted(sizes: Sequence[tuple[int, ...]], values: Sequence[int]) -> Polynomial | None:
    """The polynomial with integer coefficients that gives each value at its sizes; None where there is none.

    There must be more examples than coefficients: the rest is what it is held to.
    """
    basis = products(len(sizes[0]))
    rows = [
        [*(Fraction(product_of(at, factors)) for factors in basis), Fraction(value)]
        for at, value in zip(sizes, values, strict=True)
    ]
    solution = _solved(rows, len(basis))
    if solution is None or any(c.denominator != 1 for c in solution):
        return None
    found = Polynomial(tuple([(int(c), factors) for c, factors in zip(solution, basis, strict=True) if c]))
    matches = all(found.at(at) == v for at, v in zip(sizes, values, strict=True))
    return found if matches and len(sizes) > len(basis) else None


def product_of(sizes: Sequence[int], factors: Sequence[int]) -> int:
    """The product of the sizes at these places."""
    found = 1
    for factor in factors:
        found *= sizes[factor]
    return found


def _solved(rows: list[list[Fraction]], count: int) -> list[Fraction] | None:
    """Gauss' elimination; None where the rows do not say what the unknowns are."""
    for column in range(count):
        pivot = next((i for i in range(column, len(rows)) if rows[i][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column]
        for i, row in enumerate(rows):
            if i != column and row[column]:
                factor = row[column] / head[column]
                rows[i] = [a - factor * b for a, b in zip(row, head, strict=True)]
    return [rows[i][count] / rows[i][i] for i in range(count)]
