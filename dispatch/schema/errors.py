"""The error of the schema language."""

from __future__ import annotations


class SchemaError(RuntimeError):
    """A schema's text is malformed, or what it declares is not allowed.

    The message names the schema, the place in the text where that is known, and the file and line that the
    text came from.

    >>> from triten.dispatch.schema import parse_schema
    >>> parse_schema("relu(Tensr self) -> Tensor", source="relu.yaml:3")
    Traceback (most recent call last):
        ...
    triten.dispatch.schema.errors.SchemaError: relu.yaml:3: unknown type 'Tensr'
    relu(Tensr self) -> Tensor
         ^^^^^
    """
