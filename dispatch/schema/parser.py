"""Parser of ATen's schema text: a tokenizer and recursive descent.

Grammar, with `,`-lists written `x,*`::

    schema   = name "(" [argument,*] ")" "->" returns
    name     = ident {"::" ident} ["." ident]
    argument = type ident ["=" default] | "*" | "..."
    type     = base [alias] {"?" | "[" [int] "]"}
    alias    = "(" sets ["!"] ["->" sets] ")" | "!"
    sets     = ("*" | ident) {"|" ("*" | ident)}
    returns  = "(" [return,*] ")" | return
    return   = type [ident] | "..."
    default  = number | string | "None" | "True" | "False" | ident | "[" [default,*] "]"

Source: torch/csrc/jit/frontend/function_schema_parser.cpp; aten/src/ATen/native/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, NoReturn, TypeVar

from .errors import SchemaError
from .function_schema import (
    NO_DEFAULT,
    AliasInfo,
    Argument,
    Default,
    DefaultElement,
    FunctionSchema,
    OperatorName,
    Return,
    Symbol,
)
from .types import BASE_TYPE_NAMES, BaseType, ListType, OptionalType, Type

_T = TypeVar("_T")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_CONSTANTS: dict[str, DefaultElement] = {
    "None": None,
    "True": True,
    "False": False,
    "inf": float("inf"),
    "nan": float("nan"),
}


@cache
def _token() -> re.Pattern[str]:
    """Return the token pattern, compiled with the first schema: `import triten` parses none."""
    return re.compile(
        r"""\s*(?:
          (?P<ident>[A-Za-z_]\w*)
        | (?P<number>-?(?:inf\b|nan\b|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))
        | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
        | (?P<symbol>\.\.\.|->|::|[()\[\]?,=*!|.])
        | (?P<end>$)
        )""",
        re.VERBOSE,
    )


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


def parse_schema(text: str, source: str | None = None) -> FunctionSchema:
    """Parse a text in ATen's schema language to a schema.

    `source` ("file:line") is kept in the schema and appears in error messages. A name without a namespace stays
    without; `FunctionSchema.with_namespace` adds one. Raises SchemaError with the position underlined.

    >>> from triten.dispatch.schema import parse_schema
    >>> schema = parse_schema("max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor a, Tensor b)")
    >>> [r.name for r in schema.returns], schema.arguments[2].default
    (['a', 'b'], False)
    """
    return _Parser(text, source).whole(_Parser.schema)


def parse_name(text: str) -> OperatorName:
    """Parse the operator's name in a text such as `aten::add.Tensor`. Raises SchemaError for anything else.

    >>> from triten.dispatch.schema import parse_name
    >>> parse_name("add.Tensor")
    OperatorName(name='add', overload='Tensor')
    """
    return _Parser(text, None).whole(_Parser.operator_name)


def parse_type(text: str) -> Type:
    """Parse the type in a text such as `int[2]?`, without an alias annotation. Raises SchemaError.

    >>> from triten.dispatch.schema import parse_type
    >>> parse_type("Tensor?[]")
    ListType(elem=OptionalType(elem=BaseType(name='Tensor')), size=None)
    """
    return _Parser(text, None).whole(_Parser.plain_type)


class _Parser:
    def __init__(self, text: str, source: str | None) -> None:
        self.text = text
        self.source = source
        self.tokens = self._tokenize()
        self.index = 0
        self.starts: dict[int, int] = {}

    def _tokenize(self) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        token = _token()
        while True:
            match = token.match(self.text, position)
            if match is None:
                start = position + len(self.text[position:]) - len(self.text[position:].lstrip())
                reason = "this string is not closed" if self.text[start] in "'\"" else "unexpected character"
                self._fail(reason, start, start + 1)
            kind = match.lastgroup or ""
            tokens.append(_Token(kind, match[kind], match.start(kind), match.end(kind)))
            if kind == "end":
                return tokens
            position = match.end()

    def _error(self, reason: str, start: int, end: int) -> SchemaError:
        line_start = self.text.rfind("\n", 0, start) + 1
        line = self.text[line_start:].partition("\n")[0]
        caret = " " * (start - line_start) + "^" * max(1, end - start)
        prefix = f"{self.source}: " if self.source else ""
        return SchemaError(f"{prefix}{reason}\n{line}\n{caret}", position=start)

    def _fail(self, reason: str, start: int, end: int) -> NoReturn:
        raise self._error(reason, start, end)

    def _fail_here(self, reason: str) -> NoReturn:
        self._fail(reason, self.token.start, self.token.end)

    @property
    def token(self) -> _Token:
        return self.tokens[self.index]

    def next(self) -> _Token:
        token = self.tokens[self.index]
        self.index += 1
        return token

    def accept(self, symbol: str) -> bool:
        token = self.token
        if token.kind == "symbol" and token.text == symbol:
            self.index += 1
            return True
        return False

    def expect(self, symbol: str) -> None:
        if not self.accept(symbol):
            self._fail_here(f"expected {symbol!r}, found {self._found()}")

    def ident(self, description: str) -> str:
        if self.token.kind != "ident":
            self._fail_here(f"expected {description}, found {self._found()}")
        return self.next().text

    def _found(self) -> str:
        return "the end of the text" if self.token.kind == "end" else repr(self.token.text)

    def whole(self, rule: Callable[[_Parser], _T]) -> _T:
        result = rule(self)
        if self.token.kind != "end":
            self._fail_here(f"expected the end of the text, found {self._found()}")
        return result

    def located(self, start: int, make: Callable[[], _T]) -> _T:
        """Build a part of the model, and report a broken rule at its position in the text."""
        try:
            return make()
        except SchemaError as error:
            raise self._error(str(error), start, self.tokens[self.index - 1].end) from None

    def schema(self) -> FunctionSchema:
        name = self.operator_name()
        arguments, is_vararg = self.arguments()
        self.expect("->")
        returns, is_varret = self.returns()
        try:
            return FunctionSchema(name, arguments, returns, is_vararg, is_varret, self.source)
        except SchemaError as error:
            error.position = self.starts.get(id(error.part), 0)
            raise

    def operator_name(self) -> OperatorName:
        name = self.ident("an operator's name")
        while self.accept("::"):
            name += "::" + self.ident("a name after '::'")
        overload = self.ident("an overload's name after '.'") if self.accept(".") else ""
        return OperatorName(name, overload)

    def arguments(self) -> tuple[tuple[Argument, ...], bool]:
        arguments: list[Argument] = []
        kwarg_only = False
        self.expect("(")
        if self.accept(")"):
            return (), False
        while True:
            if self.accept("..."):
                if not self.accept(")"):
                    self._fail_here("'...' must be the last of the arguments")
                return tuple(arguments), True
            if self.token.text == "*" and self.token.kind == "symbol":
                if kwarg_only:
                    self._fail_here("'*' stands twice")
                self.next()
                if self.token.text != ",":
                    self._fail_here("'*' must be followed by an argument")
                kwarg_only = True
            else:
                arguments.append(self.argument(kwarg_only))
            if self.accept(")"):
                return tuple(arguments), False
            self.expect(",")

    def argument(self, kwarg_only: bool) -> Argument:
        start = self.token.start
        type, alias_info = self.type()
        name = self.ident("an argument's name")
        default: Default = NO_DEFAULT
        text: str | None = None
        if self.accept("="):
            default_start = self.token.start
            default = self.default()
            text = self.text[default_start : self.tokens[self.index - 1].end]
        made = self.located(start, lambda: Argument(name, type, default, kwarg_only, alias_info, text))
        self.starts[id(made)] = start
        return made

    def returns(self) -> tuple[tuple[Return, ...], bool]:
        if self.accept("..."):
            return (), True
        if not self.accept("("):
            return (self.return_(),), False
        returns: list[Return] = []
        if self.accept(")"):
            return (), False
        while True:
            if self.accept("..."):
                if not self.accept(")"):
                    self._fail_here("'...' must be the last of the returns")
                return tuple(returns), True
            returns.append(self.return_())
            if self.accept(")"):
                return tuple(returns), False
            self.expect(",")

    def return_(self) -> Return:
        start = self.token.start
        type, alias_info = self.type()
        name = self.next().text if self.token.kind == "ident" else None
        made = Return(type, name, alias_info)
        self.starts[id(made)] = start
        return made

    def plain_type(self) -> Type:
        start = self.token.start
        type, alias_info = self.type()
        if alias_info is not None:
            self._fail("a type alone has no alias annotation", start, self.tokens[self.index - 1].end)
        return type

    def type(self) -> tuple[Type, AliasInfo | None]:
        start = self.token.start
        name = self.ident("a type")
        while name.startswith("__torch__") and self.accept("."):
            name += "." + self.ident("a class")
        if name not in BASE_TYPE_NAMES:
            self._fail(f"unknown type {name!r}", start, start + len(name))
        type: Type = BaseType(name)
        alias_info = self.alias_info()
        while True:
            elem = type
            if self.accept("?"):
                type = self.located(start, lambda elem=elem: OptionalType(elem))  # type: ignore[misc]
            elif self.accept("["):
                size = None if self.accept("]") else self.list_size()
                type = self.located(start, lambda elem=elem, size=size: ListType(elem, size))  # type: ignore[misc]
            else:
                return type, alias_info

    def list_size(self) -> int:
        if self.token.kind != "number" or not self.token.text.isdigit():
            self._fail_here(f"expected a list's size, found {self._found()}")
        size = int(self.next().text)
        self.expect("]")
        return size

    def alias_info(self) -> AliasInfo | None:
        start = self.token.start
        if self.accept("!"):
            return AliasInfo((), (), True)
        if not self.accept("("):
            return None
        before = self.alias_sets()
        is_write = self.accept("!")
        after = self.alias_sets() if self.accept("->") else before
        self.expect(")")
        return self.located(start, lambda: AliasInfo(before, after, is_write))

    def alias_sets(self) -> tuple[str, ...]:
        sets: list[str] = []
        while True:
            sets.append("*" if self.accept("*") else self.ident("an alias set"))
            if not self.accept("|"):
                return tuple(sets)

    def default(self) -> Default:
        if not self.accept("["):
            return self.default_element()
        values: list[DefaultElement] = []
        if self.accept("]"):
            return ()
        while True:
            values.append(self.default_element())
            if self.accept("]"):
                return tuple(values)
            self.expect(",")

    def default_element(self) -> DefaultElement:
        kind, text, _, _ = self.token
        if kind == "number":
            self.index += 1
            return int(text) if text.lstrip("-").isdigit() else float(text)
        if kind == "string":
            self.index += 1
            return _ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[1]), text[1:-1])
        if kind == "ident":
            self.index += 1
            return _CONSTANTS[text] if text in _CONSTANTS else Symbol(text)
        self._fail_here(f"expected a default value, found {self._found()}")
