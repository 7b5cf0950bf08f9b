"""User-written Python functions as kernels: arguments as hinted, results checked against the schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.storage import root_of
from ...runtime.tensor_impl import TensorImpl
from ..core.bound_arguments import tensors_in
from ..schema import Argument, FunctionSchema, ListType, OptionalType, Return, Type
from ..schema.type_check import MISMATCH, compile_check


def is_list(type: Type) -> bool:
    """Return whether arguments of this schema type are lists, or None for an optional one."""
    return isinstance(type.elem if isinstance(type, OptionalType) else type, ListType)


def call_function(schema: FunctionSchema, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call with arguments in schema order: lists as lists, keyword-only arguments by name."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for argument, value in zip(schema.arguments, args, strict=True):
        if value is not None and is_list(argument.type):
            value = list(value)
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    return function(*positional, **named)


def shares_memory(left: TensorImpl, right: TensorImpl) -> bool:
    """Return whether two tensors share a storage, c10's test for aliases."""
    return root_of(left._data) is root_of(right._data)


def check_results(
    schema: FunctionSchema, function: Callable[..., Any], args: Sequence[Any], result: Any
) -> Any:
    """Return a function's results, converted to the schema's types.

    Raises RuntimeError for results of wrong number or type, for undeclared aliases of an argument or another result,
    and for a declared written argument that is not returned.
    """
    where = f"{schema.name} (with implementation in {_module_of(function)})"
    returns = schema.returns
    if not returns:
        if result is not None:
            raise RuntimeError(
                f"{where}: expected None to be returned by '{schema}', got {type(result).__name__}"
            )
        return None
    if len(returns) == 1:
        values = [result]
    elif isinstance(result, tuple | list) and len(result) == len(returns):
        values = list(result)
    else:
        got = f"{len(result)} values" if isinstance(result, tuple | list) else type(result).__name__
        raise RuntimeError(f"{where}: expected {len(returns)} values to be returned by '{schema}', got {got}")
    values = [_converted(where, schema, r, v) for r, v in zip(returns, values, strict=True)]
    _check_aliases(where, schema, args, values)
    return values[0] if len(returns) == 1 else tuple(values)


def _module_of(function: Callable[..., Any]) -> str:
    module = inspect.getmodule(function)
    return "an unknown module" if module is None else repr(module)


def _converted(where: str, schema: FunctionSchema, declared: Return, value: Any) -> Any:
    exact, convert = compile_check(declared.type)
    if value.__class__ not in exact:
        converted = convert(value, False)
        if converted is MISMATCH:
            raise RuntimeError(
                f"{where}: expected {declared.type} to be returned by '{schema}', got {type(value).__name__}"
            )
        value = converted
    return list(value) if value is not None and is_list(declared.type) else value


def declared_aliases(
    schema: FunctionSchema, declared: Return, args: Sequence[Any]
) -> list[tuple[Argument, Any]]:
    """Return the arguments whose memory a result may share by the schema; all of them for the wildcard ``(*)``."""
    allowed = set(declared.alias_info.before_set) if declared.alias_info else set()
    return [
        (argument, value)
        for argument, value in zip(schema.arguments, args, strict=True)
        if "*" in allowed or (argument.alias_info and allowed.intersection(argument.alias_info.before_set))
    ]


def undeclared_alias(schema: FunctionSchema, declared: Return, args: Sequence[Any], value: Any) -> str | None:
    """Return the name of an argument whose memory a result shares against the schema, or None.

    An argument that itself shares memory with a declared one is allowed: ``add_(x, x)`` returns both.
    """
    aliases = [argument_value for _, argument_value in declared_aliases(schema, declared, args)]
    for argument, argument_value in zip(schema.arguments, args, strict=True):
        if any_shared([value], [argument_value]) and not any_shared([argument_value], aliases):
            return argument.name
    return None


def _check_aliases(where: str, schema: FunctionSchema, args: Sequence[Any], values: Sequence[Any]) -> None:
    earlier: list[TensorImpl] = []
    for declared, value in zip(schema.returns, values, strict=True):
        for argument, argument_value in declared_aliases(schema, declared, args):
            if argument.is_write and value is not argument_value:
                form = "An out" if argument.is_out else "An in-place"
                raise RuntimeError(
                    f"{where}: {form} operator must return its argument '{argument.name}', as '{schema}' says."
                )
        if undeclared_alias(schema, declared, args, value) is not None:
            _refuse_alias(where)
        if declared.alias_info is not None:
            continue
        made = tensors_in([value])
        if any_shared(made, earlier) or any(any_shared(made[i:], made[:i]) for i in range(1, len(made))):
            _refuse_alias(where)
        earlier += made


def any_shared(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Return whether a tensor of the first, also in lists, shares memory with one of the second."""
    return any(shares_memory(a, b) for a in tensors_in(left) for b in tensors_in(right))


def _refuse_alias(where: str) -> None:
    raise RuntimeError(
        f"{where}: The output of this custom operator (1) must not also be an input to this custom operator and (2) "
        "may not alias any inputs to this custom operator or other returns. The most common way to trigger this error "
        "is if we have y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the "
        "offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not return y."
    )
