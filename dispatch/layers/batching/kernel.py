"""Kernel of FuncTorchDynamicLayerBackMode for every operator: it runs the rule of the innermost mapped argument.

The key is below autograd, so that `grad` inside `vmap` records batched tensors and its formulas run batched, and above
the backends. A rule runs on behalf of its level: outer levels record the operators that it calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.dispatch_key import BY_NAME
from ....runtime.tensor_impl import TensorImpl
from ...core.bound_arguments import tensors_in
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ...core.result_types import result_type_of
from ..batched_tensor import BatchedValue, batched, refuse_escaped
from ..levels import VmapLevel, run_below
from .layout import Batch, result_of_one
from .table import rule_for

if TYPE_CHECKING:
    from ...tensor import Tensor

_KEY = BY_NAME["FuncTorchDynamicLayerBackMode"].bits


def plan_batched(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan a call with batched tensors. Each call finds the level, which is not part of specs.

    The operator checks one example here, from metadata, and raises its errors.
    """
    if not any(tensor._data.__class__ is BatchedValue for tensor in tensors_in(args)):
        # The caller included the key, but no tensor is mapped.
        return op.plan(key_set & ~_KEY, args)
    rule, describable = rule_for(op)
    if describable and not any(args[i] is not None for i in op.device_positions):
        result_of_one(op, args)
    schema = op.schema
    make = result_type_of(schema)
    alias = schema.returns[0].alias_info if len(schema.returns) == 1 else None
    # Batch normalization writes running statistics in addition to its results.
    writes = op.is_mutable and not any(each.alias_info is None for each in schema.returns)
    is_view = alias is not None and not alias.is_write

    def call(*values: Any) -> Any:
        level = _innermost(op, values)
        physical: list[Any] = []
        dims: list[Any] = []
        for value in values:
            if isinstance(value, TensorImpl):
                data = value._data
                if data.__class__ is BatchedValue and data.level is level:
                    physical.append(data.value)
                    dims.append(data.dim)
                    continue
            elif isinstance(value, (list, tuple)):
                opened = [_open(v, level) for v in value]
                if any(d is not None for _, d in opened):
                    physical.append([v for v, _ in opened])
                    dims.append(tuple([d for _, d in opened]))
                    continue
            physical.append(value)
            dims.append(None)
        result, out = run_below(level, rule, Batch(op, level), dims, *physical)
        if writes:
            return _written(op, values, make)
        if make is not None:
            out_dims = (out,) * len(result) if out.__class__ is int else out
            return make([_wrapped(r, d, level) for r, d in zip(result, out_dims, strict=True)])
        if not is_view:
            return _wrapped(result, out, level)
        return _as_view(_wrapped(result, out, level), values[0])

    return op.rebind(call, args)


def _innermost(op: OperatorEntry, values: Sequence[Any]) -> VmapLevel:
    """Return the innermost level among the arguments. Raises RuntimeError for a level that is not active here."""
    innermost: VmapLevel | None = None
    for tensor in tensors_in(values):
        data = tensor._data
        if data.__class__ is BatchedValue:
            refuse_escaped(data.level, op.name)
            if innermost is None or data.level.number > innermost.number:
                innermost = data.level
    assert innermost is not None, f"{op.name} is called as batched without a batched tensor"
    return innermost


def _open(value: Any, level: VmapLevel) -> tuple[Any, int | None]:
    if isinstance(value, TensorImpl):
        data = value._data
        if data.__class__ is BatchedValue and data.level is level:
            return data.value, data.dim
    return value, None


def _wrapped(value: Any, dim: Any, level: VmapLevel) -> Any:
    """Return a rule's result as a batched tensor; a list of them for a list."""
    if dim.__class__ is int:
        return batched(value, dim, level)
    if dim.__class__ is tuple:
        return [_wrapped(v, d, level) for v, d in zip(value, dim, strict=True)]
    return value


def _written(op: OperatorEntry, values: Sequence[Any], make: Any) -> Any:
    """Return the written arguments as an operator's results, with their versions incremented."""
    arguments = op.schema.arguments
    for argument, value in zip(arguments, values, strict=True):
        if argument.is_write:
            for tensor in tensors_in((value,)):
                tensor.bump_version()
    results = []
    for each in op.schema.returns:
        results += [v for a, v in zip(arguments, values, strict=True) if a.alias_info == each.alias_info]
    if not results:
        return None
    return results[0] if make is None else make(results)


def _as_view(out: Tensor, base: Tensor) -> Tensor:
    """Return a view's result, which shares its base's version and records the base for autograd."""
    if out._spec.is_inference:
        return out
    out._version_cell = base.version_cell()
    out._view_base = base if base._view_base is None else base._view_base
    return out
