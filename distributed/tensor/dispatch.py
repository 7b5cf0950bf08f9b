"""Dispatch of operators with distributed tensors: cached decisions are applied to this rank's parts."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

from ...dispatch.core.op_overload import OpOverload
from ...dispatch.core.operator_entry import OperatorEntry
from ...dispatch.tensor import Tensor
from ...runtime.tensor_impl import TensorImpl
from .decision import Decision, decide, tensors_of, with_tensors
from .dtensor import DTensor, Part
from .placements import REPLICATE, Partial
from .redistribute import redistribute_local_tensor
from .rules.table import rule_of
from .spec import DTensorSpec, TensorMeta
from .views import check_view, check_writes, tie_views

__all__ = ["call", "dispatch", "implicit_replication"]

MAX_DECISIONS = 1 << 14
_OWN_REFERENCES = 3
"""References to a counter of versions that one tensor has: its own, a variable, and the one of who counts."""

_decisions: dict[Any, Decision] = {}


class _Implicit:
    """True if plain tensors beside distributed tensors are taken as replicated."""

    depth = 0

    def __enter__(self) -> None:
        _Implicit.depth += 1

    def __exit__(self, *error: object) -> None:
        _Implicit.depth -= 1


def forget_decisions() -> None:
    """Have the next call of each operator ask its rule again."""
    _decisions.clear()


def implicit_replication() -> _Implicit:
    """Return a context in which plain tensors beside distributed tensors are taken as replicated.

    Source: torch.distributed.tensor.experimental.implicit_replication.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.tensor import ones
        >>> from triten.distributed.tensor.experimental import implicit_replication
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> with implicit_replication():
        ...     y = ones(2, 2, device_mesh=dist.init_device_mesh("cpu", (1,))) + tt.ones(2, 2)
        >>> y.to_local()
        tensor([[2., 2.],
                [2., 2.]])
        >>> dist.destroy_process_group()
    """
    return _Implicit()


def _key_of(value: Any, name: str, by_value: bool, plain: bool) -> Any:
    """Return an argument's part of the cache key. For floats it is the class, unless a rule asks for the
    value.
    """
    cls = value.__class__
    if cls is DTensor:
        return value._data.spec
    if cls is float and not by_value:
        return float
    if isinstance(value, TensorImpl):
        if isinstance(value, DTensor):
            return value._dtensor_spec
        if value._spec.numel != 1 and not plain:
            raise RuntimeError(
                f"{name}: got mixed tt.Tensor and DTensor, need to convert all tt.Tensor to DTensor before calling "
                "distributed operators! distribute_tensor and DTensor.from_local do, and implicit_replication() takes "
                "them for replicated ones"
            )
        return value._spec
    if cls is tuple or cls is list:
        return tuple([_key_of(each, name, by_value, plain) for each in value])
    return (cls, value)


def dispatch(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Compute an operator on distributed tensors, with arguments as a caller writes them."""
    return call(func._entry, func.bind(args, kwargs))


def call(op: OperatorEntry, values: Sequence[Any]) -> Any:
    """Compute an operator on distributed tensors.

    Args:
        op: the operator.
        values: all its arguments, in the schema's order.

    Raises:
        RuntimeError: there is a tensor beside distributed ones, or meshes differ.
    """
    rule = rule_of(op.name, op)
    by_value, plain = rule.by_value, rule.plain or _Implicit.depth > 0
    key = (op, *[_key_of(each, op.name, by_value, plain) for each in values])
    decision = _decisions.get(key)
    if decision is None:
        if len(_decisions) >= MAX_DECISIONS:
            _decisions.clear()
        decision = _decisions[key] = decide(op, rule, values)
    direct = decision.direct
    tensors = tensors_of(values) if direct is None else [values[index] for index in direct]
    mesh = tensors[decision.first]._data.spec.mesh
    if mesh is not decision.mesh and mesh._groups != decision.mesh._groups:
        # An equal mesh of groups that may be gone by now.
        decision = _decisions[key] = decide(op, rule, values)
    if decision.reduced:
        for index in decision.reduced:
            _reduce_in_place(tensors[index], op.name)
        return call(op, values)
    if decision.writes:
        check_writes(tensors, decision.writes, op.name)
    parts = _parts(decision, tensors)
    if decision.is_outside:
        return _outside(decision, tensors)
    result = _compute(decision, op, values, parts)
    for index in decision.copied_back:
        _copy_back(tensors[index], parts[index], decision.targets[index])
    for index in decision.writes:
        if isinstance(tensors[index], DTensor) and not tensors[index]._spec.is_inference:
            tensors[index].version_cell()[0] += 1
    if isinstance(result, tuple | list):
        made = _wrapped_list(decision, tensors, result)
    else:
        made = _wrapped(decision, tensors, result, 0)
    if decision.viewed is not None:
        tie_views(decision.viewed, decision.sources, tensors, made)
    return made


def _parts(decision: Decision, tensors: Sequence[Any]) -> list[Any]:
    """Return this rank's parts of tensors, with their required placements."""
    parts = []
    index = 0
    for tensor in tensors:
        if isinstance(tensor, DTensor):
            part: Part = tensor._data
            local = part.tensor
            if part.base is not None:
                check_view(tensor, part, decision.call.name)
        else:
            local = tensor
        source = decision.sources[index]
        if source is not None:
            local = redistribute_local_tensor(local, source, decision.targets[index])
        parts.append(local)
        index += 1  # noqa: SIM113 - on the way of every call
    return parts


def _compute(decision: Decision, op: OperatorEntry, values: Sequence[Any], parts: Sequence[Any]) -> Any:
    if decision.direct is None:
        own = with_tensors(values, parts)
    else:
        own = list(values)
        for position, part in zip(decision.direct, parts, strict=True):
            own[position] = part
    for position, value in decision.replaced.items():
        own[position] = value
    if decision.local is None:
        return op.call(*own)
    named = dict(zip([argument.name for argument in op.schema.arguments], own, strict=True))
    return decision.local(decision.func, named, decision.call, decision.targets)


def _copy_back(tensor: Any, part: Tensor, target: DTensorSpec) -> None:
    tensor._local_tensor.copy_(redistribute_local_tensor(part, target, tensor._dtensor_spec))


def _reduce_in_place(tensor: Any, name: str) -> None:
    """Have a tensor that is to be written to hold what its parts are reduced to.

    Raises:
        RuntimeError: another tensor shares its memory, and would not see what is written.
    """
    cell = tensor._version_cell
    # A tensor and all that share its memory have one counter of versions.
    if tensor._data.base is not None or (cell is not None and getrefcount(cell) > _OWN_REFERENCES):
        raise RuntimeError(
            f"{name}: in-place operations that require placement changes are not supported: {tensor._dtensor_spec} has "
            "views, or autograd keeps it"
        )
    spec: DTensorSpec = tensor._dtensor_spec
    whole = spec.placed([REPLICATE if isinstance(each, Partial) else each for each in spec.placements])
    tensor._data = Part(redistribute_local_tensor(tensor._local_tensor, spec, whole), whole)


def _wrapped_list(decision: Decision, tensors: Sequence[Any], results: Sequence[Any]) -> Any:
    """Wrap local results as distributed tensors, including those in lists."""
    made: list[Any] = []
    result_index = 0
    for each in results:
        if isinstance(each, tuple | list):
            made.append(
                [_wrapped(decision, tensors, part, result_index + offset) for offset, part in enumerate(each)]
            )
            result_index += len(each)
        else:
            made.append(_wrapped(decision, tensors, each, result_index))
            result_index += each is not None
    return (
        made if results.__class__ is list else tuple(made)
    )  # the field names of named tuples are not needed here


def _wrapped(decision: Decision, tensors: Sequence[Any], value: Any, result_index: int) -> Any:
    """Wrap a local result as a distributed tensor; return other values unchanged."""
    if not isinstance(value, TensorImpl):
        return value
    results = decision.results
    returned = decision.returned[result_index] if result_index < len(decision.returned) else None
    if returned is not None:
        return tensors[returned]
    if results is None:
        mesh = decision.call.tensors[0].mesh
        meta = TensorMeta(tuple(value.shape), tuple(value.stride()), value.dtype)
        return DTensor.of(value, DTensorSpec(mesh, (REPLICATE,) * mesh.ndim, meta, value.device))  # type: ignore[arg-type]
    spec = results[result_index]
    own = value._spec
    if own.sizes != spec.local_shape or own.device is not spec.device:
        if tuple(own.sizes) != spec.local_shape:
            raise RuntimeError(
                f"{decision.call.name}: expected a part of shape {spec.local_shape} of {spec}, but its rule for "
                f"{', '.join(map(str, decision.targets))} gave one of {tuple(own.sizes)}"
            )
        if own.device != spec.device:
            spec = results[result_index] = DTensorSpec(
                spec.mesh, spec.placements, spec.tensor_meta, own.device
            )
    return DTensor.of(value, spec)  # type: ignore[arg-type]


def _outside(decision: Decision, tensors: Sequence[Any]) -> Any:
    """Return the results of an operator on a rank outside the mesh: tensors with empty local parts.

    Raises:
        RuntimeError: nothing is known of its results.
    """
    specs = decision.results
    if specs is None:
        mesh = decision.call.tensors[0].mesh
        raise RuntimeError(
            f"{decision.call.name}: cannot be computed in a process outside of the mesh {mesh}"
        )
    empty = tensors[0]._local_tensor if isinstance(tensors[0], DTensor) else tensors[0]
    made = [
        tensors[returned]
        if returned is not None
        else DTensor.of(empty.new_empty((0,), dtype=spec.tensor_meta.dtype), spec)
        for spec, returned in zip(specs, decision.returned, strict=True)
    ]
    return made[0] if len(made) == 1 else tuple(made)
