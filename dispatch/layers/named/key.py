"""Named tensors: one fallback at the Named key (ATen/core/NamedRegistrations.cpp, ATen/NamedTensorUtils.cpp).

A plan of this key knows the names of the results, which follow from the operands' specs by the operator's rule
(`rules`). A call hands the operands on without their names and gives the results theirs. Autograd ignores names as
PyTorch's does: a named call comes here before autograd, which records it on tensors without names, so that graphs,
saved tensors and gradients have no names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.dimname import Names
from ....runtime.dispatch_key import Functionality
from ....runtime.named_spec import NAMED_BIT, NamedSpec, check_resize, check_written, named
from ....runtime.tensor_impl import TensorImpl
from ...autograd.creation import creation_of
from ...autograd.inplace import tell_views
from ...autograd.node import edge_of
from ...core.bound_arguments import tensors_in
from ...core.kernel_function import Plan
from ...core.operator_entry import IMPLICIT, OperatorEntry
from ...core.result_types import result_type_of
from ...schema import base_type
from ...tensor import Tensor, blank_tensor
from .rules import NamedCall, is_refused, rule_of


def plan_named(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan every operator without a Named kernel at the Named key.

    An operator without rule is taken apart if it is a composite, else refused with RuntimeError.
    """
    if not any(tensor._spec.__class__ is NamedSpec for tensor in tensors_in(args)):
        # The caller included the key, but no tensor has names.
        return op.plan(key_set & ~NAMED_BIT, args)
    # An overload by names becomes the one by positions, whose rule counts.
    by_name = any(base_type(argument.type).name == "Dimname" for argument in op.schema.arguments)
    rule = None if by_name else rule_of(op.name)
    if rule is None:
        parts = op.kernels.get(IMPLICIT)
        if parts is not None and _is_composite(op) and not is_refused(op.name):
            return parts[-1].plan(op, key_set, args)
        raise RuntimeError(unsupported(op.name))
    schema = op.schema
    outcome = rule(NamedCall(op.name, schema, args))
    names = list(outcome) if len(schema.returns) > 1 else [outcome] * len(schema.returns)
    for returned, expected in zip(schema.returns, names, strict=True):
        if returned.alias_info is not None and returned.alias_info.is_write:
            for value, argument in zip(args, schema.arguments, strict=True):
                if argument.is_write and argument.alias_info == returned.alias_info:
                    check_written(value._spec, expected)
    inner = op.plan(key_set & ~NAMED_BIT, [without_names(value) for value in args])
    return _naming(inner, names, result_type_of(schema))


def _is_composite(op: OperatorEntry) -> bool:
    """Return True if an operator runs as its parts, because it has other kernels above autograd, such as autocast's."""
    return all(
        key is IMPLICIT or (key.functionality or 0) > Functionality.AutogradFunctionality
        for key in op.kernels
    )


def unsupported(name: str) -> str:
    """Return PyTorch's error for an operator that has no rule."""
    return (
        f"{name} is not yet supported with named tensors. Please drop names via `tensor = tensor.rename(None)`, call "
        "the op with an unnamed tensor, and set names on the result of the operation."
    )


def without_names(value: Any) -> Any:
    """Return an argument without names: a named tensor's twin, lists traversed, other values unchanged."""
    if isinstance(value, TensorImpl):
        return twin_of(value) if value._spec.__class__ is NamedSpec else value
    if isinstance(value, (list, tuple)):
        return tuple([without_names(element) for element in value])
    return value


def twin_of(tensor: TensorImpl) -> Any:
    """Return a tensor with the same bytes, version counter and history, but without names."""
    spec = tensor._spec
    if spec.requires_grad:
        # A leaf's node references the leaf, so create it before the twin could be taken for the leaf.
        edge_of(tensor)
    cls = tensor.__class__
    if cls is Tensor:
        twin: Any = blank_tensor()
    else:
        twin = cls._blank()
        if hasattr(tensor, "__dict__"):
            twin.__dict__ = tensor.__dict__
    twin._data = tensor._data
    twin._spec = spec.unnamed
    twin._version_cell = None if spec.is_inference else tensor.version_cell()
    twin._autograd = tensor._autograd
    twin._view_base = tensor._view_base
    if tensor._view_base is not None:
        twin._creation = creation_of(tensor)
    return twin


def _naming(inner: Plan, names: Sequence[Any], make: Callable[[Sequence[Any]], Any] | None) -> Plan:
    """Wrap `inner`: call it with twins and name its results; `make` gathers several results."""

    def call(*runtime: Any) -> Any:
        twins: dict[int, Any] = {}
        twin_args = [_twinned(value, twins) for value in runtime]
        result = inner(*twin_args)
        own = {id(twin): tensor for twin, tensor in twins.values()}
        for twin, tensor in twins.values():
            _carry_over(twin, tensor)
        if make is None:
            return _named_result(result, names[0], own) if names else result
        return make([_named_result(r, n, own) for r, n in zip(result, names, strict=True)])

    return call


def _twinned(value: Any, twins: dict[int, Any]) -> Any:
    """Return an argument with twins for its named tensors; a repeated tensor has one twin."""
    if isinstance(value, TensorImpl):
        if value._spec.__class__ is not NamedSpec:
            return value
        known = twins.get(id(value))
        if known is None:
            known = twins[id(value)] = (twin_of(value), value)
        return known[0]
    if isinstance(value, (list, tuple)):
        return tuple([_twinned(element, twins) for element in value])
    return value


def _carry_over(twin: Any, tensor: Any) -> None:
    """Copy the effects of a write from a tensor's twin: history, requires-grad, bytes."""
    spec, before = twin._spec, tensor._spec
    check_resize(before, spec.sizes)
    tensor._data = twin._data
    tensor._autograd = twin._autograd
    if spec is not before.unnamed:
        tensor._spec = named(spec, before.names)
        if spec.requires_grad and not before.requires_grad and tensor._view_base is None:
            tell_views(tensor, tensor._version_cell)


def _named_result(result: Any, names: Any, own: dict[int, Any]) -> Any:
    """Return a result with its names. A returned argument is that argument; a view's base is the tensor itself."""
    if result.__class__ is tuple or result.__class__ is list:
        return type(result)([_named_result(r, names, own) for r in result])
    if not isinstance(result, TensorImpl):
        return result
    tensor: Tensor | None = own.get(id(result))
    if tensor is not None:
        return tensor
    made: Any = result
    if made._view_base is not None:
        made._view_base = own.get(id(made._view_base), made._view_base)
    made._spec = named(made._spec, names)
    return made


def renamed(tensor: Tensor, names: Names) -> Tensor:
    """Return a view of a tensor with other names; gradients pass as through `alias`."""
    view: Tensor = (twin_of(tensor) if tensor._spec.__class__ is NamedSpec else tensor).alias()
    if view._view_base is not None and tensor._view_base is None:
        view._view_base = tensor
    view._spec = named(view._spec, names)
    return view
