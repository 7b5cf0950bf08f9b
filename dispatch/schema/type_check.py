"""Type checks and conversions of Python values for schema types, as in PyTorch's argument parser.

Base types are in a registry, to which higher folders add their classes. Checks of lists and optionals are compiled
from it. Source: FunctionParameter::check in torch/csrc/utils/python_arg_parser.cpp.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, SupportsFloat, TypeAlias, TypeGuard

import numpy as np

from ...runtime import layout as layouts
from ...runtime import memory_format as memory_formats
from ...runtime import scalar_type
from ...runtime.device import device as Device
from ...runtime.generator import Generator
from ...runtime.size import SymInt
from ...runtime.storage import Storage, TypedStorageBase
from ...runtime.tensor_impl import TensorImpl
from .errors import SchemaError
from .function_schema import Argument, Symbol
from .types import BASE_TYPE_NAMES, BaseType, ListType, OptionalType, Type, base_type


class _Mismatch:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISMATCH"


MISMATCH: Final = _Mismatch()

# Converter from a value, and whether a tensor without dimensions may stand for a number, to the converted value or
# MISMATCH.
Converter: TypeAlias = Callable[[Any, bool], Any]
# A compiled check: the classes whose direct instances pass unchanged, and the converter for other values.
CompiledCheck: TypeAlias = tuple[set[type], Converter]


class TypeCheck:
    """Check of one base type: direct instances of `exact_types` pass unchanged, others are converted."""

    __slots__ = ("convert", "exact_types", "python_name")

    def __init__(self, python_name: str, convert: Converter, exact_types: Iterable[type] = ()) -> None:
        self.python_name = python_name
        self.convert = convert
        self.exact_types = set(exact_types)

    def __call__(self, value: object, lenient: bool) -> Any:
        return self.convert(value, lenient)


def register_type_check(
    base_name: str,
    predicate: Callable[[Any], bool],
    convert: Callable[[Any], Any] | None = None,
    python_name: str | None = None,
    exact_types: Iterable[type] = (),
) -> None:
    """Register the Python values that a base type accepts and their conversion, for calls bound from now on.

    Args:
        base_name: A base type's name, such as ``"Stream"``.
        predicate: Function that returns whether a value is accepted.
        convert: Function that converts an accepted value. Default: no conversion.
        python_name: The type's name in error messages. Default: the earlier name.
        exact_types: Classes whose direct instances pass unconverted, without a call of `predicate`.

    Raises:
        SchemaError: The name is not a base type.

    >>> from triten.dispatch.schema import register_type_check
    >>> class Event: ...
    >>> register_type_check("Event", lambda value: isinstance(value, Event))
    Traceback (most recent call last):
        ...
    triten.dispatch.schema.errors.SchemaError: 'Event' is no base type of the schema language
    """
    check = _check_of(base_name)
    check.convert = _converter(predicate, convert)
    check.python_name = python_name or check.python_name
    check.exact_types.clear()
    check.exact_types.update(exact_types)


def register_exact_type(base_name: str, cls: type) -> None:
    """Register a class whose direct instances pass as a base type without a further check.

    It is for classes on the call path that the base type's check accepts unconverted, as `Tensor` is a TensorImpl.
    Raises SchemaError for a name that is not a base type.
    """
    _check_of(base_name).exact_types.add(cls)


def _check_of(base_name: str) -> TypeCheck:
    check = _CHECKS.get(base_name)
    if check is None:
        raise SchemaError(f"{base_name!r} is no base type of the schema language")
    return check


def _converter(predicate: Callable[[Any], bool], convert: Callable[[Any], Any] | None) -> Converter:
    if convert is None:
        return lambda value, lenient: value if predicate(value) else MISMATCH
    return lambda value, lenient: convert(value) if predicate(value) else MISMATCH


def _instances_of(python_name: str, *classes: type) -> TypeCheck:
    return TypeCheck(python_name, _converter(lambda value: isinstance(value, classes), None), classes)


def _is_stream(value: object) -> bool:
    from ...runtime.cuda.stream import Stream

    return isinstance(value, Stream)


def _stands_for_number(tensor: TensorImpl, lenient: bool) -> bool:
    return lenient and tensor._spec.ndim == 0 and not tensor._spec.requires_grad


def _item(tensor: Any) -> Any:
    # TensorImpl has no operators; `item` is a method of Tensor, whose class is above this folder.
    return tensor.item()


def _to_int(value: Any, lenient: bool) -> int | _Mismatch:
    if isinstance(value, TensorImpl):
        fits = _stands_for_number(value, lenient) and value.dtype.is_integral
        return int(_item(value)) if fits else MISMATCH
    if isinstance(value, bool | np.bool_) or not hasattr(type(value), "__index__"):
        return MISMATCH
    try:
        return int(operator.index(value))
    except TypeError:
        return MISMATCH


def _to_index(value: Any, lenient: bool) -> int | _Mismatch:
    """Convert a size, or an element of a list of ints, also from a tensor of any rank with one integer or bool."""
    if isinstance(value, TensorImpl):
        dtype = value.dtype
        fits = lenient and value._spec.numel == 1 and (dtype.is_integral or dtype is scalar_type.bool_)
        return int(_item(value)) if fits else MISMATCH
    return _to_int(value, lenient)


def _to_float(value: object, lenient: bool) -> float | _Mismatch:
    if isinstance(value, TensorImpl):
        fits = _stands_for_number(value, lenient) and not value.dtype.is_complex
        return float(_item(value)) if fits else MISMATCH
    if isinstance(value, int | float) or _is_real_numpy_scalar(value):
        return float(value)
    return MISMATCH


def _to_scalar(value: object, lenient: bool) -> scalar_type.Number | _Mismatch:
    if isinstance(value, TensorImpl):
        return _item(value) if _stands_for_number(value, lenient) else MISMATCH
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer | SymInt):
        return int(operator.index(value))  # type: ignore[arg-type]
    if isinstance(value, float) or _is_real_numpy_scalar(value):
        return float(value)
    if isinstance(value, complex | np.complexfloating):
        return complex(value)
    return MISMATCH


def _is_real_numpy_scalar(value: object) -> TypeGuard[SupportsFloat]:
    # ml_dtypes' scalars are np.generic of kind "V" ("f" for bfloat16 in some versions) and convert to floats.
    if not isinstance(value, np.generic) or not hasattr(type(value), "__float__"):
        return False
    return value.dtype.kind in "biuf" or (value.dtype.kind == "V" and value.dtype.names is None)


def _to_device(value: object, lenient: bool) -> Device | _Mismatch:
    if isinstance(value, Device):
        return value
    if isinstance(value, str | int) and not isinstance(value, bool):
        return Device(value)
    return MISMATCH


_DTYPES_OF_PYTHON: dict[Any, scalar_type.dtype] = {
    float: scalar_type.float64,
    int: scalar_type.int64,
    bool: scalar_type.bool_,
    complex: scalar_type.complex128,
}


def _to_dtype(value: object, lenient: bool) -> scalar_type.dtype | _Mismatch:
    if isinstance(value, scalar_type.dtype):
        return value
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return scalar_type.by_numpy(value) or MISMATCH
    return _DTYPES_OF_PYTHON.get(value, MISMATCH) if isinstance(value, type) else MISMATCH


def _to_bool(value: object, lenient: bool) -> bool | _Mismatch:
    return value if isinstance(value, bool) else MISMATCH


def _anything(value: object, lenient: bool) -> object:
    return value


def _nothing(value: object, lenient: bool) -> _Mismatch:
    return MISMATCH


# QScheme and packed-weight classes accept nothing until the folder with the class registers it.
_CHECKS: dict[str, TypeCheck] = {
    "Any": TypeCheck("object", _anything),
    "Device": TypeCheck("triten.device", _to_device, (Device,)),
    "DeviceIndex": TypeCheck("int", _to_int, (int,)),
    "Dimname": _instances_of("name", str),
    "Generator": _instances_of("triten.Generator", Generator),
    "Layout": _instances_of("triten.layout", layouts.layout),
    "MemoryFormat": _instances_of("triten.memory_format", memory_formats.memory_format),
    "QScheme": TypeCheck("triten.qscheme", _nothing),
    "Scalar": TypeCheck("Number", _to_scalar, (int, float, bool, complex)),
    "ScalarType": TypeCheck("triten.dtype", _to_dtype, (scalar_type.dtype,)),
    "Storage": _instances_of("Storage", Storage, TypedStorageBase),
    "Stream": TypeCheck("triten.cuda.Stream", _converter(_is_stream, None)),
    "SymBool": TypeCheck("bool", _to_bool, (bool,)),
    "SymInt": TypeCheck("int", _to_index, (int,)),
    "Tensor": _instances_of("Tensor", TensorImpl),
    "bool": TypeCheck("bool", _to_bool, (bool,)),
    "float": TypeCheck("float", _to_float, (float,)),
    "int": TypeCheck("int", _to_int, (int,)),
    "str": _instances_of("str", str),
    **{
        name: TypeCheck(name.rpartition(".")[2], _nothing)
        for name in BASE_TYPE_NAMES
        if name.startswith("__torch__")
    },
}


def overflows(values: Sequence[Any]) -> bool:
    """Return whether some integer of a list does not fit into 64 bits."""
    return bool(values) and (min(values) < -(1 << 63) or max(values) >= 1 << 63)


_REPEATED = frozenset({"int", "SymInt", "float", "Dimname"})


def compile_check(type: Type) -> CompiledCheck:
    """Return the check of a type: the classes that pass unchanged, and the converter for every other value.

    - Lists accept lists and tuples, and return tuples.
    - Lists of ints accept a bool after the first element.
    - `int[n]` also accepts one int and repeats it n times, as `Dimname[n]` does with one name.
    - `bool[n]` accepts exactly n elements.
    """
    if isinstance(type, BaseType):
        check = _CHECKS[type.name]
        return check.exact_types, check
    if isinstance(type, OptionalType):
        exact, convert = compile_check(type.elem)
        return exact, lambda value, lenient: None if value is None else convert(value, lenient)
    return set(), _list_converter(type)


def _list_converter(type: ListType) -> Converter:
    exact, convert = compile_check(type.elem)
    if type.elem == BaseType("Dimname"):
        # The wildcard is a name like any other.
        exact = {str, None.__class__}
    repeats = type.size if isinstance(type.elem, BaseType) and type.elem.name in _REPEATED else None
    length = type.size if type.elem == BaseType("bool") else None
    is_int = isinstance(type.elem, BaseType) and type.elem.name in ("int", "SymInt")
    if is_int:
        convert = _to_index

    def convert_list(value: object, lenient: bool) -> tuple[Any, ...] | _Mismatch:
        if not isinstance(value, tuple | list):
            if repeats is None:
                return MISMATCH
            item = convert(value, lenient)
            return MISMATCH if item is MISMATCH else (item,) * repeats
        if length is not None and len(value) != length:
            return MISMATCH
        for element in value:
            if element.__class__ not in exact:
                break
        else:
            return MISMATCH if is_int and overflows(value) else tuple(value)
        converted = tuple([convert(element, lenient) for element in value])
        if is_int and MISMATCH in converted[1:] and converted[0] is not MISMATCH:
            converted = (
                converted[0],
                *[_unpacked(element, convert(element, lenient)) for element in value[1:]],
            )
        if any(element is MISMATCH for element in converted) or (is_int and overflows(converted)):
            return MISMATCH
        return converted

    return convert_list


def _unpacked(element: Any, converted: Any) -> Any:
    """Return an element of an int list after the first. PyTorch checks only the first's type: a bool counts as an
    int.
    """
    return int(element) if element.__class__ is bool else converted


def python_type_name(type: Type) -> str:
    """Return the type's name in PyTorch's signatures and errors: `Number` for Scalar, `tuple of ints` for int[].

    >>> from triten.dispatch.schema import parse_type
    >>> from triten.dispatch.schema.type_check import python_type_name
    >>> python_type_name(parse_type("SymInt[2]?"))
    'tuple of ints'
    """
    if isinstance(type, OptionalType):
        return python_type_name(type.elem)
    if isinstance(type, ListType):
        name = base_type(type).name
        element = "Scalar" if name == "Scalar" else python_type_name(type.elem)
        return f"tuple of {element}s"
    return _CHECKS[type.name].python_name


_REDUCTIONS = {"Mean": 1, "Sum": 2}


def default_value(argument: Argument) -> Any:
    """Return the kernel's value for an omitted argument: names resolved, lists expanded.

    Raises SchemaError for a name that the type lacks: `ScalarType dtype=lnog`.

    >>> from triten.dispatch.schema import parse_schema
    >>> from triten.dispatch.schema.type_check import default_value
    >>> schema = parse_schema("f(int[2] stride=1, int reduction=Mean, Layout layout=strided) -> Tensor")
    >>> [default_value(argument) for argument in schema.arguments]
    [(1, 1), 1, triten.strided]
    """
    value = argument.default
    if value is None:
        return None
    if isinstance(value, Symbol):
        return _named_value(value, argument)
    exact, convert = compile_check(argument.type)
    return value if type(value) in exact else convert(value, False)


def _named_value(name: Symbol, argument: Argument) -> Any:
    kind = base_type(argument.type).name
    value: Any = None
    if kind in ("int", "SymInt"):
        value = _REDUCTIONS.get(name)
    elif kind == "ScalarType":
        value = scalar_type.BY_NAME.get(name)
    elif kind == "Device":
        return Device(str(name))
    elif kind == "Layout":
        candidate = getattr(layouts, name, None)
        value = candidate if isinstance(candidate, layouts.layout) else None
    elif kind == "MemoryFormat":
        candidate = getattr(memory_formats, name, None)
        value = candidate if isinstance(candidate, memory_formats.memory_format) else None
    if value is None:
        raise SchemaError(f"argument {argument.name!r}: {str(name)!r} names no {kind}")
    return value
