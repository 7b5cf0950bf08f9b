"""Calls with arguments in a deprecated order, which PyTorch accepts with a warning."""

from __future__ import annotations

import operator
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

from ...runtime.errors import internal_assert
from ..schema import FunctionSchema, is_tensor_like, parse_schema
from ..schema.mismatch import python_signature
from . import tensor_function as overrides
from .call_arguments import NUMBERS, WrappedNumber, unwrap_numbers
from .public_spelling import METHOD, public_callable

if TYPE_CHECKING:
    from .overload_packet import OverloadPacket


def call_deprecated(
    packet: OverloadPacket, args: tuple[Any, ...], named: dict[str, Any], spelling: str
) -> Any:
    """Serve a call that has more positional arguments than the signature: match a deprecated order and warn.

    Raises TypeError if no order of `OverloadPacket.deprecated` matches.
    """
    method = spelling == METHOD
    key = packet.name, method, *map(type, args)
    order = None if named or _always[0] else _orders.get(key)
    if order is not None and (order[0], method) in _told:
        _, first_index, others = order
        keywords = {name: args[v] if isinstance(v, Index) else v for name, v in others}
        return public_callable(packet.name, spelling)(args[first_index], **keywords)
    rest = {name: value for name, value in named.items() if name == "out"}
    for text, meant in packet.deprecated if rest == named else ():
        schema = _schema(text, method)
        wrapped_args = args
        if packet.numbers_as_tensors:
            wrapped_args = (
                tuple(
                    WrappedNumber(value)
                    if isinstance(value, NUMBERS) and is_tensor_like(argument.type)
                    else value
                    for argument, value in zip(schema.arguments, args, strict=False)
                )
                + args[len(schema.arguments) :]
            )
        bound = schema.signature.bind(wrapped_args, {})
        if bound is None:
            continue
        values = dict(zip([a.name for a in schema.arguments], unwrap_numbers(bound), strict=True))
        if _always[0] or (text, method) not in _told:
            _told.add((text, method))
            _warn(packet, schema, "out" in named, method)
        (_, first), *remaining = meant
        names = [a.name for a in schema.arguments]
        if len(names) == len(args) and all(map(operator.is_, values.values(), args)):
            others = [(name, Index(names.index(v)) if isinstance(v, str) else v) for name, v in remaining]
            _orders[key] = text, names.index(str(first)), others
        given_names = {name: values[v] if isinstance(v, str) else v for name, v in remaining}
        return packet.call_as((values[str(first)],), {**given_names, **rest}, spelling)
    askers = overrides.overloaded(args, named)
    if askers:
        return packet.handled_in(spelling, askers, args, named)
    packet.resolve(args, named, spelling)
    internal_assert(False, f"{packet.name}: {len(args)} positional arguments fit no schema")


@cache
def _schema(text: str, method: bool) -> FunctionSchema:
    """Return the deprecated schema of a function, or of a method, whose first argument is ``self``."""
    schema = parse_schema(text)
    if method:
        in_order = sorted(schema.arguments, key=lambda a: a.name != "self")
        schema = schema.replaced(arguments=tuple(in_order))
    return schema


_always = [False]


def set_warn_always(b: bool, /) -> None:
    """Set whether one-time warnings are issued every time (`torch.set_warn_always`).

    Args:
        b: If True, issue these warnings every time.

    Example:
        >>> import triten as tt
        >>> tt.set_warn_always(True); tt.is_warn_always_enabled()
        True
        >>> tt.set_warn_always(False)
    """
    _always[0] = bool(b)


def is_warn_always_enabled() -> bool:
    """Return whether one-time warnings are issued every time (`torch.is_warn_always_enabled`).

    Returns:
        A bool.

    Example:
        >>> import triten as tt
        >>> tt.is_warn_always_enabled()
        False
    """
    return _always[0]


class Index(int):
    """Position of an argument in a call, beside constants."""


_orders: dict[tuple[Any, ...], tuple[str, int, list[tuple[str, Any]]]] = {}
"""By the types of a deprecated call: its schema, and of the call that is meant the first argument's position and the
other arguments.
"""

_told: set[tuple[str, bool]] = set()
"""The deprecated orders, of functions or of methods, already warned about: PyTorch warns once for each."""


def _warn(packet: OverloadPacket, schema: FunctionSchema, has_out: bool, method: bool) -> None:
    """Issue PyTorch's warning about a deprecated argument order."""
    today = next(e.schema for e in packet.schemas().values() if not e.schema.out_arguments)
    warnings.warn(
        f"This overload of {packet.name} is deprecated:\n"
        f"\t{packet.name}{python_signature(schema, has_out, method)}\n"
        "Consider using one of the following signatures instead:\n"
        f"\t{packet.name}{python_signature(today, has_out, method)}",
        stacklevel=5,
    )
