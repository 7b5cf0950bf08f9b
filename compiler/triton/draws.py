"""Dropout masks as values of fused kernels; see `compiler/draws.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch.layers.graph.graph import Node
from ...triton_kernels.conversion import compute_type, triton_type
from ...triton_kernels.random import random_functions as f
from ...triton_kernels.random.dropout import kept_at, kept_of_counters, scale_for
from ...triton_kernels.random.random import start_of_draws, threshold
from ..draws import DropoutCall
from .source_text import type_text

if TYPE_CHECKING:
    from .row_statements import Program


def limit_of(call: DropoutCall) -> str:
    """Return the threshold below which dropout keeps an element, as source."""
    return f"tl.full([], {threshold(1.0 - call.p)[0]}, tl.int64)"


def left_text(call: DropoutCall, value: str, keep_mask: str, function: str) -> str:
    """Return the output of dropout for a value, as source; `function` is the name of the dropping function."""
    type_, out = type_text(compute_type(call.spec.dtype)), type_text(triton_type(call.spec.dtype))
    scale = f"tl.full([], {scale_for(call.p)!r}, {type_})"
    return f"convert({function}(convert({value}, {type_}), {keep_mask}, {scale}), {out})"


def start_lines(count: int, function: str) -> list[str]:
    """Return the lines that compute the start of each random op; `function` is the source's name of
    `start_of_draws`."""
    return [f"seed_{i}, at_{i} = {function}(seed, first_{i}, state)" for i in range(count)]


def kept_lines(
    calls: Sequence[DropoutCall], element_index: str, coordinates: Sequence[str], imports: dict[Any, str]
) -> list[str]:
    """Return the lines that compute the dropout masks of a block in a pointwise kernel.

    Args:
        calls: The dropouts.
        element_index: The index of an element in the order of random numbers, as source.
        coordinates: Lines that define the names in `element_index`, unless it is ``index``.
        imports: Functions by their names in the source; others are added.
    """
    lines = start_lines(len(calls), function_name(imports, start_of_draws))
    for i, call in enumerate(calls):
        if element_index == "index":
            counter = f"at_{i} + start // 4 + tl.arange(0, BLOCK // 4)"
            keep_mask = f"{function_name(imports, kept_of_counters)}(seed_{i}, {counter}, {limit_of(call)})"
        else:
            keep_mask = (
                f"{function_name(imports, kept_at)}(seed_{i}, at_{i}, {element_index}, {limit_of(call)})"
            )
        lines.append(f"keep_{i} = {keep_mask}")
    return lines if element_index == "index" else [*coordinates, *lines]


def values_of(call: DropoutCall, number: int, value: str, imports: dict[Any, str]) -> dict[Node, str]:
    """Return the values of a dropout's results in a pointwise kernel."""
    keep_mask = f"keep_{number}"
    every = {0: left_text(call, value, keep_mask, function_name(imports, f.kept)), 1: keep_mask}
    return {node: every[index] for index, node in sorted(call.results.items())}


def kept_of_tile_lines(
    call: DropoutCall,
    number: int,
    value: str,
    is_batched: bool,
    names: Mapping[Node, str],
    imports: dict[Any, str],
) -> list[str]:
    """Return the lines that define a dropout's results over a tile of a matmul, whose `quads` index groups of four
    columns.

    Args:
        call: The dropout.
        number: Its index among the kernel's dropouts.
        value: The name of its input.
        is_batched: True for a batched matmul.
        names: The names of its results.
        imports: Functions by their names in the source; others are added.
    """
    row = "rows.to(tl.int64)[:, None]"
    if is_batched:
        row = f"(batch * m + {row})"
    counter = f"(at_{number} + {row} * (n // 4)) + quads[None, :]"
    keep_mask = names.get(call.results.get(1), f"k_{number}")  # type: ignore[arg-type]
    drawn = f"{function_name(imports, kept_of_counters)}(seed_{number}, {counter}, {limit_of(call)})"
    lines = [f"# aten.native_dropout({value}, {call.p})", f"{keep_mask} = {drawn}"]
    if 0 in call.results:
        left = left_text(call, value, keep_mask, function_name(imports, f.kept))
        lines.append(f"{names[call.results[0]]} = {left}")
    return lines


def function_name(imports: dict[Any, str], function: Any) -> str:
    """Return the name of a `@triton.jit` function in the source."""
    return imports.setdefault(function, f"f_{function.__name__}_{len(imports)}")


def dropped_rows(made: Program, call: DropoutCall, own: str, row: int) -> dict[int, str]:
    """Write dropout over rows of `row` elements to a program. Returns the names of its values, by their indices."""
    number = len(made.draws)
    made.draws.append(call)
    if row % 4:
        index = f"o.to(tl.int64) * {row} + r"
        text = f"{made.function(kept_at)}(seed_{number}, at_{number}, {index}, {limit_of(call)})"
    else:
        counter = f"at_{number} + o.to(tl.int64) * {row // 4} + quads"
        text = f"{made.function(kept_of_counters)}(seed_{number}, {counter}, {limit_of(call)})"
    keep_mask = made.value(text, comment=call.node.format_node(), moves_along_rows=True)
    left = left_text(call, f"{{{own}}}", f"{{{keep_mask}}}", made.function(f.kept))
    words = max(call.spec.itemsize // 4, 1)
    return {0: made.value(left, own, keep_mask, words=words), 1: keep_mask}
