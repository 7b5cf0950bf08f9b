"""Types of an operator's arguments and returns in ATen's schema language."""

from __future__ import annotations

from typing import Final, TypeAlias

from ...runtime.record import Record
from .errors import SchemaError

BASE_TYPE_NAMES: Final[frozenset[str]] = (
    frozenset(
        {
            "Any",
            "Device",
            "DeviceIndex",
            "Dimname",
            "Generator",
            "Layout",
            "MemoryFormat",
            "QScheme",
            "Scalar",
            "ScalarType",
            "Storage",
            "Stream",
            "SymBool",
            "SymInt",
            "Tensor",
            "bool",
            "float",
            "int",
            "str",
        }
    )
    | frozenset(
        f"__torch__.torch.classes.quantized.{kind}PackedParamsBase" for kind in ("Linear", "Conv2d", "Conv3d")
    )
    | frozenset(f"__torch__.torch.classes.c10d.{kind}" for kind in ("ProcessGroup", "Work"))
)
"""The last five are classes of packed weights (`dispatch/layers/quantized/packed.py`) and of `distributed`."""


class BaseType(Record):
    """Type without parameters, identified by its name in the schema language.

    `SymInt` and `SymBool` behave as `int` and `bool`; the names are kept so that a schema's text round-trips. Raises
    SchemaError for an unknown name.

    >>> from triten.dispatch.schema import BaseType
    >>> str(BaseType("ScalarType"))
    'ScalarType'
    """

    name: str

    def _check(self) -> None:
        if self.name not in BASE_TYPE_NAMES:
            raise SchemaError(f"unknown type {self.name!r}; the base types are {sorted(BASE_TYPE_NAMES)}")

    def format(self, annotation: str = "") -> str:
        """Return the type's text with an alias annotation, such as `(a!)`, after the base name."""
        return self.name + annotation

    def __str__(self) -> str:
        return self.format()


class OptionalType(Record):
    """`T?`: a T or None. Raises SchemaError for `T??`.

    >>> from triten.dispatch.schema import BaseType, OptionalType
    >>> str(OptionalType(BaseType("Generator")))
    'Generator?'
    """

    elem: BaseType | ListType

    def _check(self) -> None:
        if isinstance(self.elem, OptionalType):
            raise SchemaError(f"{self.elem}? is optional twice")

    def format(self, annotation: str = "") -> str:
        """Return the type's text with an alias annotation after the base name."""
        return self.elem.format(annotation) + "?"

    def __str__(self) -> str:
        return self.format()


class ListType(Record):
    """`T[]`, or `T[n]`: a list of T. A sized list of numbers also accepts one number, repeated n times.

    Raises SchemaError for a size below 1 and for a list of lists.

    >>> from triten.dispatch.schema import BaseType, ListType, OptionalType
    >>> str(OptionalType(ListType(BaseType("SymInt"), 2)))
    'SymInt[2]?'
    """

    elem: BaseType | OptionalType
    size: int | None = None

    def _check(self) -> None:
        inner = self.elem.elem if isinstance(self.elem, OptionalType) else self.elem
        if isinstance(inner, ListType):
            raise SchemaError(f"{self.elem}[] is a list of lists, which the schema language does not have")
        if self.size is not None and self.size < 1:
            raise SchemaError(f"a list's size must be at least 1, not {self.size}")

    def format(self, annotation: str = "") -> str:
        """Return the type's text with an alias annotation after the base name."""
        return f"{self.elem.format(annotation)}[{'' if self.size is None else self.size}]"

    def __str__(self) -> str:
        return self.format()


Type: TypeAlias = BaseType | OptionalType | ListType


def base_type(type: Type) -> BaseType:
    """Return a type without its `?` and `[]`.

    >>> from triten.dispatch.schema import BaseType, ListType, OptionalType
    >>> str(base_type(ListType(OptionalType(BaseType("Tensor")))))
    'Tensor'
    """
    while not isinstance(type, BaseType):
        type = type.elem
    return type


def is_list_type(type: Type) -> bool:
    """Return True for the type of a list, optional or not.

    >>> from triten.dispatch.schema import BaseType, ListType, OptionalType
    >>> is_list_type(OptionalType(ListType(BaseType("Tensor")))), is_list_type(BaseType("Tensor"))
    (True, False)
    """
    return isinstance(type.elem if isinstance(type, OptionalType) else type, ListType)


def is_tensor_like(type: Type) -> bool:
    """Return whether values of the type are tensors, optional tensors or lists of either."""
    return base_type(type).name == "Tensor"
