"""Sharding decisions, cached for calls with the same metadata: the placements of arguments and results."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ...autograd import no_grad
from ...dispatch.core.op_overload import OpOverload
from ...dispatch.core.operator_entry import OperatorEntry
from ...runtime.device import device as Device
from ...runtime.tensor_impl import TensorImpl
from .dtensor import DTensor
from .placements import REPLICATE, Partial, Placement
from .rules.rule import Invocation, Rule
from .spec import DTensorSpec, TensorMeta
from .strategy import choose

__all__ = ["Decision", "decide", "tensors_of"]

_warned: set[str] = set()


class Decision:
    """Cached decision for all calls with the same metadata. Tensors are numbered, including those in lists.

    Attributes:
        call: Invocation that the rule was asked about.
        func: The operator.
        first: Index of the first distributed tensor.
        mesh: Mesh of that tensor.
        direct: Positions of the tensors among the arguments. None if there are lists of tensors.
        sources: For each tensor, its current spec if it must be redistributed, else None.
        targets: For each tensor, its required spec.
        replaced: Arguments, by position, that the local call takes instead of the original ones.
        results: For each result, its spec. None if it is known only after the call.
        returned: For each result, the index of the argument that it is, if any.
        viewed: For each result, the index of the tensor that it is a view of, if any. None if no result is a
            view.
        writes: Tensors that are written.
        copied_back: Written tensors that had to be redistributed, to which the result is copied back.
        reduced: Tensors that must be reduced before they can be written. Then nothing else is decided.
        local: Function that computes the local part instead of the operator.
    """

    def __init__(self, call: Invocation, func: OpOverload, values: Sequence[Any]) -> None:
        self.call = call
        self.func = func
        positions = [position for position, value in enumerate(values) if isinstance(value, TensorImpl)]
        self.direct: tuple[int, ...] | None = (
            tuple(positions) if len(positions) == len(call.tensors) else None
        )
        self.sources: list[DTensorSpec | None] = []
        self.targets: list[DTensorSpec] = []
        self.replaced: dict[int, Any] = {}
        self.results: list[DTensorSpec] | None = None
        self.returned: list[int | None] = []
        self.viewed: list[int | None] | None = None
        self.writes: list[int] = []
        self.copied_back: list[int] = []
        self.reduced: list[int] = []
        self.local: Any = None
        tensors = tensors_of(values)
        self.first = next(position for position, each in enumerate(tensors) if isinstance(each, DTensor))
        self.mesh = call.tensors[0].mesh
        self.is_outside = self.mesh.get_coordinate() is None


def tensors_of(values: Sequence[Any]) -> list[Any]:
    """Collect the tensors among arguments, including those in lists."""
    tensors = []
    for value in values:
        if isinstance(value, TensorImpl):
            tensors.append(value)
        elif value.__class__ is tuple or value.__class__ is list:
            tensors.extend([each for each in value if isinstance(each, TensorImpl)])
    return tensors


def with_tensors(values: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """Replace the tensors of arguments by others."""
    replacements = iter(tensors)
    made: list[Any] = []
    for value in values:
        if isinstance(value, TensorImpl):
            made.append(next(replacements))
        elif value.__class__ is tuple or value.__class__ is list:
            made.append(
                tuple([next(replacements) if isinstance(each, TensorImpl) else each for each in value])
            )
        else:
            made.append(value)
    return made


def _spec_of(tensor: Any, mesh: Any) -> DTensorSpec:
    """Return the spec of a tensor argument; a plain tensor is replicated."""
    if isinstance(tensor, DTensor):
        return tensor._dtensor_spec
    meta = TensorMeta(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
    return DTensorSpec(mesh, (REPLICATE,) * mesh.ndim, meta, tensor.device)


def decide(op: OperatorEntry, rule: Rule, values: Sequence[Any]) -> Decision:
    """Choose the placements of a call's arguments and results.

    Args:
        op: the operator.
        rule: its rule.
        values: all its arguments, in the schema's order.

    Raises:
        RuntimeError: its tensors are on several meshes.
    """
    tensors = tensors_of(values)
    mesh = next(each for each in tensors if isinstance(each, DTensor)).device_mesh
    specs = [_spec_of(each, mesh) for each in tensors]
    for spec in specs:
        if spec.mesh != mesh:
            raise RuntimeError(
                f"{op.name}: expected all DTensors on one mesh, but got {mesh} and {spec.mesh}"
            )
    names = [argument.name for argument in op.schema.arguments]
    results = _infer(op, values)
    call = Invocation(
        op.name, dict(zip(names, with_tensors(values, specs), strict=True)), specs, results or []
    )
    decision = Decision(call, OpOverload(op), values)
    fixed = _read_aliases(decision, op, rule, values)
    chosen = None
    if results is not None and (rule.strategies is not None or rule.groups is not None):
        chosen = choose(call, rule, fixed)
    if chosen is None:
        return _replicate(decision, rule)
    outputs, inputs = chosen
    decision.targets = [spec.placed(target) for spec, target in zip(specs, inputs, strict=True)]
    decision.sources = [
        spec if spec.placements != target.placements else None
        for spec, target in zip(specs, decision.targets, strict=True)
    ]
    decision.results = [
        DTensorSpec(mesh, placements, meta, specs[0].device)
        for placements, meta in zip(outputs, call.results, strict=True)
    ]
    if rule.sizes is not None:
        decision.replaced[names.index(rule.sizes)] = decision.results[0].local_shape
    decision.local = rule.local
    return decision


def _replicate(decision: Decision, rule: Rule) -> Decision:
    """Compute on whole tensors; written tensors are sharded again."""
    call = decision.call
    decision.reduced = [
        index
        for index in decision.writes
        if any(isinstance(each, Partial) for each in call.tensors[index].placements)
    ]
    if decision.reduced:
        return decision
    mesh = call.tensors[0].mesh
    whole: tuple[Placement, ...] = (REPLICATE,) * mesh.ndim
    decision.targets = [spec.placed(whole) for spec in call.tensors]
    decision.sources = [spec if not spec.is_replicated() else None for spec in call.tensors]
    decision.copied_back = [index for index in decision.writes if decision.sources[index] is not None]
    sends = mesh.size() > 1 and any(each is not None for each in decision.sources)
    if sends and not rule.replicates and call.name not in _warned:
        _warned.add(call.name)
        warnings.warn(
            f"{call.name} has no rule for distributed tensors that lie so ({', '.join(map(str, call.tensors))}): all "
            "its tensors are replicated",
            stacklevel=6,
        )
    return decision


def _read_aliases(
    decision: Decision, op: OperatorEntry, rule: Rule, values: Sequence[Any]
) -> dict[int, int | None]:
    """Find which results are arguments or views; return the written tensors, and the result that each of them
    is.
    """
    count = len(decision.call.results)
    indices_of_alias: dict[str, list[int]] = {}
    written: dict[int, int | None] = {}
    next_index = 0
    for argument, value in zip(op.schema.arguments, values, strict=True):
        own = list(range(next_index, next_index + len(tensors_of([value]))))
        next_index += len(own)
        alias = argument.alias_info
        if alias is None:
            continue
        indices_of_alias.update(dict.fromkeys(alias.before_set, own))
        if alias.is_write and (argument.name != rule.unscaled or decision.call.get("grad_scale") is not None):
            written.update(dict.fromkeys(own))
    decision.returned = [None] * count
    viewed: list[int | None] = [None] * count
    for result_index, result in enumerate(op.schema.returns):
        alias = result.alias_info
        tensor_index = (
            next((indices_of_alias[name][0] for name in alias.before_set if indices_of_alias.get(name)), None)
            if alias
            else None
        )
        if tensor_index is None or alias is None or result_index >= count:
            continue
        if alias.is_write:
            decision.returned[result_index], written[tensor_index] = tensor_index, result_index
        elif len(op.schema.returns) == 1:
            viewed = [tensor_index] * count  # all views of a list share the base
        else:
            viewed[result_index] = tensor_index
    decision.viewed = viewed if any(each is not None for each in viewed) else None
    decision.writes = list(written)
    return written


def _infer(op: OperatorEntry, values: Sequence[Any]) -> list[TensorMeta] | None:
    """Infer shape, strides and dtype of the results; return None if only the kernel knows them."""
    from ...dispatch.generated.functions import empty_strided

    def meta(value: Any) -> Any:
        if isinstance(value, TensorImpl):
            return empty_strided(value._spec.sizes, value._spec.strides, dtype=value.dtype, device="meta")
        if value.__class__ is tuple or value.__class__ is list:
            return tuple([meta(each) for each in value])
        return Device("meta") if isinstance(value, Device) else value

    try:
        with no_grad():
            result = op.call(*[meta(each) for each in values])
    except NotImplementedError:
        return None
    except RuntimeError as error:
        if "meta" in str(error).lower():
            return None
        raise
    several = result if isinstance(result, tuple | list) else (result,)
    flat = [each for value in several for each in (value if isinstance(value, tuple | list) else (value,))]
    flat = [each for each in flat if each is not None]
    if not all(isinstance(each, TensorImpl) for each in flat):
        return None
    return [TensorMeta(tuple(each.shape), tuple(each.stride()), each.dtype) for each in flat]
