"""Captures of a function at sizes that no call has had: fake tensors stand for its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from ...dispatch.autograd.node import leaf_meta
from ...dispatch.layers.graph.fake_tensor import phantom
from ...dispatch.layers.pytree import TreeSpec
from ...runtime.tensor_impl import TensorImpl
from ..capture.recording import Recording, record
from ..capture.unsupported import Unsupported
from ..pipeline import run_passes
from .observed_size import Observations, observed_sizes
from .recording_template import RecordingTemplate
from .size_expressions import Sizes, products
from .template import DifferentCaptures, refuse_other_decisions

SMALLEST = 2
"""Sizes of 0 and 1 are captured by themselves: broadcasting and reductions take another way for them."""
LARGE = 4099
"""A size that is tried, which is larger than most."""
NAMES = ("s0", "s1", "s2")
"""The sizes that may vary independently, by PyTorch's names for them."""
SPARE = 2
"""The number of captures beyond the coefficients of a polynomial, to verify the fit."""

Varying = Sequence[Sequence[str | None]]
"""For each tensor among the arguments, and each of its dimensions, which of the varying sizes it has; None for none."""


def stand_in(tensor: Any, sizes: tuple[int, ...]) -> Any:
    """Return a fake tensor like another one, with other sizes."""
    made = type(tensor)._blank()
    made._spec = tensor._spec.replace(sizes=sizes)
    made._data = phantom(made._spec)
    made._version_cell = None if made._spec.is_inference else [0]
    made._autograd = leaf_meta() if made._spec.requires_grad else None
    made._view_base = None
    return made


def captured_at(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    spec: TreeSpec,
    varying: Varying,
    point: Sizes,
    observes: bool = True,
) -> tuple[Recording, Observations]:
    """Capture a function for arguments of other sizes. With `observes`, its code sees observed sizes.

    Raise Unsupported as `record` does.
    """
    made: dict[int, Any] = {}
    resized_leaves: list[Any] = []
    which = iter(varying)
    for leaf in leaves:
        if not isinstance(leaf, TensorImpl):
            resized_leaves.append(leaf)
            continue
        names = next(which)
        sizes = [own if v is None else point[v] for own, v in zip(leaf._spec.sizes, names, strict=True)]
        if id(leaf) not in made:
            made[id(leaf)] = stand_in(leaf, tuple(sizes))
        resized_leaves.append(made[id(leaf)])
    with observed_sizes() if observes else nullcontext(Observations()) as observations:
        recording = record(function, resized_leaves, spec)
    run_passes(recording.graph)
    return recording, observations


def corners(names: Sequence[str], ends: Sequence[tuple[int, int]]) -> list[dict[str, int]]:
    """Return all combinations of two sizes of each name.

    Example:
        >>> from triten.compiler.dynamic_shapes.probes import corners
        >>> corners(["a", "b"], [(2, 5), (3, 7)])
        [{'a': 2, 'b': 3}, {'a': 5, 'b': 3}, {'a': 2, 'b': 7}, {'a': 5, 'b': 7}]
    """
    return [
        {name: ends[i][corner >> i & 1] for i, name in enumerate(names)} for corner in range(2 ** len(names))
    ]


def points(observed: Sequence[Sizes], low: int, high: int, is_bounded: bool = False) -> list[dict[str, int]]:
    """Return the sizes to try: those of calls, small and large ones in all combinations, and some between.

    If sizes are bounded, none is above the greatest, and there may be fewer.
    """
    names = list(observed[0])
    candidates = [dict(each) for each in observed]
    candidates += corners(names, [(low, high + (0 if is_bounded else 2 * i)) for i in range(len(names))])
    num_points = len(products(names, has_squares=True)) + SPARE
    count = high - low + 1
    for step in range(1, 100):
        distinct = _distinct(candidates)
        if len(distinct) >= num_points:
            break
        more = [
            max(each[name] for each in observed) + 7 * step * (i + 1) + 3 * i for i, name in enumerate(names)
        ]
        if is_bounded:
            more = [low + (size - low) % count for size in more]
        candidates.append(dict(zip(names, more, strict=True)))
    return distinct


def _distinct(tried: Sequence[dict[str, int]]) -> list[dict[str, int]]:
    return list({tuple(each.values()): each for each in tried}.values())


def template_of(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    spec: TreeSpec,
    varying: Varying,
    observed_points: Sequence[Sizes],
    ends: tuple[int, int] | None = None,
) -> RecordingTemplate:
    """Return the template of a function for all sizes in a range that is as wide as possible.

    Args:
        function: The function.
        leaves: Leaves of the arguments.
        spec: The arguments' structure.
        varying: The dynamic dimensions of the arguments.
        observed_points: Sizes of earlier calls.
        ends: The least and the greatest size, if known. Default: None.

    Raises:
        DifferentCaptures: The sizes decide what it computes.
        Unsupported: It cannot be captured.
    """
    known: dict[tuple[int, ...], tuple[Recording, Observations]] = {}
    names = list(observed_points[0])
    every = [size for each in observed_points for size in each.values()]
    smallest, largest = min(every), max(every)
    ranges = [(min(SMALLEST, smallest), max(LARGE, 2 * largest + 1)), (smallest, 2 * largest + 1)]
    if ends is not None:
        ranges = [(max(ends[0], SMALLEST), ends[1]), *ranges[1:]]
    error: Exception = DifferentCaptures("no sizes were tried")
    for attempt, (low, high) in enumerate(ranges):
        try:
            samples = points(observed_points, low, high, is_bounded=ends is not None and attempt == 0)
            captures = []
            for point in samples:
                key = tuple(point.values())
                if key not in known:
                    known[key] = captured_at(function, leaves, spec, varying, point)
                captures.append(known[key])
                refuse_other_decisions(captures[0][1], captures[-1][1])
                if len(captures[-1][0].graph.nodes) != len(captures[0][0].graph.nodes):
                    # Before it is captured at a large size: there may be a step for each row.
                    raise DifferentCaptures("sizes decide how many steps there are")
            plain, _ = captured_at(function, leaves, spec, varying, samples[0], observes=False)
            recordings = [*[recording for recording, _ in captures], plain]
            return RecordingTemplate(names, samples, recordings, [observed for _, observed in captures])
        except (DifferentCaptures, Unsupported) as raised:
            if isinstance(raised, DifferentCaptures) and raised.decision == "constant":
                raise  # in another range, too
            error = raised
    raise error
