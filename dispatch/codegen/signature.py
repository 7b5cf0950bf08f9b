"""From the overloads of one name to one Python signature, or the finding that they share none."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from ..schema.function_schema import NO_DEFAULT, Argument, Symbol
from ..schema.types import BaseType, ListType, OptionalType, Type, base_type, is_list_type
from .model import NativeFunction

SIZE_NAMES = frozenset({"size", "shape", "dims", "repeats", "sizes"})


@dataclass(frozen=True)
class PythonParameter:
    """A parameter of a generated function. `default` is source text, or None where there is none."""

    name: str
    role: str
    default: str | None
    keyword_only: bool
    annotation: str


@dataclass(frozen=True)
class PythonSignature:
    """The signature of a packet: its parameters without ``out``, or `general` where overloads conflict."""

    name: str
    overloads: tuple[NativeFunction, ...]
    parameters: tuple[PythonParameter, ...]
    general: bool
    has_out: bool
    variadic: str | None
    wrapped_numbers: bool | str

    @property
    def first(self) -> NativeFunction:
        """The first overload."""
        return self.overloads[0]

    def sizes_of(self, method: bool) -> str | None:
        """Return the parameter that the call may give as several positional sizes; see `variadic`.

        Functions of a tensor take none: there a tuple is asked for.
        """
        of_a_tensor = bool(self.parameters) and self.parameters[0].name == "self"
        return self.variadic if method or not of_a_tensor else None

    @property
    def is_factory(self) -> bool:
        """Whether it makes new tensors from options, so that Python's form takes ``requires_grad`` too."""
        functional = [f for f in self.overloads if f.form == "functional"]
        options = {"dtype", "layout", "device", "pin_memory"}
        return any(
            options <= {a.name for a in f.schema.arguments}
            and not any(r.alias_info for r in f.schema.returns)
            and not f.name.base_name.startswith("_")
            for f in functional
        )


def takes_names(function: NativeFunction) -> bool:
    """Return whether an overload takes dimension names."""
    return any(base_type(argument.type).name == "Dimname" for argument in function.schema.arguments)


def role_of(type: Type, argument: Argument, wrapped: bool | str) -> str:
    """Return an argument's role in a plan's key; see `core.call_arguments.Parameter`."""
    name = base_type(type).name
    is_list = is_list_type(type)
    if name == "Tensor":
        if is_list:
            return "list"
        if wrapped and argument.name in ("other", "self"):
            return "operand" if argument.name == "other" else "tensor"
        return "optional" if isinstance(type, OptionalType) else "tensor"
    if name == "Scalar" and not is_list:
        if argument.default.__class__ is int:
            return "scale"
        return "number"
    if name in ("float", "Generator", "Storage", "Stream") and not is_list:
        return "number"
    return "static"


def default_text(argument: Argument) -> str | None:
    """Return a default as source text."""
    value: Any = argument.default
    if value is NO_DEFAULT:
        return None
    if isinstance(value, Symbol):
        return {"Mean": "1", "long": "int64", "inf": 'float("inf")'}.get(str(value), str(value))
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    if isinstance(value, tuple):
        return repr(value)
    if isinstance(argument.type, ListType) and argument.type.size is not None and isinstance(value, int):
        return repr(value)
    return repr(value)


def annotation_of(type: Type, role: str) -> str:
    """Return a Python annotation."""
    if isinstance(type, OptionalType):
        return f"{annotation_of(type.elem, role)} | None"
    if isinstance(type, ListType):
        inner = annotation_of(type.elem, "")
        if inner in ("int", "str") and type.size is not None:
            return f"{inner} | Sequence[{inner}]"
        if inner == "str" and base_type(type).name == "Dimname":
            return "Sequence[str | None]"
        return f"Sequence[{inner}]"
    return {
        "Tensor": "Tensor | Number" if role == "operand" else "Tensor",
        "Scalar": "Number",
        "SymInt": "int",
        "ScalarType": "dtype",
        "MemoryFormat": "memory_format",
        "Layout": "layout",
        "Device": "device | str | int",
        "Dimname": "str",
    }.get(type.name, type.name)


def argument_annotation(f: NativeFunction, argument: Argument) -> str:
    """Return the annotation of an overload's argument, including numbers if the operator accepts them for a tensor."""
    role = role_of(argument.type, argument, f.wrapped_numbers)
    if f.wrapped_numbers and role == "tensor" and argument is not f.schema.arguments[0]:
        role = "operand"
    return annotation_of(argument.type, role)


def united(*annotations: str) -> str:
    """Return the union of annotations without duplicates, None last."""
    members = dict.fromkeys(member for each in annotations for member in members_of(each))
    return " | ".join(sorted(members, key=lambda member: member == "None"))


def members_of(annotation: str) -> list[str]:
    """Return the members of a union that is written with bars."""
    return re.split(r" \| (?![^\[]*\])", annotation)


def python_signature(name: str, overloads: list[NativeFunction]) -> PythonSignature:
    """Merge the functional overloads of a name (or its in-place ones)."""
    shapes = [f for f in overloads if f.form != "out" and f.python_binding is True] or overloads
    has_out = any(f.form == "out" for f in overloads)
    wrapped = next((f.wrapped_numbers for f in overloads if f.wrapped_numbers), False)
    merged: dict[str, PythonParameter] = {}
    positions: dict[str, int] = {}
    general = False
    for f in shapes:
        for index, argument in enumerate(a for a in f.schema.arguments if not a.is_out):
            parameter = _parameter(f, argument, wrapped)
            known = merged.get(argument.name)
            if known is None:
                merged[argument.name] = parameter
                if not argument.kwarg_only:
                    if index in positions.values():
                        general = True
                    positions[argument.name] = index
                continue
            if argument.kwarg_only != known.keyword_only or (
                not argument.kwarg_only and positions[argument.name] != index
            ):
                general = True
            role = _merge_roles(known.role, parameter.role)
            if role is None:
                general, role = True, known.role
            annotation = united(known.annotation, parameter.annotation)
            default = known.default if known.default == parameter.default else "NOT_GIVEN"
            if known.default is None or parameter.default is None:
                default = None if known.default is None and parameter.default is None else "NOT_GIVEN"
            merged[argument.name] = PythonParameter(
                argument.name, role, default, known.keyword_only or argument.kwarg_only, annotation
            )
    plain = [f for f in shapes if not takes_names(f)]
    for f in overloads:
        if f.python_binding is True or f.form == "out":
            continue
        for index, argument in enumerate(f.schema.arguments):
            known = merged.get(argument.name)
            is_new = known is None
            if is_new and f.python_binding in ("positional", "either") and index < len(merged):
                known = list(merged.values())[index]
            if known is not None:
                annotation = united(known.annotation, argument_annotation(f, argument))
                merged[known.name] = replace(known, annotation=annotation)
            if is_new and f.python_binding in ("keywords", "either"):
                merged[argument.name] = replace(_parameter(f, argument, wrapped), keyword_only=True)
    parameters = []
    for parameter in merged.values():
        missing = any(all(a.name != parameter.name for a in f.schema.arguments) for f in shapes)
        if plain and all(a.name != parameter.name for f in plain for a in f.schema.arguments):
            annotation = united(parameter.annotation, "None")
            parameter = replace(parameter, role="rare", default="None", annotation=annotation)
        elif missing:
            # Without a default of its own a scale has no value that stands in the key.
            role = "number" if parameter.role == "scale" else parameter.role
            parameter = PythonParameter(
                parameter.name, role, "NOT_GIVEN", parameter.keyword_only, parameter.annotation
            )
        parameters.append(parameter)
    parameters.sort(key=lambda p: p.keyword_only)
    gap = False
    for parameter in parameters:
        if parameter.keyword_only:
            break
        if parameter.default is not None:
            gap = True
        elif gap:
            general = True
    return PythonSignature(
        name, tuple(overloads), tuple(parameters), general, has_out, _variadic(shapes, parameters), wrapped
    )


def _parameter(f: NativeFunction, argument: Argument, wrapped: bool | str) -> PythonParameter:
    role = role_of(argument.type, argument, wrapped)
    default = default_text(argument)
    annotation = argument_annotation(f, argument)
    if default == "None":
        annotation = united(annotation, "None")
    return PythonParameter(argument.name, role, default, argument.kwarg_only, annotation)


def _merge_roles(a: str, b: str) -> str | None:
    if a == b:
        return a
    runtime = {"tensor", "optional", "operand", "number"}
    if a in runtime and b in runtime:
        return "operand"
    if {a, b} <= {"static"}:
        return "static"
    return None


def _variadic(shapes: list[NativeFunction], parameters: list[PythonParameter]) -> str | None:
    """Return the parameter that a call may give as several positional sizes, as in ``view(4, 64)``."""
    first = 1 if parameters and parameters[0].name == "self" else 0
    if len(parameters) <= first:
        return None
    candidate = parameters[first]
    if candidate.name not in SIZE_NAMES or candidate.keyword_only:
        return None
    argument = next(a for f in shapes for a in f.schema.arguments if a.name == candidate.name)
    is_sizes = isinstance(argument.type, ListType) and isinstance(argument.type.elem, BaseType)
    following = [p for p in parameters[first + 1 :] if not p.keyword_only]
    return candidate.name if is_sizes and not following else None
