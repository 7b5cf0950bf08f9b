"""Explanations of failed bindings, in the words of PyTorch's argument parser.

This runs only after a call was rejected, so it may check everything again. Source: FunctionSignature::parse in
torch/csrc/utils/python_arg_parser.cpp; torch/csrc/utils/invalid_arguments.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...runtime import public_name
from ...runtime.tensor_impl import TensorImpl
from .function_schema import Argument, FunctionSchema, Symbol
from .numpy_names import OWN_NAMES
from .type_check import MISMATCH, compile_check, overflows, python_type_name
from .types import ListType, OptionalType


def value_type_name(value: object) -> str:
    """Return the name of a value's class for errors: `Tensor`, `NoneType`, `numpy.ndarray`."""
    cls = type(value)
    if isinstance(value, TensorImpl):
        return "Tensor" if cls is TensorImpl else cls.__name__
    if public_name.path_below(cls.__module__) is not None:
        return f"{public_name.shown}.{cls.__name__}"
    return f"numpy.{cls.__name__}" if cls.__module__.partition(".")[0] == "numpy" else cls.__name__


def python_name(schema: FunctionSchema, index: int) -> str:
    """Return an argument's name for Python callers: a leading `self` is `input`."""
    name = schema.arguments[index].name
    return "input" if index == 0 and name == "self" else name


def python_signature(schema: FunctionSchema, has_out: bool = False, method: bool = False) -> str:
    """Return the signature that PyTorch's errors print; `has_out` adds the `out` of the form that takes one.

    >>> from triten.dispatch.schema import parse_schema
    >>> from triten.dispatch.schema.mismatch import python_signature
    >>> schema = parse_schema("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    >>> python_signature(schema, has_out=True)
    '(Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None)'
    """
    parts: list[str] = []
    outs = list(schema.out_arguments)
    for index, argument in enumerate(schema.arguments):
        if (method and index == 0) or argument.is_out:
            continue
        if argument.kwarg_only and "*" not in parts:
            parts.append("*")
        parts.append(f"{python_type_name(argument.type)} {python_name(schema, index)}{_default_of(argument)}")
    if schema.is_vararg:
        parts.append("...")
    if has_out or outs:
        if "*" not in parts:
            parts.append("*")
        several = len(outs) > 1 or (not outs and len(schema.returns) > 1)
        parts.append("tuple of Tensors out = None" if several else "Tensor out = None")
    return f"({', '.join(parts)})"


def _default_of(argument: Argument) -> str:
    if not argument.has_default:
        return ""
    value = argument.default
    if isinstance(value, str) and not isinstance(value, Symbol):
        return f' = "{value}"'
    return f" = {list(value) if isinstance(value, tuple) else value}"


def explain(
    schema: FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any], name: str, method: bool = False
) -> str | None:
    """Return why the call does not fit the schema, in the words of PyTorch's TypeError; None if it fits.

    `method` means that the first argument is the object of a method call, which positions do not count.
    """
    signature = schema.signature
    positional = len(schema.positional_arguments)
    shift = int(method)
    if len(args) > positional and not schema.is_vararg:
        return f"{name}() takes {_positional_range(schema, shift)} but {_were_given(len(args) - shift)}"
    by_index = {signature.index_of[k]: k for k in reversed(list(kwargs)) if k in signature.index_of}
    missing: list[int] = []
    for index, argument in enumerate(schema.arguments):
        by_keyword = index >= len(args)
        if by_keyword and index not in by_index:
            if not argument.has_default:
                missing.append(index)
            continue
        value = kwargs[by_index[index]] if by_keyword else args[index]
        if not missing and not signature.accepts(index, value):
            label = f"'{python_name(schema, index)}'"
            if not by_keyword:
                label += f" (position {index + 1 - shift})"
            return f"{name}(): argument {label} must be {_expected(argument, value)}"
    if missing:
        names = ", ".join(f"'{python_name(schema, i)}'" for i in missing)
        kind = "positional" if not schema.arguments[missing[0]].kwarg_only else "keyword-only"
        plural = "s" if len(missing) > 1 else ""
        return f"{name}() missing {len(missing)} required {kind} argument{plural}: {names}"
    return _explain_keywords(schema, len(args), kwargs, name)


def _explain_keywords(schema: FunctionSchema, count: int, kwargs: Mapping[str, Any], name: str) -> str | None:
    seen: set[int] = set(range(count))
    names = {python_name(schema, i): i for i in range(len(schema.arguments))}
    assigned = seen | {names[keyword] for keyword in kwargs if keyword in names}
    for keyword in kwargs:
        index = schema.signature.index_of.get(keyword)
        if index is None or (keyword in OWN_NAMES and keyword not in names and index in assigned):
            return f"{name}() got an unexpected keyword argument '{keyword}'"
        if index in seen:
            return f"{name}() got multiple values for argument '{keyword}'"
        seen.add(index)
    return None


def explain_operator_call(schema: FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return why a call of an operator object does not fit, in the words of PyTorch's RuntimeError.

    PyTorch binds ``torch.ops`` by the schema, without its argument parser (aten/src/ATen/core/function_schema_inl.h).

    >>> from triten.dispatch.schema import parse_schema
    >>> from triten.dispatch.schema.mismatch import explain_operator_call
    >>> print(explain_operator_call(parse_schema("aten::relu(Tensor self) -> Tensor"), (), {}))
    aten::relu() is missing value for argument 'self'. Declaration: aten::relu(Tensor self) -> Tensor
    """
    name, signature = schema.operator_name.name, schema.signature
    most, positional = len(schema.arguments), len(schema.positional_arguments)
    if not schema.is_vararg:
        if len(args) > most:
            return (
                f"{name}() expected at most {most} argument(s) but received {len(args)} argument(s). "
                f"Declaration: {schema}"
            )
        if len(args) > positional:
            return (
                f"{name}() takes {positional} positional argument(s) but {len(args)} was/were given. "
                f"Declaration: {schema}"
            )
    by_index = {signature.index_of[k]: k for k in reversed(list(kwargs)) if k in signature.index_of}
    for index, argument in enumerate(schema.arguments):
        if index >= len(args) and index not in by_index:
            if not argument.has_default:
                return f"{name}() is missing value for argument '{argument.name}'. Declaration: {schema}"
            continue
        value = args[index] if index < len(args) else kwargs[by_index[index]]
        if not signature.accepts(index, value):
            return (
                f"{name}() Expected a value of type '{argument.type}' for argument '{argument.name}' but instead found "
                f"type '{value_type_name(value)}'.\nPosition: {index}\nValue: {value!r}\nDeclaration: {schema}"
            )
    for keyword in kwargs:
        if keyword not in signature.index_of:
            return f"Unknown keyword argument '{keyword}' for operator '{name}'. Schema: {schema}"
    taken = {*range(len(args)), *by_index}
    repeated = next(k for k in reversed(list(kwargs)) if signature.index_of[k] in taken)
    return f"Argument '{repeated}' specified both as positional and keyword argument. Schema: {schema}"


def _positional_range(schema: FunctionSchema, shift: int) -> str:
    max_count = len(schema.positional_arguments) - shift
    min_count = sum(not a.has_default for a in schema.positional_arguments) - shift
    if min_count == max_count:
        return f"{max_count} positional argument{'' if max_count == 1 else 's'}"
    return f"from {min_count} to {max_count} positional arguments"


def _were_given(count: int) -> str:
    return f"{count} was given" if count == 1 else f"{count} were given"


def _expected(argument: Argument, value: object) -> str:
    expected = python_type_name(argument.type)
    type_ = argument.type.elem if isinstance(argument.type, OptionalType) else argument.type
    if not isinstance(type_, ListType) or not isinstance(value, tuple | list):
        return f"{expected}, not {value_type_name(value)}"
    exact, convert = compile_check(type_.elem)
    for position, element in enumerate(value):
        if position and type(element) is bool and expected == "tuple of ints":
            continue
        if type(element) not in exact and convert(element, True) is MISMATCH:
            return f"{expected}, but found element of type {value_type_name(element)} at pos {position}"
        if isinstance(element, int) and overflows((element,)):
            why = "Overflow when unpacking long long"
            return f'{expected}, but element {element} at pos {position} failed to unpack: "{why}"'
    return f"{expected} of length {type_.size}, not of length {len(value)}"


def describe_call(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return the types of a call's arguments: `(Tensor, tuple of (int, str), out=Tensor)`."""
    parts = [_describe(v) for v in args] + [f"{k}={_describe(v)}" for k, v in kwargs.items()]
    return f"({', '.join(parts)})"


def _describe(value: object) -> str:
    if type(value) is tuple:
        return f"tuple of ({', '.join(_describe(v) for v in value)}{',' if len(value) == 1 else ''})"
    if type(value) is list:
        return f"list of [{', '.join(_describe(v) for v in value)}]"
    return value_type_name(value)


def describe_mismatch(
    schema: FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any], method: bool = False
) -> str | None:
    """Return the line under a signature in the list of candidates: the keywords or types that do not fit.

    As in PyTorch, return None if no keyword is unknown and some argument is missing.
    """
    signature = schema.signature
    unknown = [k for k in kwargs if k not in signature.index_of]
    if unknown:
        return f"didn't match because some of the keywords were incorrect: {', '.join(unknown)}"
    if len(args) + len(kwargs) != len(schema.arguments) or len(args) > len(schema.positional_arguments):
        return None
    pairs = [(index, "", value) for index, value in enumerate(args)]
    pairs += [(signature.index_of[k], f"{k}=", value) for k, value in kwargs.items()]
    marked = [
        prefix + (_describe(v) if signature.accepts(index, v) else f"!{_describe(v)}!")
        for index, prefix, v in pairs[int(method) :]
    ]
    return f"didn't match because some of the arguments have invalid types: ({', '.join(marked)})"
