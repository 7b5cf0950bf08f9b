"""Whether a Python function can be the kernel of a schema, and how it takes the schema's arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any

from ..schema import FunctionSchema


def check_fits(
    function: Callable[..., Any], schema: FunctionSchema, *, boxed: bool, with_keyset: bool, source: str
) -> None:
    """Refuse a kernel that cannot be called with a schema's arguments.

    Boxed kernels take the operator, the key set and the stack; others the schema's arguments by position, the
    keyword-only ones by name where the function asks for that. A function of which Python knows no signature
    (`max`) passes.

    Raises:
        RuntimeError: naming where the kernel and the operator were registered.
    """
    if boxed:
        check_is_boxed(function, f"kernel of '{schema}'", source)
        return
    signature = _signature_of(function)
    if signature is None or schema.is_vararg:
        return
    named = named_arguments(function, schema)
    count = len(schema.arguments) - len(named) + with_keyset
    try:
        signature.bind(*[None] * count, **dict.fromkeys(named))
    except TypeError as error:
        by_name = f" and {', '.join(named)} by name" if named else ""
        raise RuntimeError(
            f"the kernel at {source} cannot take the arguments of '{schema}', defined at {schema.source}: expected "
            f"a function of {count} by position{by_name}, given one of {signature} ({error})"
        ) from None


def place_of(function: Callable[..., Any]) -> str:
    """The file and line where a function is written, for messages; its name where there is none."""
    code = getattr(function, "__code__", None)
    return repr(function) if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def check_is_boxed(function: Callable[..., Any], what: str, source: str) -> None:
    """Refuse a function that cannot be a boxed kernel. Raises RuntimeError."""
    signature = _signature_of(function)
    if signature is None:
        return
    try:
        signature.bind(None, None, None)
    except TypeError as error:
        raise RuntimeError(
            f"the {what} at {source} cannot take (op, key_set, stack), as boxed kernels must: it is a function of "
            f"{signature} ({error})"
        ) from None


def named_arguments(function: Callable[..., Any], schema: FunctionSchema) -> tuple[str, ...]:
    """The keyword-only arguments of a schema that a kernel takes by name alone."""
    if not schema.kwarg_only_arguments:
        return ()
    signature = _signature_of(function)
    if signature is None:
        return ()
    parameters = signature.parameters
    kinds = {p.kind for p in parameters.values()}
    takes_any = Parameter.VAR_KEYWORD in kinds and Parameter.VAR_POSITIONAL not in kinds
    return tuple(
        a.name
        for a in schema.kwarg_only_arguments
        if (a.name in parameters and parameters[a.name].kind is Parameter.KEYWORD_ONLY)
        or (a.name not in parameters and takes_any)
    )


def taking_by_name(
    function: Callable[..., Any], schema: FunctionSchema, names: Sequence[str]
) -> Callable[..., Any]:
    """`function` as one of all arguments in schema order, of which it takes `names` by name."""
    order = [a.name for a in schema.arguments]
    placed = [i for i, name in enumerate(order) if name not in names]
    named = [(name, order.index(name)) for name in names]

    def call(*args: Any) -> Any:
        return function(*[args[i] for i in placed], **{name: args[i] for name, i in named})

    return call


def _signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None
