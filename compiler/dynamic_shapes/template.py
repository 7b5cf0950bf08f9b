"""A recording for many sizes: captures at some of them, compared node by node, and the graph of any other size.

Captures must have the same nodes in the same order. An integer that differs among them is a polynomial of the sizes, or
there is no template; all else has to be equal. Sizes lie between those that were tried, so that what is decided by one
of them being small or large, in whatever code, would have shown; what the program's own code decides is looked at anew
for each choice of sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...dispatch.layers.graph.graph import Graph, Node
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..capture.guards import Guards, same
from ..capture.reachable import Location
from ..capture.recording import Recording
from .observed_size import Decision, Expression, Observations, value_of
from .polynomials import Polynomial, fitted


class DifferentCaptures(Exception):
    """Captures at several sizes are no examples of one graph."""


class Template:
    """What captures at several sizes have in common.

    Args:
        sizes: for each capture the sizes that vary.
        recordings: the captures, and once more that at the first sizes, which the program's code saw as integers: so it
            shows if they make a difference to it. All are without steps that nothing reads: operators make some at
            their first call.
        observations: what the program's code saw in each but the last.

    Raises:
        DifferentCaptures: they are not of one graph.
    """

    def __init__(
        self,
        sizes: Sequence[tuple[int, ...]],
        recordings: Sequence[Recording],
        observations: Sequence[Observations],
    ) -> None:
        self._sizes = [*sizes, sizes[0]]
        self._recording = recordings[0]
        self.low = tuple([min(column) for column in zip(*sizes, strict=True)])
        self.high = tuple([max(column) for column in zip(*sizes, strict=True)])
        self._compare_recordings(recordings)
        self._guards = _all_guards(recordings)
        self._reads = [
            self._number(list(values)) for values in _columns([seen.reads for seen in observations])
        ]
        self._decisions: Sequence[Decision] = observations[0].decisions
        if any(seen.decisions != self._decisions for seen in observations):
            raise DifferentCaptures("the function decides by sizes")
        self._results = [
            (column[0][0], [value for _, value in column])
            for column in _columns([seen.results for seen in observations])
            if all(expression == column[0][0] for expression, _ in column)
        ]
        places = [{node: i for i, node in enumerate(r.graph.nodes)} for r in recordings]
        self._nodes = [
            self._node(nodes, places) for nodes in _columns([list(r.graph.nodes) for r in recordings])
        ]

    def _compare_recordings(self, recordings: Sequence[Recording]) -> None:
        first = recordings[0]
        for other in recordings[1:]:
            for field in dataclasses.fields(Recording):
                if field.name in ("graph", "guards", "held", "structure"):
                    continue
                if getattr(first, field.name) != getattr(other, field.name):
                    raise DifferentCaptures(f"{field.name} differs")
            if first.structure != other.structure:
                raise DifferentCaptures("the result has another structure")
            held = list(zip(first.guards.held, other.guards.held, strict=False))
            if len(first.held) != len(other.held) or not all(
                a.holder is b.holder and a.key == b.key and spec is now for (a, spec), (b, now) in held
            ):
                raise DifferentCaptures("the function holds other tensors")

    def _number(self, values: Sequence[int]) -> Any:
        if all(v == values[0] for v in values):
            return values[0]
        found = fitted(self._sizes[: len(values)], values)
        if found is not None:
            return found
        for expression, results in self._results:
            if [*results, results[0]] == list(values):
                return _Computed(expression)
        raise DifferentCaptures(f"{values[0]} follows from no sum of products of sizes")

    def _node(self, nodes: Sequence[Node], places: Sequence[dict[Node, int]]) -> tuple[Any, ...]:
        first = nodes[0]
        # A placeholder's target is its name.
        if any((n.op, n.target) != (first.op, first.target) for n in nodes):
            raise DifferentCaptures(f"%{first.name} is another step")
        args = self._value([n.args for n in nodes], places)
        kwargs = self._value([dict(n.kwargs) for n in nodes], places)
        return first, args, kwargs, self._value([n.val for n in nodes], places)

    def _value(self, values: Sequence[Any], places: Sequence[dict[Node, int]]) -> Any:
        """What values of several captures are an example of; raises DifferentCaptures where they are of nothing."""
        first = values[0]
        if any(v.__class__ is not first.__class__ for v in values):
            raise DifferentCaptures("an argument has another type")
        if isinstance(first, Node):
            where = [place[v] for v, place in zip(values, places, strict=True)]
            if any(w != where[0] for w in where):
                raise DifferentCaptures("a step reads another one")
            return _Reference(where[0])
        if isinstance(first, TensorSpec):
            alike = [v.replace(sizes=(), strides=()) for v in values]
            if any(a is not alike[0] for a in alike):
                raise DifferentCaptures("a step gives another dtype")
            sizes, strides = ([getattr(v, name) for v in values] for name in ("sizes", "strides"))
            return _Spec(first, self._value(sizes, places), self._value(strides, places))
        if first.__class__ is int:
            return self._number(values)
        if first.__class__ in (tuple, list):
            return tuple([self._value(column, places) for column in _columns(values)])
        if first.__class__ is dict:
            if any(list(v) != list(first) for v in values):
                raise DifferentCaptures("an argument has another name")
            return {key: self._value([v[key] for v in values], places) for key in first}
        if first.__class__ is slice:
            parts = [self._value([getattr(v, n) for v in values], places) for n in ("start", "stop", "step")]
            return _Slice(*parts)
        if any(v is not first and not same(first, v) for v in values) or isinstance(first, TensorImpl):
            raise DifferentCaptures("an argument differs")
        return first

    def recording(self, sizes: tuple[int, ...]) -> Recording | None:
        """The recording for these sizes; None where it is not known that the function has this graph for them."""
        if any(not low <= s <= high for s, low, high in zip(sizes, self.low, self.high, strict=True)):
            return None
        at = _At(sizes, [], [])
        for number in self._reads:
            at.reads.append(at.value(number))
        if not all(self._holds(decision, at.reads) for decision in self._decisions):
            return None
        made = Graph()
        for node, args, kwargs, val in self._nodes:
            given = at.value(args), at.value(kwargs)
            new = made.create_node(node.op, node.target, *given, node.name, at.value(val))
            new.meta = dict(node.meta)
            at.nodes.append(new)
        return dataclasses.replace(self._recording, graph=made, guards=self._guards)

    @staticmethod
    def _holds(decision: Decision, reads: list[int]) -> bool:
        name, left, right, outcome = decision
        try:
            return bool(value_of((name, left, right), reads) == outcome)
        except ZeroDivisionError:
            return False


def _all_guards(recordings: Sequence[Recording]) -> Guards:
    """Guards that hold where those of all captures do. Raises DifferentCaptures where no state fulfils them."""
    found: dict[Any, tuple[Location, Any]] = {}
    for recording in recordings:
        for location, value in recording.guards.places:
            known = found.setdefault((location.kind, id(location.holder), location.key), (location, value))
            if not same(known[1], value):
                raise DifferentCaptures(f"{location.name} depends on sizes")
    return Guards(list(found.values()), recordings[0].guards.held)


class _Reference(int):
    """The place of a node in its graph."""


@dataclasses.dataclass(frozen=True)
class _Spec:
    like: TensorSpec
    sizes: Any
    strides: Any


@dataclasses.dataclass(frozen=True)
class _Slice:
    start: Any
    stop: Any
    step: Any


@dataclasses.dataclass(frozen=True)
class _Computed:
    """A number that the program's code computes of sizes."""

    expression: Expression


class _At(NamedTuple):
    """A template's values for certain sizes, and for what they are where the program asks for them."""

    sizes: tuple[int, ...]
    reads: list[int]
    nodes: list[Node]

    def value(self, value: Any) -> Any:
        """A value of the template for these sizes."""
        if isinstance(value, _Reference):
            return self.nodes[value]
        if isinstance(value, Polynomial):
            return value.at(self.sizes)
        if isinstance(value, _Computed):
            return value_of(value.expression, self.reads)
        if isinstance(value, _Spec):
            return value.like.replace(sizes=self.value(value.sizes), strides=self.value(value.strides))
        if isinstance(value, _Slice):
            return slice(self.value(value.start), self.value(value.stop), self.value(value.step))
        if value.__class__ is tuple:
            return tuple([self.value(v) for v in value])
        if value.__class__ is dict:
            return {key: self.value(v) for key, v in value.items()}
        return value


def _columns(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    if any(len(row) != len(rows[0]) for row in rows):
        raise DifferentCaptures("captures have different numbers of steps")
    return list(zip(*rows, strict=True))
