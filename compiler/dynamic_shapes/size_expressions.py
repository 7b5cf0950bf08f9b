"""Integers as expressions of named sizes: polynomials fitted to examples, and numbers that programs compute from
sizes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

Product = tuple[str, ...]
"""Names that are multiplied, in order; empty for a number."""
Sizes = Mapping[str, int]

OPERATIONS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "neg": "-"}
"""Python's operators that programs compute sizes with."""


class SizeExpression(NamedTuple):
    """Polynomial of sizes, by its coefficients.

    Example:
        >>> from triten.compiler.dynamic_shapes.size_expressions import SizeExpression
        >>> SizeExpression({("batch", "length"): 2, (): 1}).value({"batch": 3, "length": 5})
        31
    """

    coefficients: dict[Product, int]

    def value(self, sizes: Sizes) -> int:
        """Return the number at these sizes."""
        total = 0
        for product, coefficient in self.coefficients.items():
            term = coefficient
            for name in product:
                term *= sizes[name]
            total += term
        return total

    def __str__(self) -> str:
        terms = [
            "*".join([*([str(number)] if number != 1 or not product else []), *product])
            for product, number in self.coefficients.items()
        ]
        return " + ".join(terms) or "0"


class ComputedSize(NamedTuple):
    """Number that a program computes from sizes by a Python operator, if no polynomial equals it.

    Example:
        >>> from triten.compiler.dynamic_shapes.size_expressions import ComputedSize, SizeExpression
        >>> half = ComputedSize("floordiv", (SizeExpression({("n",): 1}), 2))
        >>> str(half), half.value({"n": 7})
        ('(n // 2)', 3)
    """

    operation: str
    operands: tuple[Number, ...]

    def value(self, sizes: Sizes) -> int:
        """Return the number at these sizes. Raise ZeroDivisionError as the program would."""
        result: int = getattr(operator, self.operation)(*[value_of(each, sizes) for each in self.operands])
        return result

    def __str__(self) -> str:
        shown = [str(each) for each in self.operands]
        sign = OPERATIONS[self.operation]
        return f"({f' {sign} '.join(shown)})" if len(shown) > 1 else f"{sign}({shown[0]})"


Number = int | SizeExpression | ComputedSize


def value_of(number: Number, sizes: Sizes) -> int:
    """Return a number at these sizes."""
    return number if isinstance(number, int) else number.value(sizes)


def names_in(number: Number) -> set[str]:
    """Return the names of the sizes that a number depends on."""
    if isinstance(number, int):
        return set()
    if isinstance(number, SizeExpression):
        return {name for product in number.coefficients for name in product}
    return {name for each in number.operands for name in names_in(each)}


def constants_in(number: Number) -> set[int]:
    """Return the integers in an expression."""
    if isinstance(number, int):
        return {number}
    if isinstance(number, SizeExpression):
        return set(number.coefficients.values())
    return {n for each in number.operands for n in constants_in(each)}


def products(names: Sequence[str], has_squares: bool) -> list[Product]:
    """Return the monomials of the names, with each name at most once; with `has_squares`, squares too.

    Example:
        >>> from triten.compiler.dynamic_shapes.size_expressions import products
        >>> products(["a", "b"], True)
        [(), ('a',), ('b',), ('a', 'b'), ('a', 'a'), ('b', 'b')]
    """
    monomials = [each for count in range(len(names) + 1) for each in itertools.combinations(names, count)]
    return monomials + [(name, name) for name in names] if has_squares else monomials


def fitted(names: Sequence[str], points: Sequence[Sizes], values: Sequence[int]) -> SizeExpression | None:
    """Return the polynomial with integer coefficients that fits each value at its sizes; None if there is none.

    Squares are used if there is no fit without them, and if there are more examples than coefficients, to verify the
    fit.

    Example:
        >>> from triten.compiler.dynamic_shapes.size_expressions import fitted
        >>> points = [{"n": 2}, {"n": 3}, {"n": 5}, {"n": 7}]
        >>> str(fitted(["n"], points, [7, 12, 28, 52]))
        'n*n + 3'
        >>> fitted(["n"], points, [1, 1, 2, 3]) is None
        True
    """
    for has_squares in (False, True):
        basis = products(names, has_squares)
        if len(points) < len(basis) + has_squares:
            continue
        rows = [
            [*(Fraction(SizeExpression({each: 1}).value(point)) for each in basis), Fraction(value)]
            for point, value in zip(points, values, strict=True)
        ]
        solution = _solved(rows, len(basis))
        if solution is None or any(each.denominator != 1 for each in solution):
            continue
        terms = sorted(zip(basis, solution, strict=True), reverse=True)
        polynomial = SizeExpression({product: int(number) for product, number in terms if number})
        if all(polynomial.value(point) == value for point, value in zip(points, values, strict=True)):
            return polynomial
    return None


def _solved(rows: list[list[Fraction]], count: int) -> list[Fraction] | None:
    """Solve by Gaussian elimination; return None if the rows do not determine the unknowns."""
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
