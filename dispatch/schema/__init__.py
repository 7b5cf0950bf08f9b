"""The schema language: what an operator's signature is, how it is read, checked and bound to a call.

Here live the types (`types`), the model (`function_schema`), the parser of ATen's text (`parser`), the rules
that a schema keeps (`validation`), the check of a value against a type (`type_check`), the binding of a call
(`signature`, `binding`; `mismatch` says why one fails) and schemas from Python type hints (`inference`). All
that is re-exported below may be imported from here. Nothing here knows a dispatcher, a kernel or an operator.
"""

from .binding import bind, gathered, matches, mismatch_reason, resolve
from .errors import SchemaError
from .function_schema import (
    NO_DEFAULT,
    AliasInfo,
    Argument,
    FunctionSchema,
    OperatorName,
    Return,
    SchemaKind,
    Symbol,
    format_default,
)
from .inference import infer_schema
from .parser import parse_name, parse_schema, parse_type
from .signature import Signature
from .type_check import register_exact_type, register_type_check
from .types import BaseType, ListType, OptionalType, Type, base_type, is_tensor_like

__all__ = [
    "NO_DEFAULT",
    "AliasInfo",
    "Argument",
    "BaseType",
    "FunctionSchema",
    "ListType",
    "OperatorName",
    "OptionalType",
    "Return",
    "SchemaError",
    "SchemaKind",
    "Signature",
    "Symbol",
    "Type",
    "base_type",
    "bind",
    "format_default",
    "gathered",
    "infer_schema",
    "is_tensor_like",
    "matches",
    "mismatch_reason",
    "parse_name",
    "parse_schema",
    "parse_type",
    "register_exact_type",
    "register_type_check",
    "resolve",
]
