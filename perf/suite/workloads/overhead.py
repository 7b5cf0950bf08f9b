"""Host time of small calls, one thread: on known shapes, and on a stream of new shapes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np

from ...interleaved import Slice, timed_without_collector
from ..libraries import Library
from ..workload import Operand, Scale, Workload, bar
from .small_calls import NEW_SHAPE_CALLS, OPERANDS, SMALL_CALLS, SmallCall

NEW_SHAPES_A_ROUND = 32
EXTENTS = range(2, 14)
OPERAND_NAMES = ("a", "b", "w", "shape")


def workloads(scale: Scale) -> Iterator[Workload]:
    """Yield the calls of `SMALL_CALLS`, then those of `NEW_SHAPE_CALLS`."""
    for call in SMALL_CALLS:
        yield Workload(
            "overhead", call.group, call.name, "16x16", "float32", call.statement, call.numpy, OPERANDS,
            direction="both" if "backward" in call.statement else "forward", result=call.result, reset=call.reset,
            bar=bar(call.bar), threads=1, compared=call.compared, counted=call.counted, host=True,
        )  # fmt: skip
    streams: dict[str, Iterator[tuple[int, ...]]] = {}
    for call in NEW_SHAPE_CALLS:
        yield Workload(
            "overhead", "new shapes", f"{call.name}, new shapes", "4 dimensions", "float32",
            direction="both" if "backward" in call.statement else "forward",
            bar=bar(call.bar), threads=1, host=True, repetitions=2 if scale.rehearsal else NEW_SHAPES_A_ROUND,
            prepare=partial(prepare_new_shapes, call, streams),
        )  # fmt: skip


def distinct_shapes() -> Iterator[tuple[int, ...]]:
    """Shapes of four dimensions, all different, in a fixed random order."""
    shapes = list(itertools.product(EXTENTS, repeat=4))
    random.Random(0).shuffle(shapes)
    return iter(shapes)


def most_rounds(calls: int = len(NEW_SHAPE_CALLS)) -> int:
    """For how many rounds of every call there are shapes that no call has seen."""
    return len(EXTENTS) ** 4 // (NEW_SHAPES_A_ROUND * calls) - 1


def prepare_new_shapes(
    call: SmallCall, streams: dict[str, Iterator[tuple[int, ...]]], library: Library
) -> Slice | None:
    """Return a slice in which every call meets a shape for the first time in the process.

    The operands are created before the clock starts. All calls of a library take shapes from one stream.
    """
    statement = call.numpy if library.is_arrays else call.statement
    if not statement:
        return None
    used = compile(statement, "<new shapes>", "exec").co_names
    names = [name for name in OPERAND_NAMES if name in used]
    namespace = library.names()
    exec(f"def loop(operands):\n    for {', '.join(names)}, in operands:\n        {statement}", namespace)
    loop = cast(Callable[[object], None], namespace["loop"])
    if library.name not in streams:
        streams[library.name] = distinct_shapes()
    shapes = streams[library.name]

    def work(count: int) -> float:
        fresh = list(itertools.islice(shapes, count))
        operands = [tuple(_operand(library, name, shape) for name in names) for shape in fresh]
        return timed_without_collector(partial(loop, operands)) * (count / len(fresh))

    return work


def _operand(library: Library, name: str, shape: tuple[int, ...]) -> Any:
    if name == "shape":
        return shape
    return library.tensor(Operand(partial(np.ones, shape, np.float32), requires_grad=name == "w"))
