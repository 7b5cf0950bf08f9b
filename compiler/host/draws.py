"""Dropout in fused CPU kernels: the random numbers of eager calls, generated for a row or a tile at a time.

A kernel call takes the counters of its random ops from the generator, in program order. It passes the loop an array of
*seeds*: for each random op the seed and the first counter. Element i has word i % 4 of counter `first` + i // 4. The
geometry describes the array as having a byte for each element. So the offset of a row's pointer is the number of the
row's first element; the loop reads only the beginning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...cpu_fallback.widen import compute_dtype
from ...dispatch.structured.allocation import allocator_of
from ...dispatch.structured.meta.draws import kernel_of
from ...runtime.cpu.element_program import CannotLower, ElementProgram, Value
from ...runtime.generator import default_generator
from ..draws import DropoutCall

FEWEST = 8
"""The shortest row with random words: its buffer must have space for all words of its first and last counters."""


def seeds_of(program: ElementProgram) -> Value:
    """Return the array of seeds, as an input of a program."""
    return program.value("seeds", "uint8")


def dropped(program: ElementProgram, call: DropoutCall, number: int, operand: Value) -> dict[int, Value]:
    """Return the values of a dropout's results by their indices. Raise CannotLower if nothing is dropped.

    Args:
        program: The program to which values are added.
        call: The dropout.
        number: Its index among a kernel's random ops.
        operand: The input of the dropout.
    """
    limit = math.ceil((1.0 - call.p) * 2**32)
    if limit >= 2**32:
        raise CannotLower("native_dropout")
    words = program.value("draw", "uint32", operands=(seeds_of(program),), detail=number)
    keep_mask = program.compare("lt", words, program.number(limit, "uint32"))
    wide = compute_dtype(call.spec.dtype)
    scale = 0.0 if call.p == 1 else 1.0 / (1.0 - call.p)
    scaled = program.arithmetic(
        "mul", program.convert(operand, wide.name), program.number(wide.np.type(scale), wide.name)
    )
    # A zero factor keeps the sign, and NaN for infinite values.
    factor = program.select(keep_mask, program.number(1.0, wide.name), program.number(0.0, wide.name))
    left = program.convert(program.arithmetic("mul", scaled, factor), call.spec.dtype.name)
    return {0: left, 1: keep_mask}


def reservation(calls: Sequence[DropoutCall]) -> Callable[[], Any]:
    """Return a function that reserves the counters of random ops and returns their seeds and first counters."""
    device, counts = calls[0].spec.device, [call.counters for call in calls]

    def reserve() -> Any:
        generator = default_generator(device)
        return np.array([generator.reserve(count) for count in counts], np.uint64)

    return reserve


def eager_draw(call: DropoutCall) -> Callable[..., tuple[Any, ...]]:
    """Return a function from an input, a seed and a first counter to the output and the mask."""
    outputs = tuple(call.node.val)
    into = kernel_of("native_dropout", "native_dropout_stub", outputs, {"input": call.spec, "p": float})
    allocators, p = [allocator_of(spec) for spec in outputs], call.p

    def draw(operand: NDArray[Any], seed: int, first: int) -> tuple[Any, ...]:
        made = tuple([new() for new in allocators])
        into(*made, operand, p, seed, first)
        return made

    return draw
