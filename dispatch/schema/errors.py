"""The error of the schema language."""

from __future__ import annotations


class SchemaError(RuntimeError):
    """Error for a malformed schema text, or a declaration that is not allowed.

    The message names the schema, the position in the text if known, and the file and line of the text. `position` is
    an index into the text, None for a schema without text. `part` is the argument or return that breaks a rule, if
    any.

    >>> from triten.dispatch.schema import parse_schema
    >>> parse_schema("relu(Tensr self) -> Tensor", source="relu.yaml:3")
    Traceback (most recent call last):
        ...
    triten.dispatch.schema.errors.SchemaError: relu.yaml:3: unknown type 'Tensr' relu(Tensr self) -> Tensor
         ^^^^^
    """

    def __init__(self, message: str, *, position: int | None = None, part: object = None) -> None:
        super().__init__(message)
        self.position = position
        self.part = part
