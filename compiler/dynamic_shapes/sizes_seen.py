"""Which sizes of a function's arguments vary: those that differed between two of its calls, or are marked to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dispatch.layers.pytree import TreeSpec
from ...runtime.tensor_spec import TensorSpec
from ..capture.recording import Recording
from ..capture.unsupported import Unsupported
from ..size_marks import ConstraintViolationError, SizeMarks, marks_of
from .probes import NAMES, SMALLEST, Varying, template_of
from .recording_template import RecordingTemplate
from .size_expressions import Sizes
from .template import DifferentCaptures

Shapes = Sequence[tuple[int, ...]]
"""The sizes of each tensor among the arguments."""
TEMPLATES = 3
"""The most templates for calls that differ in sizes alone: each set of dynamic dimensions needs another."""


def look_without_sizes(key: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the key of a call, with ranks instead of sizes; None if a tensor is not contiguous."""
    parts = []
    for part in key:
        if isinstance(part, TensorSpec):
            if not part.is_contiguous:
                return None
            part = (part.ndim, part.replace(sizes=(), strides=()))
        parts.append(part)
    return tuple(parts)


class SizesSeen:
    """Sizes of calls that are equal otherwise, and their templates.

    Attributes:
        reason: The reason why there is no template for the last dynamic dimensions; None if there is one.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._first: tuple[tuple[int, ...], ...] | None = None
        self._templates: list[tuple[Varying, Shapes, RecordingTemplate]] = []
        self._tried: list[Any] = []

    def recording(
        self, function: Callable[..., Any], leaves: Sequence[Any], spec: TreeSpec, tensors: Sequence[Any]
    ) -> Recording | None:
        """Return a recording for a call without a graph, made without capture.

        Return None for the first sizes, and if sizes decide what the function computes.

        Raises:
            ConstraintViolationError: Sizes decide it, and a dimension is marked dynamic.
        """
        sizes = tuple([tensor._spec.sizes for tensor in tensors])
        marks = [marks_of(tensor) for tensor in tensors]
        marked = marked_sizes(marks, sizes) if any(marks) else None
        for varying, first, template in self._templates:
            point = point_of(varying, sizes, first)
            known = None if point is None else template.recording(point)
            if known is not None:
                return known
        observed: list[Sizes]
        if marked is not None and marked.names:
            varying, observed = marked.varying, [marked.names]
        elif self._first is None:
            self._first = sizes
            return None
        else:
            varying, differing = difference(self._first, sizes)
            observed = [*differing]
        if any(tensor._spec.requires_grad and not tensor.is_leaf for tensor in tensors):
            self.reason = "an argument has a history"
            return None
        if not 1 <= len(observed[0]) <= len(NAMES) or varying in self._tried or len(self._tried) >= TEMPLATES:
            return None
        if marked is not None and varies_where_fixed(varying, marks):
            self.reason = "a dimension that varies is marked as static"
            return None
        if min(observed[-1].values()) < SMALLEST:
            self.reason = "sizes of 0 and 1 have graphs of their own"
            return None
        if min(observed[0].values()) < SMALLEST:
            # The first call is no example; this one is.
            self._first = sizes
            return None
        self._tried.append(varying)
        try:
            template = template_of(
                function, leaves, spec, varying, observed, None if marked is None else marked.ends
            )
        except (DifferentCaptures, Unsupported) as error:
            self.reason = str(error)
            if marked is not None and marked.is_strict and isinstance(error, DifferentCaptures):
                refuse_constant(marks, sizes, error)
            return None
        self.reason = None
        self._first = self._first or sizes
        self._templates.append((varying, sizes, template))
        return template.recording(observed[-1])


class MarkedSizes(NamedTuple):
    """Marks of a call's tensors.

    Attributes:
        varying: The dimensions marked dynamic; those of equal sizes share a name, as in PyTorch.
        names: Their sizes.
        is_strict: True if one of them must be dynamic.
        ends: The least and the greatest size that all may have, if bounds are given.
    """

    varying: Varying
    names: Sizes
    is_strict: bool
    ends: tuple[int, int] | None


def marked_sizes(marks: Sequence[SizeMarks | None], sizes: Shapes) -> MarkedSizes:
    """Return the marks of a call of these sizes. Raise ConstraintViolationError for a size that is out of its range."""
    by_size: dict[int, str] = {}
    varying = []
    minima, maxima = [], []
    for each, own in zip(marks, sizes, strict=True):
        chosen = each.dynamic | each.weak if each is not None else ()
        varying.append(
            tuple(
                [
                    by_size.setdefault(size, f"s{len(by_size)}") if i in chosen else None
                    for i, size in enumerate(own)
                ]
            )
        )
        for bounds in each.ranges if each is not None else ():
            size = own[bounds.dim]
            low, high = bounds.min or 0, bounds.max
            if size < low or (high is not None and size > high):
                raise ConstraintViolationError(
                    f"{size} not in range [{low}, {'int_oo' if high is None else high}]"
                )
            minima += [] if bounds.min is None else [bounds.min]
            maxima += [] if high is None else [high]
    ends = (max(minima, default=0), min(maxima)) if maxima else None
    is_strict = any(each is not None and each.dynamic for each in marks)
    return MarkedSizes(tuple(varying), {name: size for size, name in by_size.items()}, is_strict, ends)


def varies_where_fixed(varying: Varying, marks: Sequence[SizeMarks | None]) -> bool:
    """Return True if a dynamic dimension is marked static, and not marked dynamic."""
    return any(
        name is not None and each is not None and i in each.static and i not in each.dynamic | each.weak
        for names, each in zip(varying, marks, strict=True)
        for i, name in enumerate(names)
    )


def refuse_constant(marks: Sequence[SizeMarks | None], sizes: Shapes, error: DifferentCaptures) -> None:
    """Raise ConstraintViolationError for a dimension that must vary and does not.

    One that is compared with sizes that it does not have varies: it has a graph for each size.
    """
    if error.decision == "comparison":
        return
    violations = [
        f"dimension {i} of tensor {index} among the arguments is marked with mark_dynamic, but the function is another "
        f"one for each of its sizes: {sizes[index][i]} is a constant, since {error}. Use maybe_mark_dynamic, or no mark"
        for index, each in enumerate(marks)
        if each is not None
        for i in sorted(each.dynamic)
    ]
    raise ConstraintViolationError("\n  - ".join(["Constraints violated!", *violations]))


def difference(first: Shapes, now: Shapes) -> tuple[Varying, list[dict[str, int]]]:
    """Return the dimensions that differ between two calls, and their sizes in each; those that change alike share a
    name.

    Example:
        >>> from triten.compiler.dynamic_shapes.sizes_seen import difference
        >>> difference([(4, 3), (4,)], [(8, 3), (8,)])
        ((('s0', None), ('s0',)), [{'s0': 4}, {'s0': 8}])
    """
    pairs: dict[tuple[int, int], str] = {}
    varying = tuple(
        [
            tuple(
                [
                    None if a == b else pairs.setdefault((a, b), f"s{len(pairs)}")
                    for a, b in zip(old, new, strict=True)
                ]
            )
            for old, new in zip(first, now, strict=True)
        ]
    )
    return varying, [{name: pair[i] for pair, name in pairs.items()} for i in range(2)]


def point_of(varying: Varying, sizes: Shapes, first: Shapes) -> Sizes | None:
    """Return the dynamic sizes of a call; None if a static dimension differs, or dimensions of one name disagree."""
    point: dict[str, int] = {}
    for names, own, old in zip(varying, sizes, first, strict=True):
        for name, size, before in zip(names, own, old, strict=True):
            if name is None:
                if size != before:
                    return None
            elif point.setdefault(name, size) != size:
                return None
    return point
