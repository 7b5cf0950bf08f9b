"""The error of the schema language."""

from __future__ import annotations


class SchemaError(RuntimeError):
    """A schema's text is malformed, or what it declares is not allowed.

    The message names the schema, the place in the text where that is known, and the file and line that the
    text came from. `position` is the place as an index into the text, None for what was never text; `part` the
    argument or return that breaks a rule, where it is one.

    >>> from triten.dispatch.schema import parse_schema
    >>> parse_schema("relu(Tensr self) -> Tensor", source="relu.yaml:3")
    Traceback (most recent call last):
        ...
    triten.dispatch.schema.errors.SchemaError: relu.yaml:3: unknown type 'Tensr'
    relu(Tensr self) -> Tensor
         ^^^^^
    """

    def __init__(self, message: str, *, position: int | None = None, part: object = None) -> None:
        super().__init__(message)
        self.position = position
        self.part = part
