"""`Signature`: a schema compiled for binding calls, once for each schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .function_schema import FunctionSchema
from .numpy_names import NUMPY_NAMES
from .type_check import MISMATCH, CompiledCheck, Converter, compile_check, default_value
from .types import BaseType, ListType, OptionalType, Type, base_type

REQUIRED: Final = object()
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1


class Signature:
    """Call parser of one schema; `FunctionSchema.signature` creates and caches it.

    A first argument named `self` may be given as `input=`. ATen's operators accept NumPy's `axis`, `keepdims`, `x`,
    `a`, `x1`, `x2`, unless they have an argument of that name.
    """

    __slots__ = (
        "_checks",
        "_defaults",
        "_integers",
        "_least",
        "_positional",
        "_scalars",
        "_tails",
        "index_of",
        "schema",
        "takes_names",
    )

    def __init__(self, schema: FunctionSchema) -> None:
        arguments = schema.arguments
        self.schema = schema
        self.index_of = _keyword_indices(schema)
        self._checks: list[CompiledCheck] = []
        for argument in arguments:
            exact, convert = compile_check(argument.type)
            if argument.default is None:
                convert = _or_none(convert)
            elif argument.default == ():
                convert = _or_empty(convert)
            self._checks.append((exact, convert))
        self._defaults = [default_value(a) if a.has_default else REQUIRED for a in arguments]
        # Beyond 64 bits, lists of integers do not match, and `check_range` rejects single ones.
        self._integers = [i for i, a in enumerate(arguments) if _is_integer(a.type)]
        self._scalars = [i for i, a in enumerate(arguments) if base_type(a.type).name == "Scalar"]
        self.takes_names = any(base_type(a.type).name == "Dimname" for a in arguments)
        self._positional = len(schema.positional_arguments)
        self._least = max((i + 1 for i, a in enumerate(arguments) if not a.has_default), default=0)
        # The values that complete a call with n positional arguments and no keywords.
        self._tails = [tuple(self._defaults[n:]) for n in range(len(arguments) + 1)]

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, lenient: bool = True
    ) -> tuple[Any, ...] | None:
        """Return the values of all arguments in the schema's order, or None if the call does not fit.

        Lists become tuples, numbers Python's own. With `lenient`, a tensor without dimensions that does not require
        grad may stand for a number. The values of `...` follow those of the arguments.
        """
        count = len(args)
        if count > self._positional and not self.schema.is_vararg:
            return None
        if not kwargs and count < self._least:
            return None
        values: list[Any] = []
        for value, (exact, convert) in zip(args, self._checks, strict=False):
            if value.__class__ not in exact:
                value = convert(value, lenient)
                if value is MISMATCH:
                    return None
            values.append(value)
        if kwargs:
            return self._bind_keywords(values, args, kwargs, lenient)
        if count > self._positional:
            return (*values, *args[self._positional :])
        return (*values, *self._tails[count])

    def _bind_keywords(
        self, values: list[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], lenient: bool
    ) -> tuple[Any, ...] | None:
        num_positional = len(values)
        values += self._defaults[num_positional:]
        taken: set[int] = set()
        for name, value in kwargs.items():
            index = self.index_of.get(name)
            if index is None or index < num_positional or index in taken:
                return None
            taken.add(index)
            exact, convert = self._checks[index]
            if value.__class__ not in exact:
                value = convert(value, lenient)
                if value is MISMATCH:
                    return None
            values[index] = value
        if self._least > num_positional and any(value is REQUIRED for value in values):
            return None
        return (*values, *args[num_positional:])

    def check_range(self, bound: Sequence[Any]) -> None:
        """Raise an error for bound integers that do not fit into 64 bits.

        Raises:
            ValueError: for one in an integer's place.
            OverflowError: for one in a number's place, where it may be as large as an unsigned one.
        """
        for index in self._integers:
            value = bound[index]
            if value.__class__ is tuple and value:
                value = value[0]
            if value.__class__ is int and not _LEAST <= value <= _MOST:
                name = self.schema.arguments[index].name
                raise ValueError(
                    f"Overflow when unpacking long long: {self.schema.operator_name.base_name}(): argument "
                    f"'{name}' must be in [{_LEAST}, {_MOST}], not {value}"
                )

        for index in self._scalars:
            value = bound[index]
            if value.__class__ is int and not _LEAST <= value <= 2 * _MOST + 1:
                name = self.schema.arguments[index].name
                raise OverflowError(
                    f"{self.schema.operator_name.base_name}(): argument '{name}': {value} does not fit into 64 bits"
                )

    def accepts(self, index: int, value: object) -> bool:
        """Return whether a value fits the argument at `index`; a fitting tensor may stand for a number."""
        exact, convert = self._checks[index]
        return value.__class__ in exact or convert(value, True) is not MISMATCH


def _is_integer(type: Type) -> bool:
    """Return whether an argument accepts one integer, also for a list of equal ones or as an optional."""
    if isinstance(type, OptionalType):
        return _is_integer(type.elem)
    if isinstance(type, ListType) and type.size is not None:
        return _is_integer(type.elem)
    return isinstance(type, BaseType) and type.name in ("int", "SymInt", "DeviceIndex")


def _or_none(convert: Converter) -> Converter:
    return lambda value, lenient: None if value is None else convert(value, lenient)


def _or_empty(convert: Converter) -> Converter:
    """Wrap a converter so that None becomes a list's empty default, as in ``amax(dim=None)``."""
    return lambda value, lenient: () if value is None else convert(value, lenient)


def _keyword_indices(schema: FunctionSchema) -> dict[str, int]:
    indices = {a.name: i for i, a in enumerate(schema.arguments)}
    if schema.arguments and schema.arguments[0].name == "self":
        indices.setdefault("input", 0)
    if schema.operator_name.namespace in ("", "aten"):
        for name, numpy_names in NUMPY_NAMES.items():
            if name in indices:
                for numpy_name in numpy_names:
                    indices.setdefault(numpy_name, indices[name])
    return indices
