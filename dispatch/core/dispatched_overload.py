"""Selection of the overload that PyTorch dispatches for a call.

In triten, one plan serves ``x == tensor`` and ``x == 1``: ``eq.Tensor``, with a Python number in a tensor argument.
PyTorch's parser picks ``eq.Scalar`` for the number. User-written modes, subclasses and kernels see PyTorch's
overload. Calls that only this package sees keep the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from ...runtime.thread_state import origin
from ..schema.types import BaseType, Type
from .call_arguments import NUMBERS
from .dispatcher import Dispatcher
from .operator_entry import OperatorEntry

NUMBERS_AS_TENSORS: Final = frozenset(
    f"aten::{name}{suffix}"
    for name in (
        "add",
        "sub",
        "mul",
        "div",
        "multiply",
        "subtract",
        "divide",
        "true_divide",
        "floor_divide",
        "copy",
    )
    for suffix in ("", "_")
)
"""Operators whose tensor overloads PyTorch's Python calls with numbers (``should_allow_numbers_as_tensors``).

PyTorch's composites and derivatives call the overloads for numbers (`native_calls`).
"""

_LAST: Final = (1 << 63) - 1
"""The stop value of a slice without an explicit end."""


def dispatched(op: OperatorEntry, values: Sequence[Any]) -> tuple[OperatorEntry, Sequence[Any]]:
    """Return the operator that PyTorch dispatches for a call, and the call's values in its schema's order.

    `values` are all arguments of `op`, bound. A call that PyTorch dispatches as it is comes back unchanged.

    Example:
        >>> import triten as tt
        >>> from triten.dispatch.core.dispatched_overload import dispatched
        >>> op, values = dispatched(tt.ops.aten.eq.Tensor._entry, (tt.ones(2), 1))
        >>> op.name
        'aten::eq.Scalar'
    """
    rewrite = _REWRITES.get(op.name)
    if rewrite is not None:
        return rewrite(op, values)
    if not op.numbers_as_tensors:
        return op, values
    positions = number_positions(op, values)
    if not positions or (not origin.is_native and op.name.partition(".")[0] in NUMBERS_AS_TENSORS):
        return op, values
    overload = _with_numbers(op.name, positions)
    return (op, values) if overload is None else (overload, _in_order(op, overload, values))


def reached(op: OperatorEntry, values: Sequence[Any]) -> tuple[OperatorEntry, Sequence[Any]]:
    """Return the result of `dispatched` if a user-written kernel serves that call; else the call unchanged."""
    rewrite = _REWRITES.get(op.name)
    if rewrite is _where:
        return rewrite(op, values) if op.user_kernel_serves(values) else (op, values)
    overload, overload_values = dispatched(op, values)
    return (
        (overload, overload_values)
        if overload is not op and overload.user_kernel_serves(overload_values)
        else (op, values)
    )


def stands_for_numbers(op: OperatorEntry, values: Sequence[Any]) -> bool:
    """Return whether PyTorch dispatches another overload of `op` because numbers stand for tensors."""
    return op.numbers_as_tensors and dispatched(op, values)[0] is not op


def number_positions(op: OperatorEntry, values: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions at which a Python number stands for a tensor."""
    arguments = op.schema.arguments
    return tuple(
        i for i, value in enumerate(values) if value.__class__ in NUMBERS and _is_tensor(arguments[i].type)
    )


def _is_tensor(type: Type) -> bool:
    return isinstance(type, BaseType) and type.name == "Tensor"


@cache
def _with_numbers(name: str, positions: tuple[int, ...]) -> OperatorEntry | None:
    """Return the overload that has a Scalar wherever a call of `name` has a number; None if there is none."""
    base = name.partition(".")[0]
    find = Dispatcher.singleton().find_schema_or_throw
    expected = [
        (a.name, "Scalar" if i in positions else str(a.type), a.is_write)
        for i, a in enumerate(find(name).schema.arguments)
    ]
    for each in Dispatcher.singleton().packets.get(base, ()):
        entry = find(each)
        if [(a.name, str(a.type), a.is_write) for a in entry.schema.arguments] == expected:
            return entry
    return None


def _in_order(op: OperatorEntry, other: OperatorEntry, values: Sequence[Any]) -> Sequence[Any]:
    """Reorder the values of an `op` call for another overload with the same argument names."""
    names = [a.name for a in op.schema.arguments]
    target_names = [a.name for a in other.schema.arguments]
    return values if names == target_names else [values[names.index(name)] for name in target_names]


def _where(op: OperatorEntry, values: Sequence[Any]) -> tuple[OperatorEntry, Sequence[Any]]:
    """Convert numbers to tensors, as PyTorch's composite ``where.ScalarOther`` and related overloads do."""
    positions = number_positions(op, values)
    if not positions:
        return op, values
    from ..iterator.type_promotion import result_type

    scalar_tensor = Dispatcher.singleton().find_schema_or_throw("aten::scalar_tensor")
    branches = values[1:3]
    dtype = result_type(*branches)
    made = list(values)
    for position in reversed(positions):
        made[position] = scalar_tensor.call(values[position], dtype, None, values[0]._spec.device, None)
    for position in (1, 2):
        if position not in positions and made[position]._spec.dtype is not dtype:
            made[position] = made[position].to(dtype)
    return op, made


def _corrected(op: OperatorEntry, values: Sequence[Any]) -> tuple[OperatorEntry, Sequence[Any]]:
    """Convert ``unbiased`` to ``correction``, as PyTorch's composites do."""
    base, _, overload = op.name.partition(".")
    name = f"{base}.correction_out" if overload == "out" else f"{base}.correction"
    entry = Dispatcher.singleton().find_schema_or_throw(name)
    if not overload:
        self, unbiased = values
        return entry, [self, None, None if unbiased else 0, False]
    self, dim, unbiased, keepdim, *out = values
    return entry, [self, dim, int(unbiased), keepdim, *out]


def _chunk(op: OperatorEntry, values: Sequence[Any]) -> tuple[OperatorEntry, Sequence[Any]]:
    """Split a dimension as PyTorch's composites ``chunk`` and ``unsafe_chunk`` do."""
    self, chunks, dim = values
    split = op.name.replace("chunk", "split")
    find = Dispatcher.singleton().find_schema_or_throw
    sizes = self._spec.sizes
    if chunks <= 0 or not -len(sizes) <= dim < len(sizes):
        return op, values
    if not sizes[dim]:
        return find(f"{split}_with_sizes"), [self, (0,) * chunks, dim]
    return find(f"{split}.Tensor"), [self, -(-sizes[dim] // chunks), dim]


def _split_with_sizes(op: OperatorEntry, values: Sequence[Any]) -> tuple[OperatorEntry, Sequence[Any]]:
    return Dispatcher.singleton().find_schema_or_throw("aten::split_with_sizes"), values


def _diag(op: OperatorEntry, values: Sequence[Any]) -> tuple[OperatorEntry, Sequence[Any]]:
    """Build a matrix from a vector, or take a matrix's diagonal, as PyTorch's composite ``diag`` does."""
    name = {1: "diag_embed", 2: "diagonal_copy"}.get(values[0]._spec.ndim)
    if name is None:
        return op, values
    return Dispatcher.singleton().find_schema_or_throw(f"aten::{name}"), [
        *values,
        *((-2, -1) if name == "diag_embed" else (0, 1)),
    ]


def _slice(op: OperatorEntry, values: Sequence[Any]) -> tuple[OperatorEntry, Sequence[Any]]:
    """Fill in the omitted bounds of a slice, as PyTorch's subscripts in Python do."""
    self, dim, start, end, step = values
    if origin.is_native or (start is None and end is None and step == 1):
        return op, values
    return op, [self, dim, 0 if start is None else start, _LAST if end is None else end, step]


def _slice_first(op: OperatorEntry, values: Sequence[Any]) -> tuple[OperatorEntry, Sequence[Any]]:
    """Slice the first dimension by the operator for any dimension, as PyTorch's subscripts do."""
    self, start, end, step = values
    bounds = 0 if start is None else start, _LAST if end is None else end
    return Dispatcher.singleton().find_schema_or_throw("aten::slice.Tensor"), [self, 0, *bounds, step]


def _select_first(op: OperatorEntry, values: Sequence[Any]) -> tuple[OperatorEntry, Sequence[Any]]:
    """Select from the first dimension by the operator for any dimension, as PyTorch's subscripts do."""
    self, index = values
    return Dispatcher.singleton().find_schema_or_throw("aten::select.int"), [self, 0, index]


def _slice_backward(op: OperatorEntry, values: Sequence[Any]) -> tuple[OperatorEntry, Sequence[Any]]:
    """Fill in the omitted bounds of the slice, which PyTorch's subscripts had filled in."""
    grad, sizes, dim, start, end, step = values
    return op, [grad, sizes, dim, 0 if start is None else start, _LAST if end is None else end, step]


Rewrite = Callable[[OperatorEntry, Sequence[Any]], tuple[OperatorEntry, Sequence[Any]]]

_REWRITES: Final[dict[str, Rewrite]] = {
    "aten::where.self": _where,
    "aten::where.self_out": _where,
    "aten::chunk": _chunk,
    "aten::diag": _diag,
    "aten::slice.Tensor": _slice,
    "aten::slice_backward": _slice_backward,
    "aten::_slice_first": _slice_first,
    "aten::_select_first": _select_first,
    "aten::unsafe_chunk": _chunk,
    "aten::split.sizes": _split_with_sizes,
    **{f"aten::{name}{form}": _corrected for name in ("std", "var") for form in ("", ".dim", ".out")},
}
