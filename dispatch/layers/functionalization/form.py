"""Functional form of a mutating operator: ``add.Tensor`` for ``add_.Tensor`` and ``add.out``.

It is found by name and argument types, so a user's operator needs only a matching name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...core.dispatcher import Dispatcher
from ...core.operator_entry import OperatorEntry
from ...schema import FunctionSchema
from .derived_form import derived_form

_SPECIAL = {
    "aten::normal_": "aten::normal_functional",
    "aten::_native_batch_norm_legit": "aten::_native_batch_norm_legit_functional",
    "aten::_fused_moving_avg_obs_fq_helper": "aten::_fused_moving_avg_obs_fq_helper_functional",
    **{
        f"_c10d_functional::{name}_out": f"_c10d_functional::{name}"
        for name in ("all_gather_into_tensor", "reduce_scatter_tensor")
    },
}
"""Functional forms whose names differ from the mutating form's."""

_COLLECTIVES = frozenset(
    f"_c10d_functional::{name}"
    for name in (
        "all_reduce",
        "all_reduce_coalesced",
        "all_gather_into_tensor",
        "reduce_scatter_tensor",
        "broadcast",
    )
)
"""Functional forms that return before their results are written."""

_names: dict[str, str | None] = {}
Dispatcher.singleton().on_change.append(_names.clear)


def _functional_name(name: str) -> str | None:
    """Return the operator that returns what another one writes; None if there is none."""
    if name not in _names:
        _names[name] = _find_functional(name) or derived_form(
            Dispatcher.singleton().find_schema_or_throw(name)
        )
    return _names[name]


def _find_functional(name: str) -> str | None:
    dispatcher = Dispatcher.singleton()
    special = _SPECIAL.get(name)
    if special is not None:
        return special
    schema = dispatcher.find_schema_or_throw(name).schema
    base = name.partition(".")[0]
    inputs = [a for a in schema.arguments if not a.is_out]
    if schema.out_arguments:
        count = len(schema.out_arguments)
    elif base.endswith("_"):
        base, count = base[:-1], 1
    else:
        return None
    if not schema.returns:
        count = sum(argument.is_write for argument in schema.arguments)
    kinds = [_kind(a) for a in inputs]
    for candidate in dispatcher.packets.get(base, ()):
        entry = dispatcher.find_schema(candidate)
        if entry is None or entry.schema.is_mutable or len(entry.schema.returns) != count:
            continue
        arguments = entry.schema.arguments
        if [_kind(a) for a in arguments[: len(kinds)]] == kinds and all(
            a.name in ("dtype", "layout", "device", "pin_memory", "memory_format") and a.has_default
            for a in arguments[len(kinds) :]
        ):
            return candidate
    return None


def _kind(argument: Any) -> tuple[str, bool]:
    """Return the type of an argument, regardless of its name and list length."""
    return re.sub(r"\[\d+\]", "[]", str(argument.type)).replace("Sym", ""), argument.kwarg_only


def functional_form(op: OperatorEntry) -> OperatorEntry:
    """Return the operator that returns as a result what `op` writes. Raises RuntimeError if there is none."""
    name = _functional_name(op.name)
    if name is None:
        raise RuntimeError(
            f"functionalize: {op.name} writes to its arguments and has no functional form ({op.schema})"
        )
    return Dispatcher.singleton().find_schema_or_throw(name)


def functional_arguments(functional: OperatorEntry, op: OperatorEntry, values: Sequence[Any]) -> list[Any]:
    """Return the arguments of the functional form: those of the writing form without ``out=``, whose dtype is kept."""
    new_args = [v for v, a in zip(values, op.schema.arguments, strict=True) if not a.is_out]
    outs = [v for v, a in zip(values, op.schema.arguments, strict=True) if a.is_out and v is not None]
    arguments = functional.schema.arguments
    for position, argument in enumerate(arguments):
        if position >= len(new_args):
            like = outs[0]._spec if outs and argument.name in ("dtype", "device") else None
            new_args.append(None if like is None else getattr(like, argument.name))
        elif argument.name == "dtype" and new_args[position] is None and outs:
            new_args[position] = outs[0]._spec.dtype
    return new_args


def returned(schema: FunctionSchema, values: Sequence[Any], outs: Sequence[Any]) -> Any:
    """Return the results of a mutating operator: the arguments that it wrote."""
    results = []
    if not schema.returns:
        return None
    for each in schema.returns:
        info = each.alias_info
        assert info is not None, f"{schema} returns what it does not write"
        results.append(
            next(
                v
                for v, a in zip(values, schema.arguments, strict=True)
                if a.alias_info is not None and set(a.alias_info.before_set) & set(info.before_set)
            )
        )
    return results[0] if len(results) == 1 else tuple(results)


def settled(functional: OperatorEntry, results: Any) -> Any:
    """Wait for the results of a functional collective: other tensors are computed from them before the program
    waits.
    """
    if functional.name not in _COLLECTIVES:
        return results
    wait = Dispatcher.singleton().find_schema_or_throw("_c10d_functional::wait_tensor")
    return [wait.call(each) for each in results] if isinstance(results, list | tuple) else wait.call(results)
