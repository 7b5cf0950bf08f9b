"""Inference of a schema's text from a Python function's type hints, as in `torch.library.infer_schema`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_impl import TensorImpl
from .function_schema import format_default

if TYPE_CHECKING:
    import inspect

_NAMES: Mapping[Any, str] = {
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    ScalarType: "ScalarType",
    Device: "Device",
}
_NUMBER = frozenset({int, float, bool})
_LISTED = frozenset({"Tensor", "SymInt", "float", "bool", "Scalar"})
_RETURNED = frozenset({"Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar"})


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: Iterable[str] | str = (),
    op_name: str | None = None,
    tags: Iterable[str] | str = (),
) -> str:
    """Return the schema, `(arguments) -> returns`, that a function's type hints declare.

    Hints may be Tensor, int, float, bool, str, `int | float | bool` (Scalar), `tt.dtype`, `tt.device`, `T | None`,
    `list[T]` and `Sequence[T]`. Returns may be Tensor, `list[Tensor]`, numbers, a tuple of them, or None.

    Args:
        prototype_function: The function; its body does not matter.
        mutates_args: The names of the tensor arguments that it writes to; "unknown" means all of them.
        op_name: A name to put before the arguments.
        tags: With "inplace", the result is the first argument, which must be the mutated one. With "out", the results
            are the mutated arguments, which must be keyword-only tensors.

    Raises:
        ValueError: for a missing, unknown or unsupported hint, an unsupported default, a positional-only or variadic
            parameter, a mutated argument that does not exist or is no tensor, hints that do not fit a tag.

    >>> import triten as tt
    >>> from triten.dispatch.schema import infer_schema
    >>> def scale(x: tt.Tensor, factor: float = 2.0, *, dims: list[int] | None = None) -> tt.Tensor: ...
    >>> infer_schema(scale, mutates_args=())
    '(Tensor x, float factor=2.0, *, SymInt[]? dims=None) -> Tensor'
    """
    import inspect
    import typing

    signature = inspect.signature(prototype_function)
    try:
        hints = typing.get_type_hints(prototype_function)
    except NameError as error:
        raise ValueError(
            f"infer_schema(func): Unsupported type annotation: {error}. A hint that is a string is looked up at "
            f"module scope. Got func with signature {signature}"
        ) from error
    parts: list[str] = []
    mutated = mutates_args if isinstance(mutates_args, str) else set(mutates_args)
    if isinstance(mutated, str) and mutated != "unknown":
        raise ValueError(f"infer_schema(func): mutates_args must be names or 'unknown', not {mutated!r}")
    if isinstance(mutated, set) and (absent := mutated - signature.parameters.keys()):
        raise ValueError(
            f"infer_schema(func): {sorted(absent)} in mutates_args are not parameters of {signature}"
        )
    for index, parameter in enumerate(signature.parameters.values()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ValueError(
                "infer_schema(func): We do not support positional-only args, varargs, or varkwargs. "
                f"Got func with signature {signature}"
            )
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(_argument(parameter, hints, index, mutated, signature))
    returns = _returns(hints, signature)
    named = {tags} if isinstance(tags, str) else set(tags)
    if named & {"inplace", "out"}:
        returns = _tagged_returns(named, mutated, signature, parts, returns)
    return f"{op_name or ''}({', '.join(parts)}) -> {returns}"


def _argument(
    parameter: inspect.Parameter,
    hints: Mapping[str, Any],
    index: int,
    mutated: str | set[str],
    signature: inspect.Signature,
) -> str:
    name = parameter.name
    if name not in hints:
        raise ValueError(
            f"infer_schema(func): Parameter {name} must have a type annotation. "
            f"Got func with signature {signature}"
        )
    type_name = _type_name(hints[name])
    if type_name is None:
        raise ValueError(
            f"infer_schema(func): Parameter {name} has unsupported type {hints[name]}. "
            f"Got func with signature {signature}"
        )
    is_tensor = type_name.startswith("Tensor")
    if isinstance(mutated, set) and name in mutated and not is_tensor:
        raise ValueError(
            f"infer_schema(func): Parameter {name} is in mutates_args but only Tensors or collections of "
            f"Tensors can be mutated. Got func with signature {signature}"
        )
    if is_tensor and (mutated == "unknown" or name in mutated):
        type_name = type_name.replace("Tensor", f"Tensor(a{index}!)", 1)
    return f"{type_name} {name}{_default(parameter, signature)}"


def _tagged_returns(
    tags: set[str], mutated: str | set[str], signature: inspect.Signature, parts: list[str], returns: str
) -> str:
    """Return the returns of an operator that returns what it writes to: its first argument, or its out arguments."""
    parameters = list(signature.parameters.values())
    written = [i for i, p in enumerate(parameters) if mutated == "unknown" or p.name in mutated]
    keyword_only = [p.kind is p.KEYWORD_ONLY for p in parameters]
    types = [part.rpartition(" ")[0] for part in parts if part != "*"]
    plain = all(types[i] == f"Tensor(a{i}!)" for i in written)
    if {"inplace", "out"} <= tags:
        raise ValueError("infer_schema(func): the tags 'inplace' and 'out' are mutually exclusive")
    if "inplace" in tags:
        fits = written == [0] and plain and not keyword_only[0] and returns == "Tensor"
        rule = "the first argument, a Tensor, to be the only mutated one, and a Tensor to be returned"
    else:
        hinted = "Tensor" if len(written) == 1 else f"({', '.join(['Tensor'] * len(written))})"
        fits = bool(written) and plain and all(keyword_only[i] for i in written) and returns == hinted
        rule = "mutated arguments to be keyword-only Tensors, and as many Tensors to be returned"
    if not fits:
        tag = "inplace" if "inplace" in tags else "out"
        raise ValueError(
            f"infer_schema(func): the tag '{tag}' requires {rule}, got mutates_args={mutated!r}. "
            f"Got func with signature {signature}"
        )
    joined = ", ".join(f"Tensor(a{i}!)" for i in written)
    return joined if len(written) == 1 else f"({joined})"


def _default(parameter: inspect.Parameter, signature: inspect.Signature) -> str:
    value = parameter.default
    if value is parameter.empty:
        return ""
    if value is None or isinstance(value, int | float | bool):
        return f"={value}"
    if isinstance(value, str | Device):
        return f"={format_default(str(value))}"
    if isinstance(value, ScalarType):
        return f"={value.name}"
    raise ValueError(
        f"infer_schema(func): Parameter {parameter.name} has an unsupported default value "
        f"type {type(value)}. "
        f"Got func with signature {signature}"
    )


def _type_name(hint: object) -> str | None:
    """Return the schema type of a hint; None if there is none."""
    import collections.abc
    import types
    import typing

    if isinstance(hint, type) and issubclass(hint, TensorImpl):
        return "Tensor"
    if isinstance(hint, type) and hint in _NAMES:
        return _NAMES[hint]
    origin, parameters = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        members = set(parameters) - {type(None)}
        suffix = "?" if len(members) < len(parameters) else ""
        if members == _NUMBER:
            return "Scalar" + suffix
        element = _type_name(next(iter(members))) if len(members) == 1 else None
        return None if element is None else element + suffix
    if origin in (list, collections.abc.Sequence) and len(parameters) == 1:
        element = _type_name(parameters[0])
        return f"{element}[]" if element in _LISTED or element == "Tensor?" else None
    return None


def _returns(hints: Mapping[str, Any], signature: inspect.Signature) -> str:
    import typing

    if "return" not in hints:
        raise ValueError(
            "infer_schema(func): No return type annotation was provided. Please add one. "
            f"Got func with signature {signature}"
        )
    hint = hints["return"]
    if hint is type(None):
        return "()"
    is_tuple = typing.get_origin(hint) is tuple
    members = typing.get_args(hint) if is_tuple else (hint,)
    names = [_type_name(member) for member in members]
    if not all(name in _RETURNED for name in names):
        raise ValueError(
            f"infer_schema(func): Return has unsupported type {hint}. "
            f"The valid types are {sorted(_RETURNED)}. "
            f"Got func with signature {signature}"
        )
    joined = ", ".join(str(name) for name in names)
    return f"({joined})" if is_tuple else joined
