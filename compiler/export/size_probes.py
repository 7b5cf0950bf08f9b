"""Captures of a module at several sizes, from which a graph with named sizes is made and checked.

The module's code sees sizes that record the decisions based on them, and numbers in the graph become expressions of
the names (`dynamic_shapes.template`). If this gives no graph, the code sees plain integers. Then its results are known
only at the captured sizes, so many more are tried if the code has branches. In both cases, captures at the least
sizes, with plain integers, must give the graph that the expressions predict.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

from ...runtime.tensor_spec import TensorSpec
from ..capture.unsupported import Unsupported, is_own
from ..dynamic_shapes.observed_size import Observations
from ..dynamic_shapes.probes import NAMES, corners
from ..dynamic_shapes.size_expressions import Sizes, constants_in, names_in
from ..dynamic_shapes.template import DifferentCaptures, Template, differing_numbers
from .dynamic_graph import DynamicGraph, without_results
from .dynamic_shapes import Dim, DynamicSizes, ValueRange
from .graph_json import graph_from_json, graph_to_json

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
SMALL_SIZES = (2, 1, 0)
"""Sizes at which operators may behave differently, the greatest first."""
BETWEEN = (*range(3, 19), 24, 32, 48, 64, 96, 100, 127, 128, 129, 255, 256, 257, 512, 1000, 1024, 2048, 4096)
"""Sizes that branches may single out."""


class Captured(NamedTuple):
    """A module's graph at some sizes.

    Attributes:
        rows: Its steps as JSON.
        rest: Everything else that must be equal at all sizes: the signature, structures, results that are inputs.
        codes: The Python code that ran.
        observations: Its observations of sizes, if recorded.
    """

    rows: list[dict[str, Any]]
    rest: Any
    codes: frozenset[CodeType]
    observations: Observations | None = None


Capture = Callable[[Sizes, bool], Captured]
"""A module's graph at some sizes, which its code sees as `ObservedSize`s or as integers."""


def dynamic_graph(capture: Capture, example: Captured, dynamic: DynamicSizes, sizes: Sizes) -> DynamicGraph:
    """Return the graph of a module with named sizes.

    Args:
        capture: Capture the module at other sizes.
        example: The capture at the example's sizes.
        dynamic: The names.
        sizes: The example's sizes.

    Raises:
        Unsupported: The module behaves differently at other sizes in the range.
        ValueError: There are too many names, or a range is too small.
    """
    names = list(dynamic.dims)
    if len(names) > len(NAMES):
        raise ValueError(f"dynamic_shapes: expected at most {len(NAMES)} names, got {names}")
    probes = _Probes(capture, example, dynamic, sizes)
    template = probes.template()
    least = {name: probes.least(template, name) for name in names}
    if len(names) > 1:
        least = probes.least_together(template, least)
    ranges = {name: ValueRange(least[name], dynamic.dims[name].max) for name in names}
    return DynamicGraph(template, ranges, dynamic.dimension_names)


class _Probes:
    def __init__(self, capture: Capture, example: Captured, dynamic: DynamicSizes, sizes: Sizes) -> None:
        self.capture, self.example, self.dynamic, self.sizes = capture, example, dynamic, dict(sizes)
        self.names = list(dynamic.dims)
        self.taken = set(_numbers(example.rows)) - set(sizes.values())
        self.used: set[int] = set()

    def fresh(self, name: str) -> Iterator[int]:
        """Yield sizes in a name's range that differ from all other numbers in the graph, to avoid confusion."""
        for size in PRIMES:
            if _fits(self.dynamic.dims[name], size) and size not in self.taken | self.used:
                self.used.add(size)
                yield size

    def ends(self) -> list[tuple[int, int]]:
        """Return two sizes of each name."""
        pairs = []
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
            pairs.append((pair[0], pair[1]))
        return pairs

    def template(self) -> Template:
        """Return the steps with expressions. Raise Unsupported if captures differ in more than these."""
        ends = self.ends()
        least = dict(zip(self.names, [first for first, _ in ends], strict=True))
        points = corners(self.names, ends)
        points.append({name: next(self.fresh(name), self.sizes[name]) for name in self.names})
        for name in self.names:
            dim = self.dynamic.dims[name]
            for size in (64 if 64 not in self.taken else 66, LARGE if dim.max is None else dim.max):
                if _fits(dim, size):
                    points.append({**least, name: size})
        points = list({tuple(each.values()): each for each in points}.values())
        broken: list[dict[str, int]] = []
        try:
            fitted_template = self.fit(points, observes=True)
            broken = [
                each
                for each in self.between(least, fitted_template)
                if fitted_template.broken(each) is not None
            ]
            if not broken:
                return fitted_template
        except (DifferentCaptures, Unsupported, NotImplementedError):
            broken = []  # code that takes the integer itself: captures with integers report the error, if any
        fitted_template = self.fit_integers(points)
        if any(map(has_branches, self.example.codes)):
            broken += self.between(least, fitted_template)
        for checked in broken:
            self.compare(fitted_template, checked)
        return fitted_template

    def between(self, least: Sizes, template: Template) -> list[dict[str, int]]:
        """Return sizes that branches may single out: usual ones, and those around the constants of decisions."""
        points = []
        for name in self.names:
            dim = self.dynamic.dims[name]
            numbers = {
                number + more
                for each in template.decisions
                if name in names_in(each.left) | names_in(each.right)
                for number in constants_in(each.left) | constants_in(each.right)
                for more in (-1, 0, 1)
                if number > SMALL_SIZES[0]
            }
            sizes = [n for n in BETWEEN if n not in self.taken]
            points += [{**least, name: n} for n in dict.fromkeys([*sizes, *sorted(numbers)]) if _fits(dim, n)]
        return points

    def fit(self, points: Sequence[dict[str, int]], observes: bool) -> Template:
        """Return the steps whose expressions agree with captures at these sizes, and with the example.

        Raises:
            DifferentCaptures: Captures differ in more than expressions.
            Unsupported: Capture fails at some of the sizes, or the example differs.
        """
        captured: list[Captured] = []
        for point in points:
            captured.append(self.captured(point, observes))
            if len(captured[-1].rows) != len(captured[0].rows):
                # Before it is captured at a large size: there may be a step for each row.
                raise DifferentCaptures(
                    "the number of its steps", (len(captured[0].rows),), len(captured) - 1
                )
            if captured[-1].rest != self.example.rest:
                raise DifferentCaptures("what it gives or writes to", None, len(captured) - 1)
        rows = [without_results(each.rows) for each in captured]
        observations = [each.observations for each in captured if each.observations is not None]
        template = Template.of(self.names, points, rows, observations)
        self.compare(template, self.sizes)
        return template

    def fit_integers(self, points: Sequence[dict[str, int]]) -> Template:
        """Fit the steps to captures in which the code sees plain integers. Raise Unsupported on failure."""
        try:
            return self.fit(points, observes=False)
        except DifferentCaptures as error:
            raise self._different(points[error.capture or 1], error) from None

    def least(self, template: Template, name: str) -> int:
        """Return the least size of a name with the same behavior. Raise Unsupported if it is above `min`."""
        dim = self.dynamic.dims[name]
        least = max(dim.min or 0, SMALL_SIZES[0] + 1)
        for size in SMALL_SIZES:
            if not _fits(dim, size):
                continue
            try:
                self.compare(template, {**self.sizes, name: size})
            except Unsupported:
                if dim.min is not None or size == self.sizes[name]:
                    raise
                return least
            least = size
        return least

    def least_together(self, template: Template, least: dict[str, int]) -> dict[str, int]:
        """Return the least sizes with the same behavior when all names have them at once.

        Raise Unsupported if `min` is below.
        """
        try:
            self.compare(template, least)
        except Unsupported:
            if any(dim.min is not None and dim.min < SMALL_SIZES[0] for dim in self.dynamic.dims.values()):
                raise
            least = {name: max(size, SMALL_SIZES[0]) for name, size in least.items()}
            self.compare(template, least)
        return least

    def captured(self, sizes: Sizes, observes: bool = False) -> Captured:
        """Capture at these sizes. Raise Unsupported with the sizes in the message."""
        if dict(sizes) == self.sizes and not observes:
            return self.example
        try:
            return self.capture(sizes, observes)
        except Unsupported as error:
            raise Unsupported(
                f"at {_shown(sizes)} the module cannot be captured, as it can at {_shown(self.sizes)}; a range of Dim "
                f"says which sizes there are: {error.reason}",
                error.position,
            ) from None

    def compare(self, template: Template, sizes: Sizes) -> None:
        """Raise Unsupported unless a capture at these sizes equals the prediction of the expressions.

        A decision that differs there without an effect is dropped.
        """
        captured = self.captured(sizes)
        try:
            rows = template.rows_at(sizes)
            for path, _ in differing_numbers([without_results(captured.rows), rows]):
                raise DifferentCaptures("a number", path)
            if captured.rest != self.example.rest:
                raise DifferentCaptures("what it gives or writes to")
            if graph_to_json(graph_from_json(rows)) != captured.rows:
                raise DifferentCaptures("the shapes of its steps")
        except ZeroDivisionError:
            raise self._different(sizes, DifferentCaptures("it divides by zero")) from None
        except DifferentCaptures as error:
            raise self._different(sizes, error) from None
        template.decisions = tuple([each for each in template.decisions if each.holds(sizes)])

    def _different(self, sizes: Sizes, error: DifferentCaptures) -> Unsupported:
        difference = str(error)
        if error.path is not None:
            rows = self.example.rows
            step = error.path[0] if error.path else len(rows)
            row = rows[step] if isinstance(step, int) and step < len(rows) else {}
            difference = (
                f"%{row['name']} = {row.get('target', row['op'])}" if row else "the number of its steps"
            )
        return Unsupported(
            f"dynamic_shapes: at {_shown(sizes)} the module does something else than at {_shown(self.sizes)}: "
            f"{difference}; give Dim a range, or leave the size fixed"
        )


def _fits(dim: Dim, size: int) -> bool:
    return (dim.min or 0) <= size and (dim.max is None or size <= dim.max)


def _shown(sizes: Sizes) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _numbers(each)
    elif value.__class__ is int:
        yield value


def has_branches(code: CodeType) -> bool:
    """Return True if user code branches on a value; ``is None`` does not count."""
    if is_own(code.co_filename):
        return False
    return any(
        each.opname in ("COMPARE_OP", "CONTAINS_OP", "MATCH_KEYS")
        or ("JUMP" in each.opname and "IF" in each.opname and not each.opname.endswith("NONE"))
        for each in dis.get_instructions(code)
    )


def resized(spec: TensorSpec, dimension_names: Mapping[int, str], sizes: Sizes, path: str) -> TensorSpec:
    """Return the spec of a tensor whose named dimensions have these sizes, dense in the same order of dimensions.

    Raises:
        Unsupported: the tensor is not dense.
    """
    new_sizes = tuple(
        [sizes[dimension_names[i]] if i in dimension_names else size for i, size in enumerate(spec.sizes)]
    )
    if not dimension_names:
        return spec
    if not spec.is_dense():
        raise Unsupported(
            f"dynamic_shapes: argument {path} has strides {list(spec.strides)}, which are not dense"
        )
    order = sorted(range(spec.ndim), key=lambda i: (spec.strides[i], -i))
    strides, stride = [0] * spec.ndim, 1
    for i in order:
        strides[i] = stride
        stride *= max(new_sizes[i], 1)
    return TensorSpec.of(new_sizes, tuple(strides), spec.dtype, spec.device, requires_grad=spec.requires_grad)
