"""`deprecated.yaml`: calls in an old order of arguments, and the calls that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..schema import SchemaError, parse_schema
from .load import Operators, read_entries
from .model import ModelError

Deprecated = tuple[str, tuple[tuple[str, str | int], ...]]
"""An old signature, and for each argument of today's the old one's name or a number."""


def load_deprecated(path: Path, operators: Operators) -> Mapping[str, tuple[Deprecated, ...]]:
    """Read the old signatures by public name. Raises ModelError for one that matches no call of its operator."""
    packets = operators.packets()
    by_name: dict[str, list[Deprecated]] = {}
    for fields, location in read_entries(path):
        unknown = sorted(set(fields) - {"name", "aten"})
        if unknown or set(fields) != {"name", "aten"}:
            raise ModelError(f"{location}: a deprecated signature has a name and aten, not {sorted(fields)}")
        try:
            schema = parse_schema(fields["name"], str(location))
        except SchemaError as error:
            raise ModelError(str(error)) from error
        name = schema.operator_name.base_name
        called, _, rest = fields["aten"].partition("(")
        targets = [f for f in packets.get(name, ()) if f.form != "out"]
        if called != name or not targets or not rest.endswith(")"):
            raise ModelError(f"{location}: aten: {fields['aten']} is no call of an operator {name}")
        call_args = [each.strip() for each in rest[:-1].split(",")]
        arguments = targets[0].schema.arguments
        old = {a.name for a in schema.arguments}
        if len(call_args) != len(arguments) or not old <= set(call_args):
            raise ModelError(
                f"{location}: aten: {fields['aten']} does not give {targets[0].schema} its arguments"
            )
        values: list[tuple[str, str | int]] = []
        for argument, value in zip(arguments, call_args, strict=True):
            if value not in old and not value.isdigit():
                raise ModelError(f"{location}: aten: {value} is neither an argument of {schema} nor a number")
            values.append((argument.name, int(value) if value.isdigit() else value))
        by_name.setdefault(name, []).append((str(schema), tuple(values)))
    return {name: tuple(signatures) for name, signatures in by_name.items()}
