"""Dropout in fused kernels on the CPU: the random numbers of eager calls, drawn for a row or a tile at a time.

A call of a kernel takes the counters of its draws from the generator, in the order of the program, and gives the loop
an array of *seeds*: for each draw the seed and the first counter. Element i of a draw has word i % 4 of counter `first`
+ i // 4. The geometry has the array as one of a byte for each element, so that how far a pointer to a row is from its
beginning is the number of the row's first element; only the beginning is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...cpu_fallback.widen import compute_dtype
from ...dispatch.structured.allocation import allocator_of
from ...dispatch.structured.meta.draws import kernel_of
from ...runtime.generator import default_generator
from ..draws import DropoutCall
from .element_program import CannotLower, ElementProgram, Value

FEWEST = 8
"""Elements of a row that is drawn: its words are to find room in its memory with those of its counters that belong to
the rows beside it."""


def seeds_of(program: ElementProgram) -> Value:
    """The array of seeds, as an input of a program."""
    return program.value("seeds", "uint8")


def dropped(program: ElementProgram, call: DropoutCall, number: int, given: Value) -> dict[int, Value]:
    """The values of a draw's results by their places. Raises CannotLower where everything is kept.

    Args:
        program: where values are made.
        call: the draw.
        number: its place among a kernel's draws.
        given: what elements are dropped of.
    """
    limit = math.ceil((1.0 - call.p) * 2**32)
    if limit >= 2**32:
        raise CannotLower("native_dropout")
    words = program.value("draw", "uint32", operands=(seeds_of(program),), detail=number)
    kept = program.compare("lt", words, program.number(limit, "uint32"))
    wide = compute_dtype(call.spec.dtype)
    scale = 0.0 if call.p == 1 else 1.0 / (1.0 - call.p)
    scaled = program.arithmetic(
        "mul", program.convert(given, wide.name), program.number(wide.np.type(scale), wide.name)
    )
    # A factor of zero leaves the sign, and NaN of what is infinite.
    factor = program.select(kept, program.number(1.0, wide.name), program.number(0.0, wide.name))
    left = program.convert(program.arithmetic("mul", scaled, factor), call.spec.dtype.name)
    return {0: left, 1: kept}


def reservation(calls: Sequence[DropoutCall]) -> Callable[[], Any]:
    """A function that takes the counters of draws, and gives their seeds and first counters."""
    device, counts = calls[0].spec.device, [call.counters for call in calls]

    def reserve() -> Any:
        generator = default_generator(device)
        return np.array([generator.reserve(count) for count in counts], np.uint64)

    return reserve


def eager_draw(call: DropoutCall) -> Callable[..., tuple[Any, ...]]:
    """A function from what elements are dropped of, a seed and a first counter to what is left, and the mask."""
    outputs = tuple(call.node.val)
    into = kernel_of("native_dropout", "native_dropout_stub", outputs, {"input": call.spec, "p": float})
    allocators, p = [allocator_of(spec) for spec in outputs], call.p

    def draw(given: Any, seed: int, first: int) -> tuple[Any, ...]:
        made = tuple([new() for new in allocators])
        into(*made, given, p, seed, first)
        return made

    return draw
