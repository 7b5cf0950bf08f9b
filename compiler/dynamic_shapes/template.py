"""A graph's steps for many sizes, inferred by comparing captures at some sizes number by number.

Captures must have the same steps in the same order. An integer that differs among them must be a polynomial of sizes,
or a number that the program's code computes from sizes. Everything else must be equal. Decisions of the code based on
sizes must be equal in all captures, and are checked again for each choice of sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..capture.guards import same
from .observed_size import Expression, Observations
from .size_expressions import ComputedSize, Number, Sizes, fitted, value_of

Path = tuple[str | int, ...]
"""The way to a number in a graph's rows."""


COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
"""Python's comparisons by their names in `operator`."""


class DifferentCaptures(Exception):
    """Error: captures at several sizes are not examples of one graph.

    Attributes:
        path: The path to the difference in their rows; None if it is elsewhere.
        capture: The capture that differs from the first, if any.
        decision: The kind of a differing decision: "constant" if a size must stay the same, "comparison" if other
            sizes may give the same outcome; None for other differences.
    """

    def __init__(
        self,
        reason: str,
        path: Path | None = None,
        capture: int | None = None,
        decision: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.path, self.capture, self.decision = path, capture, decision


class Decision(NamedTuple):
    """A comparison of sizes that a program makes, and its outcome."""

    comparison: str
    left: Number
    right: Number
    outcome: bool

    def holds(self, sizes: Sizes) -> bool:
        """Return True if it has the same outcome at these sizes."""
        try:
            outcome = getattr(operator, self.comparison)(
                value_of(self.left, sizes), value_of(self.right, sizes)
            )
        except ZeroDivisionError:
            return False
        return bool(outcome) == self.outcome

    def __str__(self) -> str:
        sign = COMPARISONS[self.comparison]
        return f"{self.left} {sign} {self.right} is {'not ' if self.outcome else ''}true"


class Template:
    """A graph's rows, in which numbers are expressions of sizes.

    Args:
        rows: the steps as they are for some sizes: nested lists and dicts.
        expressions: by the way to a number in `rows`.
        decisions: what has to come out as it did where the graph holds.
    """

    def __init__(
        self, rows: Sequence[Any], expressions: Mapping[Path, Number], decisions: Sequence[Decision] = ()
    ) -> None:
        self.rows, self.expressions, self.decisions = rows, dict(expressions), tuple(decisions)

    @staticmethod
    def of(
        names: Sequence[str],
        points: Sequence[Sizes],
        rows: Sequence[Sequence[Any]],
        observations: Sequence[Observations] = (),
    ) -> Template:
        """Return the common template of captures at several sizes.

        Args:
            names: Names of the sizes.
            points: The sizes of each capture.
            rows: The steps of each capture.
            observations: Observations of the first captures; none for captures with plain integers.

        Raises:
            DifferentCaptures: They are not of one graph.
        """
        numbers = _Numbers(names, points, observations)
        expressions = {path: numbers.expression(values, path) for path, values in differing_numbers(rows)}
        return Template(rows[0], expressions, numbers.decisions)

    def rows_at(self, sizes: Sizes) -> Any:
        """Return the steps for these sizes. Raise ZeroDivisionError as the program would."""
        return placed(self.rows, self.expressions, sizes)

    def broken(self, sizes: Sizes) -> Decision | None:
        """Return a decision that differs at these sizes, or None."""
        return next((each for each in self.decisions if not each.holds(sizes)), None)


class _Numbers:
    """How integers follow from sizes, by their values in several captures."""

    def __init__(
        self, names: Sequence[str], points: Sequence[Sizes], observations: Sequence[Observations]
    ) -> None:
        self.names, self.points = names, points
        self.reads: list[Number] = []
        self.results: list[tuple[Expression, list[int]]] = []
        self.decisions: list[Decision] = []
        if not observations:
            return
        decided = observations[0].decisions
        for i, observed in enumerate(observations):
            refuse_other_decisions(observations[0], observed, i)
        self.results = [
            (column[0][0], [value for _, value in column])
            for column in _columns([observed.results for observed in observations])
            if all(expression == column[0][0] for expression, _ in column)
        ]
        for values in _columns([observed.reads for observed in observations]):
            self.reads.append(self.expression(values))
        self.decisions = [
            Decision(name, self.closed(left), self.closed(right), bool(outcome))
            for name, left, right, outcome in decided
        ]

    def expression(self, values: Sequence[int], path: Path | None = None) -> Number:
        """Return the expression of these values. Raise DifferentCaptures if there is none."""
        if all(v == values[0] for v in values):
            return values[0]
        polynomial = fitted(self.names, self.points[: len(values)], values)
        if polynomial is not None:
            return polynomial
        for expression, results in self.results:
            # A capture after those that were observed is one at the first sizes.
            is_same = [*results, results[0]][: len(values)] == list(values)
            if is_same and last_read(expression) < len(self.reads):
                return self.closed(expression)
        raise DifferentCaptures(f"{values[0]} follows from no sum of products of sizes", path)

    def closed(self, expression: Expression) -> Number:
        """Return an expression of the code's reads as an expression of sizes."""
        if isinstance(expression, int):
            return expression
        if expression[0] == "read":
            return self.reads[expression[1]]
        return ComputedSize(expression[0], tuple([self.closed(each) for each in expression[1:]]))


def refuse_other_decisions(first: Observations, observed: Observations, capture: int | None = None) -> None:
    """Raise DifferentCaptures if the program's code decided otherwise in another capture than in the first."""
    if observed.decisions == first.decisions:
        return
    pairs = zip(first.decisions, observed.decisions, strict=False)
    own = next((own for own, other in pairs if own != other), None)
    is_constant = own is not None and (own[0], bool(own[3])) in (("eq", True), ("ne", False))
    kind = "constant" if is_constant else "comparison"
    raise DifferentCaptures("the function decides by sizes", capture=capture, decision=kind)


def last_read(expression: Expression) -> int:
    """Return the index of the last size that an expression reads, or -1."""
    if isinstance(expression, int):
        return -1
    if expression[0] == "read":
        return int(expression[1])
    return max(last_read(each) for each in expression[1:])


def differing_numbers(rows: Sequence[Any]) -> Iterator[tuple[Path, list[int]]]:
    """Yield the paths at which integers differ between structures, with the integer of each.

    Raises:
        DifferentCaptures: They differ in anything else.
    """
    yield from _differing((), rows)


def _differing(path: Path, values: Sequence[Any]) -> Iterator[tuple[Path, list[int]]]:
    first = values[0]
    kind = first.__class__
    if any(value.__class__ is not kind for value in values):
        raise DifferentCaptures("an argument has another type", path)
    if isinstance(first, dict):
        if any(value.keys() != first.keys() for value in values):
            raise DifferentCaptures("an argument has another name", path)
        for key in first:
            yield from _differing((*path, key), [value[key] for value in values])
    elif kind is list:
        if any(len(value) != len(first) for value in values):
            raise DifferentCaptures("captures have different numbers of steps", path)
        for i in range(len(first)):
            yield from _differing((*path, i), [value[i] for value in values])
    elif kind is int:
        if any(value != first for value in values):
            yield path, list(values)
    else:
        for i, value in enumerate(values):
            if value is not first and not same(first, value):
                raise DifferentCaptures("an argument differs", path, i)


def placed(rows: Any, expressions: Mapping[Path, Number], sizes: Sizes) -> Any:
    """Return rows with the numbers of these sizes; unchanged rows are shared with `rows`."""
    if not expressions:
        return rows
    whole = expressions.get(())
    if whole is not None:
        return value_of(whole, sizes)
    inside: dict[str | int, dict[Path, Number]] = {}
    for path, expression in expressions.items():
        inside.setdefault(path[0], {})[path[1:]] = expression
    made: Any = rows.__class__(rows)
    for key, within in inside.items():
        made[key] = placed(made[key], within, sizes)
    return made


def _columns(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise DifferentCaptures("the function asks for other sizes", capture=i)
    return list(zip(*rows, strict=True))
