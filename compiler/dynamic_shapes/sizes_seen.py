"""Which sizes of a function's arguments vary: those that have differed between two of its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.layers.pytree import TreeSpec
from ...runtime.tensor_spec import TensorSpec
from ..capture.recording import Recording
from ..capture.unsupported import Unsupported
from .probes import NAMES, SMALLEST, Varying, template_of
from .recording_template import RecordingTemplate
from .size_expressions import Sizes
from .template import DifferentCaptures

TEMPLATES = 3
"""Templates that are tried for calls that differ in sizes alone: others are wanted when other dimensions vary."""


def look_without_sizes(key: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The key of a call, with ranks in the place of sizes; None where a tensor's elements have gaps."""
    found = []
    for part in key:
        if isinstance(part, TensorSpec):
            if not part.is_contiguous:
                return None
            part = (part.ndim, part.replace(sizes=(), strides=()))
        found.append(part)
    return tuple(found)


class SizesSeen:
    """The sizes of calls that have all else in common, and the templates that serve them.

    Attributes:
        reason: why there is no template for the last dimensions that varied, None where there is.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._first: tuple[tuple[int, ...], ...] | None = None
        self._templates: list[tuple[Varying, RecordingTemplate]] = []
        self._tried: list[Any] = []

    def recording(
        self, function: Callable[..., Any], leaves: Sequence[Any], spec: TreeSpec, tensors: Sequence[Any]
    ) -> Recording | None:
        """A recording for a call that no graph serves, made without capturing it; None for the first sizes, and where
        sizes decide what the function computes."""
        sizes = tuple([tensor._spec.sizes for tensor in tensors])
        if self._first is None:
            self._first = sizes
            return None
        for varying, template in self._templates:
            point = point_of(varying, sizes, self._first)
            found = None if point is None else template.recording(point)
            if found is not None:
                return found
        if any(tensor._spec.requires_grad and not tensor.is_leaf for tensor in tensors):
            self.reason = "an argument has a history"
            return None
        varying, seen = difference(self._first, sizes)
        if not 1 <= len(seen[0]) <= len(NAMES) or varying in self._tried or len(self._tried) >= TEMPLATES:
            return None
        self._tried.append(varying)
        if min(size for each in seen for size in each.values()) < SMALLEST:
            self.reason = "sizes of 0 and 1 have graphs of their own"
            return None
        try:
            template = template_of(function, leaves, spec, varying, seen)
        except (DifferentCaptures, Unsupported) as error:
            self.reason = str(error)
            return None
        self.reason = None
        self._templates.append((varying, template))
        return template.recording(seen[1])


def difference(
    first: Sequence[tuple[int, ...]], now: Sequence[tuple[int, ...]]
) -> tuple[Varying, list[dict[str, int]]]:
    """Which dimensions differ between two calls, and what they are in each; those that differ alike are one size.

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


def point_of(
    varying: Varying, sizes: Sequence[tuple[int, ...]], first: Sequence[tuple[int, ...]]
) -> Sizes | None:
    """The varying sizes of a call; None where another dimension differs, or two that are one size do not agree."""
    found: dict[str, int] = {}
    for names, own, old in zip(varying, sizes, first, strict=True):
        for name, size, before in zip(names, own, old, strict=True):
            if name is None:
                if size != before:
                    return None
            elif found.setdefault(name, size) != size:
                return None
    return found
