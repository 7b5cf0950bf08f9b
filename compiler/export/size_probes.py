"""Captures of a module at several sizes, from which a graph with named sizes is made and checked.

A module sees sizes as plain numbers, so that what it computes from them, and which way it goes, is known at the sizes
alone at which it was captured. Two sizes of each name give expressions of all numbers in the graph; captures at others
must give the graph that the expressions say: at the least sizes, at the range's upper end or a large one, and where the
module's own code has branches at many between.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

from ...runtime.tensor_spec import TensorSpec
from ..capture.unsupported import Unsupported, is_own
from .dynamic_graph import DynamicGraph, without_results
from .dynamic_shapes import Dim, DynamicSizes, ValueRange
from .graph_json import graph_to_json
from .size_expressions import (
    DifferentGraphsError,
    Path,
    SizeExpression,
    Sizes,
    corners,
    differing_numbers,
    fitted,
)

PRIMES = (
    5,
    7,
    11,
    13,
    17,
    19,
    23,
    29,
    31,
    37,
    41,
    43,
    47,
    53,
    59,
    61,
    67,
    71,
    73,
    79,
    83,
    89,
    97,
    101,
    103,
    107,
    109,
)
LARGE = 65537
LEAST = (2, 1, 0)
"""Sizes at which operators may do something else, the greatest first."""
BETWEEN = (*range(3, 19), 24, 32, 48, 64, 96, 100, 127, 128, 129, 255, 256, 257, 512, 1000, 1024, 2048, 4096)
"""Sizes that branches may single out."""
MOST_NAMES = 3


class Captured(NamedTuple):
    """A module's graph at some sizes.

    Attributes:
        rows: its steps as JSON.
        rest: what else must be equal at all sizes: the signature, structures, which results are inputs.
        codes: the Python code that ran.
    """

    rows: list[dict[str, Any]]
    rest: Any
    codes: frozenset[CodeType]


Capture = Callable[[Sizes], Captured]


def dynamic_graph(capture: Capture, example: Captured, dynamic: DynamicSizes, sizes: Sizes) -> DynamicGraph:
    """The graph of a module with named sizes.

    Args:
        capture: the module's graph at other sizes.
        example: at those of the example.
        dynamic: the names.
        sizes: those of the example.

    Raises:
        Unsupported: the module does something else at other sizes in the range.
        ValueError: there are too many names, or a range is too small.
    """
    names = list(dynamic.dims)
    if len(names) > MOST_NAMES:
        raise ValueError(f"dynamic_shapes: expected at most {MOST_NAMES} names, got {names}")
    probes = _Probes(capture, example, dynamic, sizes)
    ends = probes.ends()
    graph = probes.fit(ends)
    for checked in probes.checks(ends):
        probes.compare(graph, checked)
    least = {name: probes.least(graph, name) for name in names}
    if len(names) > 1:
        least = probes.least_together(graph, least)
    graph.ranges.update({name: ValueRange(least[name], dynamic.dims[name].max) for name in names})
    return graph


class _Probes:
    def __init__(self, capture: Capture, example: Captured, dynamic: DynamicSizes, sizes: Sizes) -> None:
        self.capture, self.example, self.dynamic, self.sizes = capture, example, dynamic, dict(sizes)
        self.names = list(dynamic.dims)
        self.taken = set(_numbers(example.rows)) - set(sizes.values())
        self.used: set[int] = set()

    def fresh(self, name: str) -> Iterator[int]:
        """Sizes in the range of a name that are no other number in the graph, so that none is taken for another."""
        for size in PRIMES:
            if _fits(self.dynamic.dims[name], size) and size not in self.taken | self.used:
                self.used.add(size)
                yield size

    def ends(self) -> dict[str, tuple[int, int]]:
        """Two sizes of each name."""
        found = {}
        for name in self.names:
            chosen = self.fresh(name)
            pair = (next(chosen, None), next(chosen, None))
            if pair[0] is None or pair[1] is None:
                dim = self.dynamic.dims[name]
                within = list(range(max(dim.min or 0, 2), (dim.max or 0) + 1))[-2:]
                if len(within) < 2:
                    raise ValueError(f"dynamic_shapes: the range of {dim} has less than two sizes from 2 on")
                pair = (within[0], within[1])
            assert pair[0] is not None and pair[1] is not None
            found[name] = (pair[0], pair[1])
        return found

    def fit(self, ends: Mapping[str, tuple[int, int]]) -> DynamicGraph:
        """The graph whose expressions agree with captures at all choices of ends."""
        chosen = corners(self.names)
        captured = [self.captured({name: ends[name][name in each] for name in self.names}) for each in chosen]
        expressions: dict[Path, SizeExpression] = {}
        rows = [_compared(each.rows) for each in captured]
        try:
            for path, numbers in differing_numbers(rows):
                expressions[path] = fitted(self.names, ends, dict(zip(chosen, numbers, strict=True)))
        except DifferentGraphsError as error:
            raise self._different({name: ends[name][1] for name in self.names}, rows[0], error) from None
        ranges = {name: ValueRange(dim.min or 0, dim.max) for name, dim in self.dynamic.dims.items()}
        graph = DynamicGraph(captured[0].rows, expressions, ranges, self.dynamic.places)
        self.compare(graph, self.sizes)
        return graph

    def checks(self, ends: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, int]]:
        """Sizes at which to compare: a third of each name, even ones, the greatest, and many where code branches."""
        third = {name: next(self.fresh(name), self.sizes[name]) for name in self.names}
        yield third
        for name in self.names:
            dim = self.dynamic.dims[name]
            others = {each: ends[each][0] for each in self.names}
            for size in (64 if 64 not in self.taken else 66, LARGE if dim.max is None else dim.max):
                if _fits(dim, size):
                    yield {**others, name: size}
            if any(map(has_branches, self.example.codes)):
                yield from ({**others, name: n} for n in BETWEEN if _fits(dim, n) and n not in self.taken)

    def least(self, graph: DynamicGraph, name: str) -> int:
        """The least size of a name at which the module does the same. Raises Unsupported where that is above `min`."""
        dim = self.dynamic.dims[name]
        least = max(dim.min or 0, LEAST[0] + 1)
        for size in LEAST:
            if not _fits(dim, size):
                continue
            try:
                self.compare(graph, {**self.sizes, name: size})
            except Unsupported:
                if dim.min is not None or size == self.sizes[name]:
                    raise
                return least
            least = size
        return least

    def least_together(self, graph: DynamicGraph, least: dict[str, int]) -> dict[str, int]:
        """The least sizes, at which the module does the same when all names have them. Raises Unsupported if `min` is
        below."""
        try:
            self.compare(graph, least)
        except Unsupported:
            if any(dim.min is not None and dim.min < LEAST[0] for dim in self.dynamic.dims.values()):
                raise
            least = {name: max(size, LEAST[0]) for name, size in least.items()}
            self.compare(graph, least)
        return least

    def captured(self, sizes: Sizes) -> Captured:
        """A capture at these sizes. Raises Unsupported, which says them."""
        if dict(sizes) == self.sizes:
            return self.example
        try:
            return self.capture(sizes)
        except Unsupported as error:
            raise Unsupported(
                f"at {_shown(sizes)} the module cannot be captured, as it can at {_shown(self.sizes)}; a range of Dim "
                f"says which sizes there are: {error.reason}",
                error.place,
            ) from None

    def compare(self, graph: DynamicGraph, sizes: Sizes) -> None:
        """Raise Unsupported unless a capture at these sizes gives what the expressions say."""
        captured = self.captured(sizes)
        expected = _compared(captured.rows)
        try:
            rows = graph.rows_at(sizes)
            for path, _ in differing_numbers([expected, rows]):
                raise DifferentGraphsError(path)
            if captured.rest != self.example.rest:
                raise DifferentGraphsError("what it gives or writes to")
            if graph_to_json(graph.at(sizes).graph) != captured.rows:
                raise DifferentGraphsError("the shapes of its steps")
        except DifferentGraphsError as error:
            raise self._different(sizes, expected, error) from None

    def _different(self, sizes: Sizes, rows: Sequence[Any], error: DifferentGraphsError) -> Unsupported:
        what = error.args[0]
        if isinstance(what, tuple):
            row = rows[what[0]] if what and what[0] < len(rows) else {}
            what = f"%{row['name']} = {row.get('target', row['op'])}" if row else "the number of its steps"
        return Unsupported(
            f"dynamic_shapes: at {_shown(sizes)} the module does something else than at {_shown(self.sizes)}: {what}; "
            "give Dim a range, or leave the size fixed"
        )


def _fits(dim: Dim, size: int) -> bool:
    return (dim.min or 0) <= size and (dim.max is None or size <= dim.max)


def _shown(sizes: Sizes) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _compared(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return without_results(rows)


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _numbers(each)
    elif value.__class__ is int:
        yield value


def has_branches(code: CodeType) -> bool:
    """Whether code that is not this package's goes one way or the other by a value; ``is None`` does not count."""
    if is_own(code.co_filename):
        return False
    return any(
        each.opname in ("COMPARE_OP", "CONTAINS_OP", "MATCH_KEYS")
        or ("JUMP" in each.opname and "IF" in each.opname and not each.opname.endswith("NONE"))
        for each in dis.get_instructions(code)
    )


def resized(spec: TensorSpec, places: Mapping[int, str], sizes: Sizes, path: str) -> TensorSpec:
    """The spec of a tensor whose named dimensions have these sizes, dense in the same order of dimensions.

    Raises:
        Unsupported: the tensor is not dense.
    """
    wanted = tuple([sizes[places[i]] if i in places else size for i, size in enumerate(spec.sizes)])
    if not places:
        return spec
    if not spec.is_dense():
        raise Unsupported(
            f"dynamic_shapes: argument {path} has strides {list(spec.strides)}, which are not dense"
        )
    order = sorted(range(spec.ndim), key=lambda i: (spec.strides[i], -i))
    strides, stride = [0] * spec.ndim, 1
    for i in order:
        strides[i] = stride
        stride *= max(wanted[i], 1)
    return TensorSpec.of(wanted, tuple(strides), spec.dtype, spec.device, requires_grad=spec.requires_grad)
