"""Model of operator signatures: records that round-trip to ATen's text."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ...runtime.fork_lock import cached_property
from ...runtime.record import Record
from .types import Type
from .validation import check_alias_info, check_argument, check_schema

if TYPE_CHECKING:
    from .signature import Signature

SchemaKind: TypeAlias = Literal["functional", "inplace", "out", "mutable"]


class Symbol(str):
    """Default value that is a name: `contiguous_format`, `Mean`, `long`, `strided`.

    >>> from triten.dispatch.schema import parse_schema
    >>> parse_schema("f(Tensor self, int reduction=Mean) -> Tensor").arguments[1].default
    Symbol('Mean')
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({str(self)!r})"


class _NoDefault:
    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_DEFAULT"

    def __reduce__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()

DefaultElement: TypeAlias = int | float | bool | str | None
Default: TypeAlias = DefaultElement | tuple[DefaultElement, ...] | _NoDefault


def format_default(value: Default) -> str:
    """Return the text of a default value in the schema language, with strings in double quotes.

    >>> from triten.dispatch.schema import format_default
    >>> format_default((0, 1)), format_default(1e-05), format_default("mean")
    ('[0, 1]', '1e-05', '"mean"')
    """
    if isinstance(value, tuple):
        return "[" + ", ".join(format_default(v) for v in value) + "]"
    if isinstance(value, str) and not isinstance(value, Symbol):
        escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
        return '"' + "".join(escapes.get(c, c) for c in value) + '"'
    return str(value)


class OperatorName(Record):
    """Name of an operator, with its namespace if given, and of its overload, empty for the default overload.

    >>> from triten.dispatch.schema import parse_name
    >>> name = parse_name("aten::add.Tensor")
    >>> name.namespace, name.base_name, name.overload, str(name)
    ('aten', 'add', 'Tensor', 'aten::add.Tensor')
    """

    name: str
    overload: str = ""

    @property
    def namespace(self) -> str:
        """The part before `::`; empty for a name without one."""
        namespace, separator, _ = self.name.rpartition("::")
        return namespace if separator else ""

    @property
    def base_name(self) -> str:
        """The name without namespace and overload: `add_` of `aten::add_.Tensor`."""
        return self.name.rpartition("::")[2]

    def with_namespace(self, namespace: str) -> OperatorName:
        """Return the name with a namespace, unless it already has one."""
        return self if self.namespace else OperatorName(f"{namespace}::{self.name}", self.overload)

    def __str__(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name


class AliasInfo(Record):
    """Alias annotation of a tensor: `(a)`, `(a!)` if written, `(a|b)`, `(a -> *)` if the call changes its alias set.

    `after_set` is the annotation after the arrow; without an arrow it equals `before_set`. `*` is the wildcard: any
    memory. Both are empty for `Tensor!`, which is written and shares memory with no other argument.

    >>> from triten.dispatch.schema import parse_schema
    >>> parse_schema("chunk(Tensor(a -> *) self, int chunks) -> Tensor(a)[]").arguments[0].alias_info
    AliasInfo(before_set=('a',), after_set=('*',), is_write=False)
    """

    before_set: tuple[str, ...]
    after_set: tuple[str, ...]
    is_write: bool = False

    def _check(self) -> None:
        check_alias_info(self)

    @property
    def is_wildcard(self) -> bool:
        """True for the annotation `(*)`: the tensor may alias any memory."""
        return "*" in self.before_set

    def __str__(self) -> str:
        if not self.before_set:
            return "!"
        before = "|".join(self.before_set) + ("!" if self.is_write else "")
        return (
            f"({before})"
            if self.after_set == self.before_set
            else f"({before} -> {'|'.join(self.after_set)})"
        )


def local_name(name: str) -> str:
    """Return the name of an argument in generated code.

    >>> local_name("self"), local_name("from"), local_name("other")
    ('self_', 'from_', 'other')
    """
    return f"{name}_" if name == "self" or keyword.iskeyword(name) else name


class Argument(Record):
    """One argument. `default_text` is the default as written, which keeps quotes and exponents.

    Two arguments are equal if they mean the same: `'a'` is `"a"`, but `Scalar x=1` is not `Scalar x=1.0`. Raises
    SchemaError for an alias annotation on a non-tensor, and for a default that does not fit the type.

    >>> from triten.dispatch.schema import parse_schema
    >>> argument = parse_schema("mm(Tensor self, *, Tensor(a!) out) -> Tensor(a!)").out_arguments[0]
    >>> argument.name, str(argument.type), argument.is_out, argument.has_default
    ('out', 'Tensor', True, False)
    """

    name: str
    type: Type
    default: Default = NO_DEFAULT
    kwarg_only: bool = False
    alias_info: AliasInfo | None = None
    default_text: str | None = None

    def _check(self) -> None:
        check_argument(self)

    @property
    def has_default(self) -> bool:
        """True if a call may omit the argument."""
        return self.default is not NO_DEFAULT

    @property
    def is_write(self) -> bool:
        """True if the operator writes to the argument."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """True if the argument receives a result: keyword-only and written."""
        return self.kwarg_only and self.is_write

    def _key(self) -> tuple[object, ...]:
        default = format_default(self.default) if self.has_default else None
        return self.name, self.type, default, self.kwarg_only, self.alias_info

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Argument) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        text = f"{self.type.format(str(self.alias_info or ''))} {self.name}"
        if not self.has_default:
            return text
        return (
            f"{text}={self.default_text if self.default_text is not None else format_default(self.default)}"
        )


class Return(Record):
    """One returned value; `name` is None for an unnamed one."""

    type: Type
    name: str | None = None
    alias_info: AliasInfo | None = None

    def __str__(self) -> str:
        text = self.type.format(str(self.alias_info or ""))
        return f"{text} {self.name}" if self.name else text


class FunctionSchema(Record):
    """Signature of an operator; `str()` returns ATen's text of it.

    `source` is the location of the text ("file:line"); it is ignored in comparisons. The constructor raises
    SchemaError for schemas that `checkSchema` and PyTorch reject (see `validation.check_schema`).

    >>> from triten.dispatch.schema import parse_schema
    >>> text = "add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
    >>> schema = parse_schema(text)
    >>> schema.kind, [a.name for a in schema.positional_arguments], [a.name for a in schema.out_arguments]
    ('out', ['self', 'other'], ['out'])
    >>> str(schema) == text
    True
    """

    uncompared = frozenset({"source"})

    operator_name: OperatorName
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]
    is_vararg: bool = False
    is_varret: bool = False
    source: str | None = None

    def _check(self) -> None:
        check_schema(self)

    @property
    def name(self) -> str:
        """The operator's name with its namespace, without the overload."""
        return self.operator_name.name

    @property
    def overload_name(self) -> str:
        """The overload's name, empty for the default one."""
        return self.operator_name.overload

    @cached_property
    def positional_arguments(self) -> tuple[Argument, ...]:
        """The arguments that a call may give by position."""
        return tuple(a for a in self.arguments if not a.kwarg_only)

    @cached_property
    def kwarg_only_arguments(self) -> tuple[Argument, ...]:
        """The arguments after `*`, out arguments included."""
        return tuple(a for a in self.arguments if a.kwarg_only)

    @cached_property
    def out_arguments(self) -> tuple[Argument, ...]:
        """The keyword-only arguments that the operator writes to."""
        return tuple(a for a in self.arguments if a.is_out)

    @cached_property
    def is_mutable(self) -> bool:
        """True if the operator writes to any of its arguments."""
        return any(a.is_write for a in self.arguments)

    @property
    def is_inplace(self) -> bool:
        """True for an in-place name, `add_` or `__iadd__`, whose first argument is written."""
        base = self.operator_name.base_name
        if base.startswith("__") and base.endswith("__"):
            named_so = base.startswith("__i") and base not in ("__int__", "__index__", "__invert__")
        else:
            named_so = base.endswith("_")
        return (
            named_so and bool(self.arguments) and self.arguments[0].is_write and not self.arguments[0].is_out
        )

    @cached_property
    def kind(self) -> SchemaKind:
        """`out` if written keyword-only arguments are results; else `inplace`, `mutable` or `functional`."""
        returned = {s for r in self.returns if r.alias_info for s in r.alias_info.before_set}
        outs = self.out_arguments
        if outs and (not self.returns or any(returned.intersection(_before_set(a)) for a in outs)):
            return "out"
        if self.is_inplace:
            return "inplace"
        return "mutable" if self.is_mutable else "functional"

    @cached_property
    def signature(self) -> Signature:
        """The argument parser compiled from this schema on the first call."""
        from .signature import Signature

        return Signature(self)

    @cached_property
    def usual_values(self) -> tuple[tuple[Argument, bool, Any], ...]:
        """The arguments, each with whether it has a default and the value that the kernel then receives."""
        from .type_check import default_value

        return tuple(
            [(a, a.has_default, default_value(a) if a.has_default else None) for a in self.arguments]
        )

    def with_namespace(self, namespace: str) -> FunctionSchema:
        """Return the schema with its name in a namespace, unless the name already has one."""
        return self.replaced(operator_name=self.operator_name.with_namespace(namespace))

    def __str__(self) -> str:
        parts: list[str] = []
        for argument in self.arguments:
            if argument.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(argument))
        if self.is_vararg:
            parts.append("...")
        return f"{self.operator_name}({', '.join(parts)}) -> {self._format_returns()}"

    def _format_returns(self) -> str:
        returns = [str(r) for r in self.returns] + (["..."] if self.is_varret else [])
        return returns[0] if len(returns) == 1 else f"({', '.join(returns)})"


def _before_set(argument: Argument) -> tuple[str, ...]:
    return argument.alias_info.before_set if argument.alias_info else ()
