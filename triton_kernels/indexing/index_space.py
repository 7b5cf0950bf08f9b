"""Launches over index spaces: a lane for each index, offsets of every operand from up to four coalesced sizes.

Spaces with more dimensions than that are walked through on the host, a launch for each outer index.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.device import device as Device
from ...runtime.memory_format import contiguous_strides
from ..geometry import Geometry, coalesced
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, next_power_of_2
from ..reduction.sides import MAX_DIMS, dimension_arguments

BLOCK = 1024
INTERPRETED_BLOCK = 16384

MOVED_AS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
"""Integer types that move elements of each size, regardless of their dtype."""


class Space(NamedTuple):
    """One index space of a kernel: its sizes, and strides by the kernel's names for them."""

    prefix: str
    geometry: Geometry
    names: tuple[str, ...]

    @property
    def numel(self) -> int:
        return math.prod(self.geometry.sizes)

    def is_dense(self, *names: str) -> bool:
        """Return True if these operands are contiguous in the order of the space."""
        gapless = contiguous_strides(self.geometry.sizes[::-1])[::-1]
        own = dict(zip(self.names, self.geometry.strides, strict=True))
        return all(own[name] == gapless for name in names)


def space(prefix: str, sizes: Sequence[int], strides: Mapping[str, Sequence[int]], ordered: bool) -> Space:
    """Return a coalesced space; `ordered` keeps linear indices in the logical order of the dimensions."""
    return Space(prefix, coalesced(sizes, list(strides.values()), ordered), tuple(strides))


def split(whole: Space) -> tuple[Space, list[tuple[int, ...]]]:
    """Return the inner dimensions that one launch covers, and each operand's element offset for each outer
    index.
    """
    sizes, strides = whole.geometry
    inner = Geometry(sizes[:MAX_DIMS], tuple(s[:MAX_DIMS] for s in strides))
    outer = [range(n) for n in reversed(sizes[MAX_DIMS:])]
    steps = [s[MAX_DIMS:][::-1] for s in strides]
    offsets = [
        tuple(sum(i * s for i, s in zip(index, own, strict=True)) for own in steps)
        for index in itertools.product(*outer)
    ]
    return Space(whole.prefix, inner, whole.names), offsets


def block_for(n: int, block: int = BLOCK) -> int:
    """Lanes of a program: few programs where each of them is dear."""
    return min(max(next_power_of_2(n), 16), INTERPRETED_BLOCK) if interpreted() else block


def launch_over(
    device: Device,
    kernel: Any,
    n: int,
    pointers: Mapping[str, str],
    spaces: Sequence[Space],
    numbers: Mapping[str, int],
    constexprs: Mapping[str, object],
    extent: int = 0,
    lanes: int = BLOCK,
    warps: int = 4,
    width: int = 0,
) -> Callable[..., None]:
    """Return a function of the pointers' addresses that launches a lane for each of `n` indices.

    Args:
        device: Device of the launch.
        kernel: takes the pointers, then ``n``, sizes and strides of the spaces, `numbers` and `constexprs`;
            as constants also NDIM of each space by its prefix, INDEX and BLOCK.
        extent: the largest offset that the spaces' strides do not tell.
        lanes, warps: Lanes and warps of a program on a GPU.
        width: if not 0, how many elements lie side by side at each index: `kernel` takes it after ``n``, and as
            constant RUNS too, how many indices a program has.
    """
    runs, block = 1, block_for(n, lanes)
    if width:
        tile = INTERPRETED_BLOCK if interpreted() else lanes
        block = min(next_power_of_2(width), tile)
        runs = tile // block
    kind = integer_type(
        n + runs * block, extent + sum(s.geometry.extent() for s in spaces), *numbers.values()
    )
    signature: dict[str, str] = dict(pointers)
    constants: dict[str, object] = dict(constexprs)
    values: dict[str, int] = {"n": n, **({"width": width} if width else {}), **numbers}
    signature |= dict.fromkeys(values, kind)
    for space in spaces:
        strides = dict(zip(space.names, space.geometry.strides, strict=True))
        types, fixed, space_values = dimension_arguments(space.prefix, space.geometry.sizes, strides, kind)
        signature |= types
        constants |= fixed
        values |= space_values
        constants[f"NDIM_{space.prefix.upper()}"] = len(space.geometry.sizes)
    constants |= {"INDEX": tl.int32 if kind == "i32" else tl.int64, "BLOCK": block}
    divisible = []
    if width:
        constants["RUNS"] = runs
        divisible = [name for name, value in values.items() if value % ALIGNMENT == 0]
    order = [name for name in kernel.arg_names if name in signature]
    launch = Launch(
        device,
        kernel,
        {name: signature[name] for name in order},
        constants,
        divisible=divisible,
        # The flag of an index is one number, and not accessed in vectors.
        elements=("flag",),
        num_warps=warps,
    )
    arguments = tuple(values[name] for name in order if name in values)
    grid = (cdiv(n, runs), cdiv(width, block), 1) if width else (cdiv(n, block), 1, 1)

    def run(*addresses: int) -> None:
        launch(grid, *addresses, *arguments)

    return run
