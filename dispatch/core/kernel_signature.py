"""Calls of Python kernels with a schema's arguments, as PyTorch makes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...runtime.tensor_impl import TensorImpl
from ..schema import NO_DEFAULT, FunctionSchema
from ..schema.type_check import default_value


def location_of(function: Callable[..., Any]) -> str:
    """Return the file and line where a function is defined, for messages; its repr if it has no code object."""
    code = getattr(function, "__code__", None)
    return repr(function) if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def check_is_boxed(function: Callable[..., Any], noun: str, source: str) -> None:
    """Raise RuntimeError for a function that cannot be a boxed kernel."""
    signature = _signature_of(function)
    if signature is None:
        return
    try:
        signature.bind(None, None, None)
    except TypeError as error:
        raise RuntimeError(
            f"the {noun} at {source} cannot take (op, key_set, stack), as boxed kernels must: it is a function of "
            f"{signature} ({error})"
        ) from None


def python_call(
    bound: Callable[..., Any], written: Callable[..., Any], schema: FunctionSchema, *, takes_key_set: bool
) -> Callable[..., Any]:
    """Return a function of all arguments in schema order that calls a Python kernel as PyTorch calls one.

    Trailing positional arguments that equal their defaults are left out. Keyword-only arguments are passed by name,
    and left out if they equal their defaults. An argument is never left out if the kernel has a parameter without a
    default for it.

    Args:
        bound: The kernel, with its `DispatchKeySet` if it takes one.
        written: The kernel as its author wrote it, whose signature counts.
        schema: The operator's schema.
        takes_key_set: If True, `written` takes a `DispatchKeySet` before the arguments.

    Source: torch/csrc/jit/python/pybind_utils, parseIValuesToPyArgsKwargs.
    """
    signature = _signature_of(written)
    parameters = list(signature.parameters.values()) if signature is not None else []
    needed = {p.name for p in parameters if p.default is p.empty and p.kind is not p.POSITIONAL_ONLY}
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    num_required = sum(p.default is p.empty for p in placed) - takes_key_set
    arguments = schema.arguments
    positional = sum(not a.kwarg_only for a in arguments)
    defaults = [default_value(a) if a.has_default else NO_DEFAULT for a in arguments]
    named = [
        (index, a.name, NO_DEFAULT if a.name in needed else defaults[index])
        for index, a in enumerate(arguments)
        if a.kwarg_only
    ]
    optional = [(index, defaults[index]) for index in reversed(range(max(num_required, 0), positional))]
    if schema.is_vararg or not (named or any(default is not NO_DEFAULT for _, default in optional)):
        return bound

    def call(*args: Any) -> Any:
        stop = positional
        for index, default in optional:
            if not _is_default(args[index], default):
                break
            stop = index
        chosen = {
            name: args[index] for index, name, default in named if not _is_default(args[index], default)
        }
        return bound(*args[:stop], **chosen)

    return call


def _is_default(value: Any, default: Any) -> bool:
    """Return whether an argument equals its default. No tensor does."""
    if value is default or default is NO_DEFAULT or default is None or isinstance(value, TensorImpl):
        return value is default
    return bool(value == default)


def _signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None
