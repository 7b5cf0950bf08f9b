"""Captures of a function at sizes that it is not called with: tensors without elements stand for its arguments."""

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
from ..passes import run_passes
from .observed_size import Observations, observed_sizes
from .template import DifferentCaptures, Template

SMALLEST = 2
"""Sizes of 0 and 1 are captured by themselves: broadcasting and reductions take another way for them."""
LARGE = 4099
"""A size that is tried, which is larger than most."""
MOST = 2
"""Sizes that may vary independently."""

Varying = Sequence[Sequence[int | None]]
"""For each tensor among the arguments, and each of its dimensions, which of the varying sizes it has; None for none."""


def stand_in(tensor: Any, sizes: tuple[int, ...]) -> Any:
    """A tensor like another, of other sizes, that holds nothing."""
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
    point: tuple[int, ...],
    observes: bool = True,
) -> tuple[Recording, Observations]:
    """What a function computes for arguments of other sizes, and what its code saw of them if it `observes`.

    Raises Unsupported as `record` does.
    """
    made: dict[int, Any] = {}
    given: list[Any] = []
    which = iter(varying)
    for leaf in leaves:
        if not isinstance(leaf, TensorImpl):
            given.append(leaf)
            continue
        places = next(which)
        sizes = [own if v is None else point[v] for own, v in zip(leaf._spec.sizes, places, strict=True)]
        if id(leaf) not in made:
            made[id(leaf)] = stand_in(leaf, tuple(sizes))
        given.append(made[id(leaf)])
    with observed_sizes() if observes else nullcontext(Observations()) as seen:
        recording = record(function, given, spec)
    run_passes(recording.graph)
    return recording, seen


def points(seen: Sequence[tuple[int, ...]], low: int, high: int) -> list[tuple[int, ...]]:
    """The sizes that are tried: those that came, small and large ones in all combinations, and some between."""
    count = len(seen[0])
    corners = [[corner >> i & 1 for i in range(count)] for corner in range(2**count)]
    tried = [
        *seen,
        *[tuple([high + 2 * i if up else low for i, up in enumerate(corner)]) for corner in corners],
    ]
    step = 0
    while len(dict.fromkeys(tried)) < (1 + count) * (2 + count) // 2 + 2:
        step += 1
        tried.append(
            tuple([max(s) + 7 * step * (i + 1) + 3 * i for i, s in enumerate(zip(*seen, strict=True))])
        )
    return list(dict.fromkeys(tried))


def template_of(
    function: Callable[..., Any],
    leaves: Sequence[Any],
    spec: TreeSpec,
    varying: Varying,
    seen: Sequence[tuple[int, ...]],
) -> Template:
    """What a function computes for all sizes in a range, which is as wide as can be.

    Args:
        function: what is called.
        leaves: of the arguments.
        spec: the arguments' structure.
        varying: which of their dimensions vary.
        seen: sizes that it was called with.

    Raises:
        DifferentCaptures: the sizes decide what it computes.
        Unsupported: it cannot be captured.
    """
    known: dict[tuple[int, ...], tuple[Recording, Observations]] = {}
    smallest, largest = min(map(min, seen)), max(map(max, seen))
    ranges = [(min(SMALLEST, smallest), max(LARGE, 2 * largest + 1)), (smallest, 2 * largest + 1)]
    error: Exception = DifferentCaptures("no sizes were tried")
    for low, high in ranges:
        try:
            tried = points(seen, low, high)
            for point in tried:
                if point not in known:
                    known[point] = captured_at(function, leaves, spec, varying, point)
                if len({len(known[each][0].graph.nodes) for each in tried if each in known}) > 1:
                    # Before it is captured at a large size: there may be a step for each row.
                    raise DifferentCaptures("sizes decide how many steps there are")
            plain, _ = captured_at(function, leaves, spec, varying, tried[0], observes=False)
            recordings = [*[known[p][0] for p in tried], plain]
            return Template(tried, recordings, [known[p][1] for p in tried])
        except (DifferentCaptures, Unsupported) as found:
            error = found
    raise error
