"""Sizes as expressions of named ones: found by comparing graphs of a module that were captured at several sizes.

An expression is a sum of products of names, each name at most once in a product: ``6*batch + 2``, ``batch*length``. Two
sizes of each name decide it; that it holds for others is checked with captures at other sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

Product = tuple[str, ...]
"""Names that are multiplied, in order; empty for a number."""
Path = tuple[str | int, ...]
"""The way to a number in a graph's rows."""
Sizes = Mapping[str, int]


class DifferentGraphsError(Exception):
    """Two graphs of a module differ in more than numbers; the message has the step."""


class SizeExpression(NamedTuple):
    """A sum of products, by its coefficients.

    Example:
        >>> from triten.compiler.export.size_expressions import SizeExpression
        >>> SizeExpression({("batch", "length"): 2, (): 1}).value({"batch": 3, "length": 5})
        31
    """

    coefficients: dict[Product, int]

    def value(self, sizes: Sizes) -> int:
        """The number at these sizes."""
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


def fitted(
    names: Sequence[str], ends: Mapping[str, tuple[int, int]], numbers: Mapping[Product, int]
) -> SizeExpression:
    """The expression of numbers at every choice of an end for each name.

    Args:
        names: the names, in order.
        ends: two sizes of each.
        numbers: by the names that are at their second size.

    Raises:
        DifferentGraphsError: a coefficient is no whole number.
    """
    found: dict[Product, Fraction] = {}
    values: dict[Product, Fraction] = {chosen: Fraction(number) for chosen, number in numbers.items()}
    # By one name after the other, from values at its two ends to its slope and its value at 0.
    for name in names:
        first, second = ends[name]
        for chosen in [each for each in values if name not in each]:
            above = tuple([n for n in names if n in chosen or n == name])
            slope = (values[above] - values[chosen]) / (second - first)
            values[chosen], values[above] = values[chosen] - first * slope, slope
    found = {product: value for product, value in values.items() if value}
    if any(value.denominator != 1 for value in found.values()):
        raise DifferentGraphsError(f"a size that is no sum of products of {', '.join(names)}")
    return SizeExpression({product: int(value) for product, value in sorted(found.items(), reverse=True)})


def corners(names: Sequence[str]) -> list[Product]:
    """Every choice of names."""
    return [each for count in range(len(names) + 1) for each in itertools.combinations(names, count)]


def differing_numbers(rows: Sequence[Any]) -> Iterator[tuple[Path, list[int]]]:
    """The whole numbers at which alike structures differ, with the number in each.

    Raises:
        DifferentGraphsError: they differ in anything else.
    """
    yield from _differing((), rows)


def _differing(path: Path, values: Sequence[Any]) -> Iterator[tuple[Path, list[int]]]:
    first = values[0]
    kinds = {value.__class__ for value in values}
    if len(kinds) > 1:
        raise DifferentGraphsError(path)
    if isinstance(first, dict):
        if any(value.keys() != first.keys() for value in values):
            raise DifferentGraphsError(path)
        for key in first:
            yield from _differing((*path, key), [value[key] for value in values])
    elif isinstance(first, list):
        if any(len(value) != len(first) for value in values):
            raise DifferentGraphsError(path)
        for i in range(len(first)):
            yield from _differing((*path, i), [value[i] for value in values])
    elif any(value != first for value in values):
        if kinds != {int}:
            raise DifferentGraphsError(path)
        yield path, list(values)


def placed(rows: Any, expressions: Mapping[Path, SizeExpression], sizes: Sizes) -> Any:
    """Rows with the numbers of these sizes; what is not changed is shared with `rows`."""
    if not expressions:
        return rows
    here = expressions.get(())
    if here is not None:
        return here.value(sizes)
    inside: dict[str | int, dict[Path, SizeExpression]] = {}
    for path, expression in expressions.items():
        inside.setdefault(path[0], {})[path[1:]] = expression
    made: Any = dict(rows) if isinstance(rows, dict) else list(rows)
    for key, within in inside.items():
        made[key] = placed(made[key], within, sizes)
    return made
