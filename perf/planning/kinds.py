"""Kinds of work for CPU measurements: each call of a program belongs to one kind.

A kind is an operator, the dtypes, and the operands' layouts: contiguous, transposed, or a broadcast row or
column. For reductions it also includes the reduced dimensions and the length of lines. A kind has *probes*:
calls of the same operator on operands of a few standard sizes, usually far smaller than the program's. Many
calls therefore share a kind, and measuring it takes milliseconds. `products`, `convolutions`, `lists` and
`leading` (all other calls) are in `heavy_kinds`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.core.tags import Tag
from .recording import Operand, RecordedCall

Arguments = Mapping[str, Any]

BYTES, FLOPS = "bytes", "flops"
SIDES = (4, 64, 256, 1024)
"""Rows and columns of elementwise probes: 16 elements, what small memory holds, caches, and past the second level."""
ELEMENTS = tuple(side * side for side in SIDES)

# Elementwise although no tag says so: copies, conversions, fills and random numbers, losses before their reduction.
ELEMENTWISE = frozenset({
    "clone", "copy", "_to_copy", "fill", "zero", "masked_fill", "native_dropout", "mse_loss_backward",
    "huber_loss_backward", "smooth_l1_loss_backward", "zeros", "ones", "full", "uniform", "normal", "bernoulli",
    "exponential", "log_normal", "geometric", "cauchy", "random", "rand", "randn", "complex", "polar",
})  # fmt: skip

# Along one dimension, or the last ones, line by line.
LINES = frozenset({
    "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "cumsum", "cumprod", "cummax",
    "cummin", "_cummax_helper", "_cummin_helper", "logcumsumexp", "sort", "argsort", "topk", "kthvalue", "median",
    "linalg_vector_norm", "logsumexp", "native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm",
    "_fused_rms_norm_backward", "var_mean", "std_mean", "aminmax", "flip",
})  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """One kind: its name (kinds of one name have the same rates), what its work is counted in, and its probes.

    `probe` gives the arguments of `func` at one of `sizes`, which ascend. A probe is `items` pieces of work of the size
    that its rates are told by; a call has as many as `items_of` says.
    """

    name: str
    func: OpOverload
    unit: str
    sizes: tuple[int, ...]
    probe: Callable[[int], Arguments]
    items: int = 1
    items_of: Callable[[RecordedCall], int] = lambda call: 1


def contiguous(*shape: int, dtype: Any) -> Operand:
    """Return a contiguous operand."""
    return in_order(shape, range(len(shape) - 1, -1, -1), dtype)


def in_order(shape: Sequence[int], order: Sequence[int], dtype: Any) -> Operand:
    """Return a dense operand whose dimensions have this memory order, the innermost first."""
    strides = [0] * len(shape)
    step = 1
    for dim in order:
        strides[dim] = step
        step *= max(1, shape[dim])
    return Operand(tuple(shape), tuple(strides), dtype)


def order_of(operand: Operand) -> list[int]:
    """Return the dimensions in memory order, the innermost first; dimensions of size 1 keep their position."""
    dims = range(len(operand.shape) - 1, -1, -1)
    real = iter(sorted((d for d in dims if operand.shape[d] > 1), key=lambda d: operand.strides[d]))
    return [d if operand.shape[d] <= 1 else next(real) for d in dims]


def resized(operand: Operand, shape: Sequence[int]) -> Operand:
    """Return an operand of another size with the same memory order."""
    return in_order(shape, order_of(operand), operand.dtype)


def map_operands(arguments: Arguments, replace: Callable[[Operand], Operand]) -> dict[str, Any]:
    """Replace the operands of arguments, including those in lists."""

    def changed(value: Any) -> Any:
        if isinstance(value, Operand):
            return replace(value)
        return tuple(map(changed, value)) if isinstance(value, tuple) else value

    return {name: changed(value) for name, value in arguments.items()}


def described(call: RecordedCall, *more: object) -> str:
    """Return a kind's name: the operator, dtypes and options, without numbers other than exponents."""
    options = {
        name: value
        for name, value in call.arguments.items()
        if not isinstance(value, Operand | tuple | float | int)
        or isinstance(value, bool)
        or name == "exponent"
    }
    dtypes = [operand.dtype.name for operand in (*call.operands, *call.results)]
    options.pop("generator", None)
    return f"{call.func.name()} {dtypes} {options} {more}"


def is_elementwise(call: RecordedCall) -> bool:
    """Return True if the operator is elementwise."""
    return (
        Tag.pointwise in call.func.tags
        or call.base in ELEMENTWISE
        or call.base.endswith("_like")
        or call.base.startswith("new_")
    )


def elementwise(call: RecordedCall) -> Kind | None:
    """Return probes on square operands, with rows, columns, transposes and numbers where the call has them."""
    shown = [*call.results, *call.operands]
    if not shown:
        return None
    whole = max(shown, key=lambda operand: (operand.numel, operand in call.results))

    def placement(operand: Operand) -> str:
        if operand.numel == 1 or not any(operand.strides):
            return "number"
        if operand.numel < whole.numel or 0 in operand.strides:
            return "row" if operand.strides[-1] and operand.shape[-1] > 1 else "column"
        return "whole" if order_of(operand) == order_of(whole) else "turned"

    # The layout of all operands matters too: rows form one long row only if they are adjacent.
    lies = "in order" if order_of(whole) == [*range(len(whole.shape) - 1, -1, -1)] else "not in order"

    def placed(operand: Operand, side: int) -> Operand:
        along, across = (side, 1), (1, side)
        geometries = {
            "whole": ((side, side), along if lies == "in order" else across),
            "turned": ((side, side), across if lies == "in order" else along),
            "row": ((side,), (1,)),
            "column": ((side, 1), (1, 1)),
            "number": ((), ()),
        }
        return Operand(*geometries[placement(operand)], operand.dtype)

    def probe(side: int) -> Arguments:
        arguments = map_operands(call.arguments, lambda operand: placed(operand, side))
        if "size" in arguments:
            arguments["size"] = (side, side)
        return arguments

    return Kind(described(call, lies, [*map(placement, call.operands)]), call.func, BYTES, SIDES, probe)


def is_by_lines(call: RecordedCall) -> bool:
    """Return True if the operator reduces or scans along dimensions."""
    return bool(call.operands) and (Tag.reduction in call.func.tags or call.base in LINES)


def lines(call: RecordedCall) -> Kind:
    """Return probes on lines of the call's own length, rounded to a power of four.

    The reduced dimensions are the last ones (``last``), outer ones (``across``), both (an image's channels), or all.
    """
    source = call.operands[0]
    rank = len(source.shape)
    along = _reduced(call, rank)
    within = _last_run(along, rank, rank - 1 in along)
    extent = (
        "all" if len(along) == rank
        else "across" if rank - 1 not in along
        else "last" if len(within) == len(along)
        else "both"
    )  # fmt: skip
    length = 1 if extent == "all" else math.prod(source.shape[dim] for dim in within)
    rounded = _rounded(length)
    num_channels = (
        _rounded(math.prod(source.shape[dim] for dim in range(rank) if dim not in along))
        if extent == "both"
        else 1
    )
    num_lines = source.numel // max(1, length)
    lies = "in order" if order_of(source) == [*range(rank - 1, -1, -1)] else "not in order"
    side = math.isqrt(rounded)
    # An image's two dimensions stay two: a reduction may not take them for one.
    line = (side, side) if extent == "both" and len(within) > 1 else (rounded,)
    dims_by_extent = {"all": (0,), "across": (0,), "last": (1,), "both": (0, *range(2, 2 + len(line)))}

    def placed(operand: Operand, rows: int) -> Operand:
        if operand.numel == source.numel:
            shape = {"all": (rows * rounded,), "both": (max(1, rows // num_channels), num_channels, *line)}
            made = contiguous(*shape.get(extent, (rows, rounded)), dtype=operand.dtype)
            return made if lies == "in order" else in_order(made.shape, range(len(made.shape)), operand.dtype)
        if extent in ("last", "across") and operand.numel == num_lines:
            return contiguous(rows, 1, dtype=operand.dtype)
        if extent in ("last", "across") and operand.numel == length:
            return contiguous(rounded, dtype=operand.dtype)
        return contiguous(dtype=operand.dtype)

    def probe(elements: int) -> Arguments:
        rows = max(1, elements // rounded)
        arguments = map_operands(call.arguments, lambda operand: placed(operand, rows))
        dim = arguments.get("dim")
        if isinstance(dim, tuple) and dim:
            arguments["dim"] = dims_by_extent[extent]
        elif isinstance(dim, int) and not isinstance(dim, bool):
            arguments["dim"] = dims_by_extent[extent][0]
        if "normalized_shape" in arguments:
            arguments["normalized_shape"] = (rounded,)
        if isinstance(arguments.get("k"), int):
            arguments["k"] = min(arguments["k"], rows if extent == "across" else rounded)
        return arguments

    return Kind(described(call, extent, line, num_channels, lies), call.func, BYTES, ELEMENTS, probe)


def _rounded(length: int) -> int:
    return 4 ** min(6, max(1, round(math.log(max(1, length), 4))))


def _last_run(along: set[int], rank: int, reduced: bool) -> list[int]:
    """Return the last dimensions that are all reduced, or all not reduced."""
    return list(itertools.takewhile(lambda dim: (dim in along) == reduced, range(rank - 1, -1, -1)))


def _reduced(call: RecordedCall, rank: int) -> set[int]:
    if "normalized_shape" in call.arguments:
        return set(range(rank - len(call.arguments["normalized_shape"]), rank))
    dim = call.arguments.get("dim")
    if dim is None or dim == () or rank == 0:
        return set(range(rank))
    return {d % rank for d in (dim if isinstance(dim, tuple) else (dim,))}
