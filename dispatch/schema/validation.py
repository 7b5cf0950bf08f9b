"""Rules of alias annotations, arguments and schemas, checked at construction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import SchemaError
from .types import BaseType, ListType, OptionalType, Type, is_tensor_like

if TYPE_CHECKING:
    from .function_schema import AliasInfo, Argument, FunctionSchema, Return

# Base types whose default may be a name, such as `Mean` for an int and `long` for a ScalarType.
_NAMED_DEFAULTS = frozenset({"int", "SymInt", "ScalarType", "Layout", "MemoryFormat", "Device", "QScheme"})
_NUMBERS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "SymInt": (int,),
    "DeviceIndex": (int,),
    "float": (int, float),
    "Scalar": (int, float, bool),
    "bool": (bool,),
    "SymBool": (bool,),
}


def check_alias_info(info: AliasInfo) -> None:
    """Raise SchemaError for an annotation without a set, with a repeated set, or with sets on one side only."""
    for names in (info.before_set, info.after_set):
        if len(set(names)) != len(names):
            raise SchemaError(f"alias annotation {info} names a set twice")
    if bool(info.before_set) != bool(info.after_set):
        raise SchemaError(f"alias annotation {info} has sets on one side of the arrow only")
    if not info.before_set and not info.is_write:
        raise SchemaError("an alias annotation names at least one set")


def check_argument(argument: Argument) -> None:
    """Raise SchemaError for an alias annotation on a non-tensor, and for a default that does not fit the type."""
    if argument.alias_info is not None and not is_tensor_like(argument.type):
        verb = "writes into" if argument.is_write else "aliases"
        raise SchemaError(
            f"argument {argument.name!r}: the annotation {argument.alias_info} {verb} {argument.type}; "
            f"only tensors can be aliased or written"
        )
    if argument.has_default and not _default_fits(argument.default, argument.type):
        raise SchemaError(
            f"argument {argument.name!r}: {argument.default!r} is no default for type {argument.type}"
        )


def _default_fits(default: object, type: Type) -> bool:
    from .function_schema import Symbol

    if isinstance(type, OptionalType):
        return default is None or _default_fits(default, type.elem)
    if isinstance(type, ListType):
        if isinstance(default, tuple):
            # Only bool[n] is a fixed-length array; int[1] dim=[-2,-1] is legal.
            sized_right = type.elem != BaseType("bool") or type.size in (None, len(default))
            return sized_right and all(_default_fits(v, type.elem) for v in default)
        return type.size is not None and not isinstance(default, str) and _default_fits(default, type.elem)
    if type.name == "Any":
        return True
    if default is None:
        return type.name in ("Tensor", "Generator")
    if isinstance(default, Symbol):
        return type.name in _NAMED_DEFAULTS
    if isinstance(default, str):
        return type.name in ("str", "Device", "Dimname")
    if isinstance(default, bool):
        return bool in _NUMBERS.get(type.name, ())
    return isinstance(default, _NUMBERS.get(type.name, ()))


def check_schema(schema: FunctionSchema) -> None:
    """Raise SchemaError, with the schema's text and source, if a schema breaks a rule.

    - Names are unique, and keyword-only arguments come last.
    - No positional argument without a default follows one with a default (keyword-only ones may).
    - `...` follows no keyword-only argument.
    - The alias annotation of a return names a set of an argument's (in `(a|b)` the other may be fresh). It is written
      only if that argument is.
    - An overload named `out` has out arguments. If a schema returns any of them, it returns all, in order (`-> ()`
      returns none; an argument named `_scratch_...` is never returned).

    >>> from triten.dispatch.schema import parse_schema
    >>> parse_schema("f(Tensor self, int dim=0, int count) -> Tensor")
    Traceback (most recent call last):
        ...
    triten.dispatch.schema.errors.SchemaError: argument 'count' has no default but follows one that has
    f(Tensor self, int dim=0, int count) -> Tensor
    """
    _check_names(schema)
    _check_order(schema)
    _check_returns(schema)
    _check_out_arguments(schema)


def _refuse(schema: FunctionSchema, reason: str, part: object = None) -> SchemaError:
    prefix = f"{schema.source}: " if schema.source else ""
    return SchemaError(f"{prefix}{reason}\n{schema}", part=part)


def _check_names(schema: FunctionSchema) -> None:
    for noun, parts in (("argument", schema.arguments), ("return", schema.returns)):
        seen: set[str] = set()
        for part in parts:
            if part.name in seen:
                raise _refuse(schema, f"{noun} {part.name!r} is declared twice", part)
            if part.name is not None:
                seen.add(part.name)


def _check_order(schema: FunctionSchema) -> None:
    seen_default = seen_kwarg_only = False
    for argument in schema.arguments:
        if argument.kwarg_only:
            seen_kwarg_only = True
            continue
        if seen_kwarg_only:
            raise _refuse(
                schema, f"positional argument {argument.name!r} follows a keyword-only one", argument
            )
        if argument.has_default:
            seen_default = True
        elif seen_default:
            reason = f"argument {argument.name!r} has no default but follows one that has"
            raise _refuse(schema, reason, argument)
    if schema.is_vararg and seen_kwarg_only:
        raise _refuse(schema, "'...' takes positional arguments and cannot follow keyword-only ones")


def _check_returns(schema: FunctionSchema) -> None:
    known: set[str] = {"*"}
    written: set[str] = {"*"}
    for argument in schema.arguments:
        if argument.alias_info is not None:
            known.update(argument.alias_info.before_set, argument.alias_info.after_set)
            if argument.is_write:
                written.update(argument.alias_info.before_set, argument.alias_info.after_set)
    for index, ret in enumerate(schema.returns):
        label = f"return {ret.name!r}" if ret.name else f"return {index}"
        info = ret.alias_info
        if info is None:
            continue
        if not is_tensor_like(ret.type):
            raise _refuse(schema, f"{label}: alias annotation {info} on {ret.type}; only tensors alias", ret)
        if not info.before_set:
            continue
        if known.isdisjoint(info.before_set):
            raise _refuse(schema, f"{label}: alias annotation {info} matches no argument", ret)
        if info.is_write and written.isdisjoint(info.before_set):
            raise _refuse(schema, f"{label}: alias annotation {info} is written, but no argument is", ret)


def _check_out_arguments(schema: FunctionSchema) -> None:
    outs = [a for a in schema.out_arguments if not a.name.startswith("_scratch_")]
    overload = schema.overload_name
    is_named_out = overload == "out" or overload.endswith("_out")
    if is_named_out and not any(a.is_write for a in schema.arguments):
        raise _refuse(schema, f"overload {overload!r} has no out argument: no argument is written")
    returned = [_shared_out(r, outs) for r in schema.returns]
    if not any(returned):
        return
    if returned != [a.name for a in outs]:
        got = ", ".join(name or "a fresh value" for name in returned)
        expected = ", ".join(a.name for a in outs)
        raise _refuse(
            schema, f"an out= operator returns its out arguments in order, ({expected}), not ({got})"
        )


def _shared_out(ret: Return, outs: list[Argument]) -> str | None:
    if ret.alias_info is None:
        return None
    sets = set(ret.alias_info.before_set)
    return next((a.name for a in outs if a.alias_info and sets.intersection(a.alias_info.before_set)), None)
