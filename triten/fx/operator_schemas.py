"""Arguments of calls in one form: bound to parameters, with defaults (torch/fx/operator_schemas.py)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import nn
from ..dispatch.core.op_overload import OpOverload, OpOverloadGroup, Ops
from ..dispatch.schema import FunctionSchema
from .qualified_names import ROOT, qualified_name

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
]

_ops = Ops()
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ArgsKwargsPair(NamedTuple):
    """The arguments of a call: positional ones, and those by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def normalize_function(
    target: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    arg_types: Sequence[Any] | None = None,
    kwarg_types: Mapping[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return a function call's arguments with defaults (`torch.fx.operator_schemas.normalize_function`).

    Args:
        target: the function, or an operator of ``tt.ops``, whose schema names the arguments.
        args, kwargs: The arguments of the call.
        arg_types, kwarg_types: PyTorch's, for functions with several overloads. Here overloads that name the
            arguments alike need none.
        normalize_to_only_use_kwargs: If True, return positional arguments by name too. Default: False.

    Returns:
        None for arguments that do not fit, and for functions that have ``*args``, ``**kwargs`` or parameters without
        names.

    Raises:
        RuntimeError: for overloads that fit the arguments, and name them differently.

    Example:
        >>> import triten as tt
        >>> from triten.fx.operator_schemas import normalize_function
        >>> normalize_function(tt.add, (1,), {"other": 2})
        ArgsKwargsPair(args=(1,), kwargs={'other': 2, 'alpha': 1})
        >>> normalize_function(tt.nn.functional.relu, (1,), normalize_to_only_use_kwargs=True)
        ArgsKwargsPair(args=(), kwargs={'input': 1, 'inplace': False})
    """
    named = dict(kwargs or {})
    overloads = _overloads_of(target)
    if not overloads:
        return _bound(inspect.signature(target), args, named, normalize_to_only_use_kwargs)
    receiver = "self" if isinstance(target, OpOverload | OpOverloadGroup) else "input"
    bound = [_bound_to_schema(each, args, named, receiver) for each in overloads]
    fitting = [each for each in bound if each is not None]
    if len({tuple(each) for each in fitting}) > 1:
        raise RuntimeError(
            f"Tried to normalize arguments to {qualified_name(target)} but the schema match was ambiguous! Give the "
            f"arguments by name. Available schemas: {[str(each._schema) for each in overloads]}"
        )
    return _divided(fitting[0], 0 if normalize_to_only_use_kwargs else len(args)) if fitting else None


def normalize_module(
    root: nn.Module,
    target: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return a submodule call's arguments with defaults (`torch.fx.operator_schemas.normalize_module`).

    Returns:
        None if the module is not one of `nn`, or the arguments do not fit.

    Raises:
        RuntimeError: `root` has no module of this name.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    if getattr(nn, type(module).__name__, None) is not type(module):
        return None
    return _bound(inspect.signature(module.forward), args, dict(kwargs or {}), normalize_to_only_use_kwargs)


def check_for_mutable_operation(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise an error for a call that only fits an overload that changes its arguments.

    Args:
        target: A public function, or an operator of ``tt.ops``; others are not checked.
        args: The arguments by position.
        kwargs: The arguments by name.

    Raises:
        RuntimeError: The overload changes an argument, such as one with ``out=``.
    """
    receiver = "self" if isinstance(target, OpOverload | OpOverloadGroup) else "input"
    fitting = [
        each
        for each in _all_overloads_of(target)
        if _bound_to_schema(each, args, dict(kwargs), receiver) is not None
    ]
    if len(fitting) == 1 and fitting[0]._schema.is_mutable:
        raise RuntimeError(
            f"Tried to trace mutable operation {fitting[0]._schema}. FX only supports functional code, so operations "
            "that mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


def get_signature_for_torch_op(
    op: Callable[..., Any], return_schemas: bool = False
) -> list[inspect.Signature] | tuple[list[inspect.Signature], list[FunctionSchema]] | None:
    """Return the signatures of an operator's overloads (`torch.fx.operator_schemas.get_signature_for_torch_op`).

    Annotations are the names of the schema's types.

    Args:
        op: A public function, or an operator of ``tt.ops``.
        return_schemas: If True, also return the schemas. Default: False.

    Returns:
        The signatures, those with ``out=`` last; None, or a pair of None, for a function that is no operator.

    Example:
        >>> import triten as tt
        >>> from triten.fx.operator_schemas import get_signature_for_torch_op
        >>> get_signature_for_torch_op(tt.add)[0]
        <Signature (input: 'Tensor', other: 'Tensor', *, alpha: 'Scalar' = 1) -> 'Tensor'>
    """
    receiver = "self" if isinstance(op, OpOverload | OpOverloadGroup) else "input"
    overloads = [each._schema for each in _all_overloads_of(op)]
    overloads.sort(key=lambda schema: any(argument.is_out for argument in schema.arguments))
    if not overloads:
        return (None, None) if return_schemas else None  # type: ignore[return-value]
    signatures = [_signature_of(each, receiver) for each in overloads]
    return (signatures, overloads) if return_schemas else signatures


def _signature_of(schema: FunctionSchema, receiver: str) -> inspect.Signature:
    parameters = [
        inspect.Parameter(
            receiver if argument.name == "self" else argument.name,
            inspect.Parameter.KEYWORD_ONLY
            if argument.kwarg_only
            else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=argument.default if argument.has_default else inspect.Parameter.empty,
            annotation=str(argument.type),
        )
        for argument in schema.arguments
    ]
    returns = [str(each.type) for each in schema.returns]
    return inspect.Signature(
        parameters,
        return_annotation=returns[0] if len(returns) == 1 else tuple(returns),
        __validate_parameters__=False,
    )


def _bound(
    signature: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any], by_name: bool
) -> ArgsKwargsPair | None:
    if any(each.kind not in _NAMED for each in signature.parameters.values()):
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return _divided(bound.arguments, 0 if by_name else len(args))


def _all_overloads_of(target: Any) -> list[OpOverload]:
    """Return the operators that a function may call."""
    if isinstance(target, OpOverload):
        return [target]
    group: Any = target
    if not isinstance(target, OpOverloadGroup):
        if not (target.__module__ or "").startswith(f"{ROOT}.dispatch.generated.functions."):
            return []
        group = getattr(_ops.aten, target.__name__, None)
    return [] if group is None else [getattr(group, name) for name in group.overloads()]


def _overloads_of(target: Any) -> list[OpOverload]:
    """Return the operators that a function may call, without overloads for ``out=`` or dimension names."""
    if isinstance(target, OpOverload):
        return [target]
    return [
        each
        for each in _all_overloads_of(target)
        if not any(argument.is_out or "Dimname" in str(argument.type) for argument in each._schema.arguments)
    ]


def _bound_to_schema(
    overload: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], receiver: str
) -> dict[str, Any] | None:
    """Bind an operator's arguments by name, with defaults; return None if they do not fit."""
    arguments = {
        receiver if argument.name == "self" else argument.name: argument
        for argument in overload._schema.arguments
    }
    positional = [name for name, argument in arguments.items() if not argument.kwarg_only]
    bound = dict(zip(positional, args, strict=False))
    if len(args) > len(positional) or bound.keys() & kwargs.keys() or not kwargs.keys() <= arguments.keys():
        return None
    bound.update(kwargs)
    if any(name not in bound and not argument.has_default for name, argument in arguments.items()):
        return None
    return {name: bound.get(name, argument.default) for name, argument in arguments.items()}


def _divided(bound: Mapping[str, Any], positional: int) -> ArgsKwargsPair:
    """Split the arguments: the first `positional` values by position, the others by name."""
    items = list(bound.items())
    return ArgsKwargsPair(tuple(value for _, value in items[:positional]), dict(items[positional:]))
