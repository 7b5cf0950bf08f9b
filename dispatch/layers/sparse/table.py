"""Table of the functions that serve operators at a sparse key, and their in-place and ``out=`` forms.

A module lists its functions by the operator's full name, ``KERNELS = {"add.Tensor": add}``. Functions take the
arguments in the schema's order and return new tensors. An in-place form replaces the first argument's data by the
functional form's result; an ``out=`` form writes it to ``out``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ....runtime.dispatch_key import DispatchKey, Functionality
from ....runtime.layout import sparse_coo, strided
from ....runtime.storage import root_of
from ....runtime.version_cell import share_version
from ...composite.forms import owned
from ...composite.sparse_compressed import compressed_tensor
from ...composite.sparse_coo import coo_tensor
from ...core.bound_arguments import tensors_in
from ...core.dispatcher import Dispatcher
from ...core.kernel_function import KernelFunction
from ...core.operator_entry import OperatorEntry
from ...tensor import Tensor
from .forms import in_place, into_out

Function = Callable[..., Any]

find = Dispatcher.singleton().find_schema_or_throw

MODULES = {
    Functionality.Sparse: (
        *("coo_structure", "coo_pointwise", "coo_shapes", "coo_reductions", "compressed_of_coo", "products"),
    ),
    Functionality.SparseCsr: (
        *("compressed_structure", "compressed_places", "compressed_pointwise", "compressed_sums"),
        *("compressed_products", "products"),
    ),
}
"""The modules of each key; if two list an operator, the first one serves it."""


@cache
def functions_of(functionality: Functionality) -> dict[str, Function]:
    """Return all functions of a key, by operator."""
    by_operator: dict[str, Function] = {}
    for name in reversed(MODULES[functionality]):
        by_operator.update(importlib.import_module(f".{name}", __package__).KERNELS)
    return by_operator


def kernel_of(op: OperatorEntry, key: DispatchKey) -> KernelFunction | None:
    """Return the kernel of an operator at a sparse key, or None if it has none."""
    namespace, _, name = op.name.partition("::")
    if namespace != "aten" or key.functionality is None:
        return None
    functions = functions_of(key.functionality)
    function = functions.get(name) or _form_of(op, name, functions)
    if function is None:
        return None
    if not op.schema.is_mutable:
        is_alias = any(each.alias_info is not None for each in op.schema.returns)
        function = (with_shared_version if is_alias else with_owned_results)(function)
    return KernelFunction(function, source=function.__module__)


def with_owned_results(function: Function) -> Function:
    """Wrap the function so that its results own their data.

    A strided result is copied if the last step was a view. The indices of a sparse result with new values are copied
    if they are an argument's, so that a write to either reaches one tensor only.
    """

    def kernel(*args: Any) -> Any:
        out = function(*args)
        if not isinstance(out, Tensor):
            return out
        if out._view_base is not None:
            return owned(out)
        return out if out._spec.layout is strided else _with_own_indices(out, args)

    kernel.__module__ = function.__module__
    return kernel


def _with_own_indices(out: Any, args: Sequence[Any]) -> Any:
    """Return a sparse result with a copy of the indices that it shares with an argument.

    A result with an argument's values too is another object for that argument.
    """
    held: set[int] = set()
    for each in tensors_in(args):
        if each._spec.layout is not strided:
            data: Any = each._data
            if data.values is out._data.values or _memory(data.values) == _memory(out._data.values):
                return out
            held.update(map(_memory, _indices_of(each)))
    indices = _indices_of(out)
    if not any(_memory(each) in held for each in indices):
        return out
    own = [each.clone() if _memory(each) in held else each for each in indices]
    values, spec = out._data.values, out._spec
    if spec.layout is sparse_coo:
        return coo_tensor(own[0], values, spec.sizes, out._data.is_coalesced)
    return compressed_tensor(own[0], own[1], values, spec.sizes, spec.layout)


def _indices_of(tensor: Any) -> tuple[Any, ...]:
    data = tensor._data
    return (data.indices,) if tensor._spec.layout is sparse_coo else (data.compressed, data.plain)


def _memory(tensor: Any) -> int:
    return id(root_of(tensor._data))


def with_shared_version(function: Function) -> Function:
    """Wrap the function so that a write to a result, which holds parts of the first argument, counts for both."""

    def kernel(self: Any, *rest: Any) -> Any:
        out = function(self, *rest)
        return [shared(each, self) for each in out] if isinstance(out, list) else shared(out, self)

    def shared(out: Any, self: Any) -> Any:
        if out is self or (out._version_cell is not None and out._version_cell is self._version_cell):
            return out
        return share_version(owned(out) if out._view_base is not None else out, self)

    kernel.__module__ = function.__module__
    return kernel


def _form_of(op: OperatorEntry, name: str, functions: dict[str, Function]) -> Function | None:
    """Return the in-place or ``out=`` form of a function in the table."""
    base, _, overload = name.partition(".")
    schema = op.schema
    if schema.is_inplace:
        function = functions.get(
            f"{base.removesuffix('_')}.{overload}" if overload else base.removesuffix("_")
        )
        return None if function is None else in_place(base, function, "inplace_view" in op.tags)
    outs = [a for a in schema.arguments if a.is_out]
    if len(outs) != 1:
        return None
    inputs = [(a.name, a.type) for a in schema.arguments if not a.is_out]
    for functional, function in functions.items():
        if functional.partition(".")[0] == base:
            arguments = find(f"aten::{functional}").schema.arguments
            if [(a.name, a.type) for a in arguments] == inputs:
                return into_out(base, function)
    return None
