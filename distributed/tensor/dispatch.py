"""What an operator does with distributed tensors: a decision, made once for arguments that look alike, and its call."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

from ...autograd import no_grad
from ...dispatch.core.op_overload import OpOverload
from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device
from ...runtime.tensor_impl import TensorImpl
from .dtensor import DTensor, Part
from .placements import REPLICATE, Partial, Placement
from .redistribute import redistribute_local_tensor
from .rules.rule import Invocation, Rule
from .rules.table import rule_of
from .spec import DTensorSpec, TensorMeta
from .strategy import choose
from .views import check_view, check_writes, tie_views

__all__ = ["dispatch", "implicit_replication"]

MAX_DECISIONS = 1 << 14
_OWN_REFERENCES = 3
"""References to a counter of versions that one tensor has: its own, a variable, and the one of who counts."""
_decisions: dict[Any, Decision] = {}
_warned: set[str] = set()


class _Implicit:
    """Whether tensors beside distributed ones are taken for replicated ones."""

    depth = 0

    def __enter__(self) -> None:
        _Implicit.depth += 1

    def __exit__(self, *error: object) -> None:
        _Implicit.depth -= 1


def implicit_replication() -> _Implicit:
    """A context in which tensors beside distributed ones are taken for whole ones that each process has.

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


class Decision:
    """What is done for one call and all that look like it.

    Attributes:
        sources: for each tensor among the arguments, how it lies, if it must be redistributed; else None.
        targets: how it must lie.
        replaced: arguments that a part needs in the place of the call's.
        results: how each result lies; None where that is known only afterwards.
        viewed: for each result, which of the arguments' tensors it is a view of, if it is one.
        writes: the tensors that are written.
        returned: for each result, which of the arguments' tensors it is, if it is one.
        written: the tensors to be written back after, since the operator wrote to redistributed ones.
        reduced: the tensors that are written and must be reduced before.
        local: what computes a part in the place of the operator.
        call: what the rule was asked about.
    """

    def __init__(self, call: Invocation) -> None:
        self.call = call
        self.sources: list[DTensorSpec | None] = []
        self.targets: list[DTensorSpec] = []
        self.replaced: dict[str, Any] = {}
        self.results: list[DTensorSpec] | None = None
        self.returned: list[int | None] = []
        self.viewed: list[int | None] | None = None
        self.writes: list[int] = []
        self.written: list[int] = []
        self.reduced: list[int] = []
        self.local: Any = None


def _key(value: Any, by_value: bool) -> Any:
    if isinstance(value, DTensor):
        return value._dtensor_spec
    if isinstance(value, TensorImpl):
        return value._spec
    if value.__class__ is tuple or value.__class__ is list:
        return tuple([_key(each, by_value) for each in value])
    if value.__class__ is float and not by_value:
        return float
    return (value.__class__, value)


def dispatch(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Compute an operator on distributed tensors.

    Raises:
        RuntimeError: there is a tensor beside distributed ones, or meshes differ.
    """
    name = func._entry.name
    rule = rule_of(name, func)
    by_value = rule.by_value
    key: Any = (name, *[_key(each, by_value) for each in args])
    if kwargs:
        key = (key, *[(each, _key(value, by_value)) for each, value in kwargs.items()])
    decision = _decisions.get(key)
    if decision is None:
        if len(_decisions) >= MAX_DECISIONS:
            _decisions.clear()
        decision = _decisions[key] = _decide(func, rule, args, kwargs)
    return _carry_out(decision, func, args, kwargs)


def _flat(values: Sequence[Any]) -> list[Any]:
    """The tensors among arguments, those in lists too."""
    found = []
    for value in values:
        if isinstance(value, TensorImpl):
            found.append(value)
        elif value.__class__ is tuple or value.__class__ is list:
            found.extend([each for each in value if isinstance(each, TensorImpl)])
    return found


def _with_tensors(values: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """Arguments with others in the place of their tensors."""
    given = iter(tensors)
    made: list[Any] = []
    for value in values:
        if isinstance(value, TensorImpl):
            made.append(next(given))
        elif value.__class__ is tuple or value.__class__ is list:
            made.append([next(given) if isinstance(each, TensorImpl) else each for each in value])
        else:
            made.append(value)
    return made


def _spec_of(tensor: Any, mesh: Any, name: str) -> DTensorSpec:
    """The spec of an argument's tensor; a plain one that is but a number, or is said to be replicated, is whole."""
    if isinstance(tensor, DTensor):
        return tensor._dtensor_spec
    if tensor.numel() == 1 or _Implicit.depth:
        meta = TensorMeta(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
        return DTensorSpec(mesh, (REPLICATE,) * mesh.ndim, meta, tensor.device)
    raise RuntimeError(
        f"{name}: got mixed tt.Tensor and DTensor, need to convert all tt.Tensor to DTensor before calling "
        "distributed operators! Please see docs/distributed_tensors.md, or use implicit_replication()."
    )


def _decide(func: OpOverload, rule: Rule, args: Sequence[Any], kwargs: dict[str, Any]) -> Decision:
    schema = func._entry.schema
    name = func._entry.name
    given = _flat([*args, *kwargs.values()])
    mesh = next(each for each in given if isinstance(each, DTensor)).device_mesh
    specs = [_spec_of(each, mesh, name) for each in given]
    for spec in specs:
        if spec.mesh != mesh:
            raise RuntimeError(f"{name}: expected all DTensors on one mesh, but got {mesh} and {spec.mesh}")
    values = _by_name(
        schema,
        _with_tensors(args, specs),
        dict(zip(kwargs, _with_tensors(list(kwargs.values()), specs[len(_flat(args)) :]), strict=True)),
    )
    results = _infer(func, args, kwargs)
    call = Invocation(name, values, specs, results or [])
    decision = Decision(call)
    decision.returned, fixed = _writes(schema, rule, args, kwargs, len(results or []))
    decision.writes = list(fixed)
    decision.viewed = _views(schema, args, kwargs, len(results or []))
    chosen = (
        None
        if results is None or (rule.strategies is None and rule.groups is None)
        else choose(call, rule, fixed)
    )
    if chosen is None:
        return _replicate(decision, rule, fixed)
    outputs, inputs = chosen
    decision.targets = [spec.placed(wanted) for spec, wanted in zip(specs, inputs, strict=True)]
    decision.sources = [
        spec if spec.placements != target.placements else None
        for spec, target in zip(specs, decision.targets, strict=True)
    ]
    decision.results = [
        DTensorSpec(mesh, placements, meta, specs[0].device)
        for placements, meta in zip(outputs, call.results, strict=True)
    ]
    if rule.sizes is not None:
        decision.replaced[rule.sizes] = decision.results[0].local_shape
    decision.local = rule.local
    return decision


def _replicate(decision: Decision, rule: Rule, fixed: dict[int, int | None]) -> Decision:
    """Compute on whole tensors; what is written is taken apart again."""
    call = decision.call
    decision.reduced = [
        place for place in fixed if any(isinstance(each, Partial) for each in call.tensors[place].placements)
    ]
    if decision.reduced:
        return decision
    whole: tuple[Placement, ...] = (REPLICATE,) * call.tensors[0].mesh.ndim
    decision.targets = [spec.placed(whole) for spec in call.tensors]
    decision.sources = [spec if not spec.is_replicated() else None for spec in call.tensors]
    if (
        not rule.replicates
        and call.name not in _warned
        and any(each is not None for each in decision.sources)
        and call.tensors[0].mesh.size() > 1
    ):
        _warned.add(call.name)
        warnings.warn(
            f"{call.name} has no rule for distributed tensors that lie so ({', '.join(map(str, call.tensors))}): all "
            "its tensors are replicated",
            stacklevel=5,
        )
    decision.written = [place for place in fixed if decision.sources[place] is not None]
    return decision


def _by_name(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    from ...dispatch.schema.type_check import default_value

    values = {
        argument.name: default_value(argument) if argument.has_default else None
        for argument in schema.arguments
    }
    values.update(zip([argument.name for argument in schema.arguments], args, strict=False))
    values.update(kwargs)
    return values


def _writes(
    schema: Any, rule: Rule, args: Sequence[Any], kwargs: dict[str, Any], results: int
) -> tuple[list[int | None], dict[int, int | None]]:
    """For each result which tensor of the arguments it is, and for each that is written which result it is."""
    by_alias: dict[str, list[int]] = {}
    written: dict[int, int | None] = {}
    at = 0
    positional = dict(zip([argument.name for argument in schema.arguments], args, strict=False))
    for argument in schema.arguments:
        if argument.name not in positional and argument.name not in kwargs:
            continue
        count = len(_flat([positional.get(argument.name, kwargs.get(argument.name))]))
        alias = argument.alias_info
        if (
            alias is not None
            and alias.is_write
            and (argument.name != rule.unscaled or kwargs.get("grad_scale") is not None)
        ):
            places = list(range(at, at + count))
            written.update(dict.fromkeys(places))
            for each in alias.before_set:
                by_alias[each] = places
        at += count
    returned: list[int | None] = [None] * results
    for place, result in enumerate(schema.returns):
        alias = result.alias_info
        if alias is not None and alias.is_write and place < results:
            for each in alias.before_set:
                for found in by_alias.get(each, ())[:1]:
                    returned[place], written[found] = found, place
    return returned, written


def _views(schema: Any, args: Sequence[Any], kwargs: dict[str, Any], results: int) -> list[int | None] | None:
    """For each result which tensor of the arguments it is a view of; None if no result is one."""
    bases: dict[str, int] = {}
    at = 0
    values = {**dict(zip([argument.name for argument in schema.arguments], args, strict=False)), **kwargs}
    for argument in schema.arguments:
        alias = argument.alias_info
        if alias is not None and not alias.is_write:
            bases.update(dict.fromkeys(alias.before_set, at))
        at += len(_flat([values.get(argument.name)]))
    found: list[int | None] = []
    for result in schema.returns:
        alias = result.alias_info
        names = () if alias is None or alias.is_write else alias.before_set
        found.append(next((bases[name] for name in names if name in bases), None))
    if len(found) == 1:
        found *= results  # a list of views
    return found if any(each is not None for each in found) else None


def _infer(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[TensorMeta] | None:
    """Shape, strides and dtype of the tensors that an operator returns; None where only its kernel knows them."""
    from ... import empty_strided

    def meta(value: Any) -> Any:
        if isinstance(value, TensorImpl):
            return empty_strided(value._spec.sizes, value._spec.strides, dtype=value.dtype, device="meta")
        if value.__class__ is tuple or value.__class__ is list:
            return [meta(each) for each in value]
        if isinstance(value, Device):
            return Device("meta")
        return value

    try:
        with no_grad():
            found = func(
                *[meta(each) for each in args], **{name: meta(value) for name, value in kwargs.items()}
            )
    except (NotImplementedError, RuntimeError) as error:
        if isinstance(error, NotImplementedError) or "Meta" in str(error) or "meta" in str(error):
            return None
        raise
    several = found if isinstance(found, tuple | list) else (found,)
    flat = [each for value in several for each in (value if isinstance(value, tuple | list) else (value,))]
    flat = [each for each in flat if each is not None]
    if not all(isinstance(each, TensorImpl) for each in flat):
        return None
    return [TensorMeta(tuple(each.shape), tuple(each.stride()), each.dtype) for each in flat]


def _carry_out(decision: Decision, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    given = _flat([*args, *kwargs.values()]) if kwargs else _flat(args)
    if decision.reduced:
        for place in decision.reduced:
            _reduce_in_place(given[place], func._entry.name)
        return dispatch(func, args, kwargs)
    locals_ = []
    if decision.writes:
        check_writes(given, decision.writes, func._entry.name)
    for tensor, source, target in zip(given, decision.sources, decision.targets, strict=True):
        if isinstance(tensor, DTensor):
            part: Part = tensor._data
            local = part.tensor
            if part.base is not None:
                check_view(tensor, part, func._entry.name)
        else:
            local = tensor
        if source is not None:
            local = redistribute_local_tensor(local, source, target)
        locals_.append(local)
    mesh = decision.call.tensors[0].mesh
    if mesh.get_coordinate() is None:
        return _outside(decision, given)
    if decision.local is not None or decision.replaced:
        values = _by_name(func._entry.schema, _with_tensors(args, locals_), {})
        if kwargs:
            begin = len(_flat(args))
            values.update(zip(kwargs, _with_tensors(list(kwargs.values()), locals_[begin:]), strict=True))
        values.update(decision.replaced)
        if decision.local is not None:
            found = decision.local(func, values, decision.call, decision.targets)
        else:
            found = _call_by_name(func, values)
    elif kwargs:
        begin = len(_flat(args))
        named = dict(zip(kwargs, _with_tensors(list(kwargs.values()), locals_[begin:]), strict=True))
        found = func(*_with_tensors(args, locals_), **named)
    else:
        found = func(*_with_tensors(args, locals_))
    for place in decision.written:
        tensor, target, source = given[place], decision.targets[place], decision.sources[place]
        assert source is not None
        tensor._local_tensor.copy_(redistribute_local_tensor(locals_[place], target, source))
    for place in decision.writes:
        if isinstance(given[place], DTensor) and not given[place]._spec.is_inference:
            given[place].version_cell()[0] += 1
    made = _wrapped(decision, given, found)
    if decision.viewed is not None:
        tie_views(decision.viewed, decision.sources, given, made)
    return made


def _reduce_in_place(tensor: Any, name: str) -> None:
    """Have a tensor that is to be written to hold what its parts are reduced to.

    Raises:
        RuntimeError: another tensor shares its memory, and would not see what is written.
    """
    cell = tensor._version_cell
    # A tensor and all that share its memory have one counter of versions.
    if tensor._view_base is not None or (cell is not None and getrefcount(cell) > _OWN_REFERENCES):
        raise RuntimeError(
            f"{name}: in-place operations that require placement changes are not supported: {tensor._dtensor_spec} has "
            "views, or autograd keeps it"
        )
    spec: DTensorSpec = tensor._dtensor_spec
    whole = spec.placed([REPLICATE if isinstance(each, Partial) else each for each in spec.placements])
    local = redistribute_local_tensor(tensor._local_tensor, spec, whole)
    tensor._data = Part(local, whole)


def _call_by_name(func: OpOverload, values: dict[str, Any]) -> Any:
    arguments = func._entry.schema.arguments
    positional = [values[each.name] for each in arguments if not each.kwarg_only]
    named = {each.name: values[each.name] for each in arguments if each.kwarg_only}
    return func(*positional, **named)


def _wrapped(decision: Decision, given: Sequence[Any], found: Any) -> Any:
    """What an operator gave for parts as distributed tensors."""
    results = decision.results
    if isinstance(found, tuple | list):  # named tuples, too
        made: list[Any] = []
        at = 0
        for each in found:
            if isinstance(each, tuple | list):
                made.append([_one(decision, given, part, at + place) for place, part in enumerate(each)])
                at += len(each)
            else:
                made.append(_one(decision, given, each, at))
                at += each is not None
        return type(found)(made) if type(found) in (tuple, list) else tuple(made)
    if results is not None and decision.returned[0:1] != [0] and isinstance(found, TensorImpl):
        returned = decision.returned[0]
        return given[returned] if returned is not None else _placed(found, results[0], decision)
    return _one(decision, given, found, 0)


def _one(decision: Decision, given: Sequence[Any], value: Any, place: int) -> Any:
    if not isinstance(value, TensorImpl):
        return value
    returned = decision.returned[place] if place < len(decision.returned) else None
    if returned is not None:
        return given[returned]
    if decision.results is not None:
        return _placed(value, decision.results[place], decision)
    mesh = decision.call.tensors[0].mesh
    meta = TensorMeta(tuple(value.shape), tuple(value.stride()), value.dtype)
    return DTensor.of(value, DTensorSpec(mesh, (REPLICATE,) * mesh.ndim, meta, value.device))


def _placed(local: Any, spec: DTensorSpec, decision: Decision) -> Any:
    if local._spec.sizes != spec.local_shape or local._spec.device != spec.device:
        if tuple(local.shape) != spec.local_shape:
            raise RuntimeError(
                f"{decision.call.name}: expected a part of shape {spec.local_shape} of {spec}, but its rule for "
                f"{', '.join(map(str, decision.targets))} gave one of {tuple(local.shape)}"
            )
        spec = DTensorSpec(spec.mesh, spec.placements, spec.tensor_meta, local.device)
    return DTensor.of(local, spec)


def _outside(decision: Decision, given: Sequence[Any]) -> Any:
    """What an operator gives in a process that is not in the mesh: tensors of which it has nothing."""
    call = decision.call
    specs = decision.results
    if specs is None:
        raise RuntimeError(
            f"{call.name}: cannot be computed in a process outside of the mesh {call.tensors[0].mesh}"
        )
    made = [
        given[returned]
        if returned is not None
        else DTensor.of(Tensor.new_empty(given[0]._local_tensor, (0,), dtype=spec.tensor_meta.dtype), spec)
        for spec, returned in zip(specs, decision.returned, strict=True)
    ]
    return made[0] if len(made) == 1 else tuple(made)
