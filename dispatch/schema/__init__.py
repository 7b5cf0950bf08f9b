"""Schema language: parsing, validation and type checks of operator signatures, and binding of calls.

- `types` and `function_schema` are the model; `parser` reads ATen's text; `validation` holds the rules of schemas.
- `type_check` checks a value against a type; `signature` and `binding` bind calls; `mismatch` explains failures.
- `inference` derives schemas from Python type hints.

All names re-exported below may be imported from here. This folder does not depend on the dispatcher, kernels or
operators.
"""

from .binding import (
    bind,
    bind_operator,
    gathered,
    matches,
    mismatch_reason,
    resolve,
    resolve_operator,
)
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
    "bind_operator",
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
    "resolve_operator",
]
