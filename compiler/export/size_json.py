"""Expressions of sizes as JSON, and back: a number, the terms of a sum, or an operation with its operands."""

from __future__ import annotations

from typing import Any

from ..dynamic_shapes.size_expressions import OPERATIONS, ComputedSize, Number, SizeExpression


def number_to_json(number: Number) -> Any:
    """Return a number as JSON.

    Example:
        >>> from triten.compiler.dynamic_shapes.size_expressions import ComputedSize, SizeExpression
        >>> from triten.compiler.export.size_json import number_to_json
        >>> number_to_json(ComputedSize("floordiv", (SizeExpression({("n",): 1}), 2)))
        {'floordiv': [[[['n'], 1]], 2]}
    """
    if isinstance(number, int):
        return number
    if isinstance(number, SizeExpression):
        return [[list(product), coefficient] for product, coefficient in number.coefficients.items()]
    return {number.operation: [number_to_json(each) for each in number.operands]}


def number_from_json(described: Any) -> Number:
    """Return the number of JSON. Raise ValueError, TypeError or KeyError for invalid JSON."""
    if described.__class__ is int:
        return int(described)
    if isinstance(described, list):
        return SizeExpression({tuple(product): int(coefficient) for product, coefficient in described})
    ((operation, operands),) = described.items()
    if operation not in OPERATIONS:
        raise ValueError(f"the operation {operation!r}")
    if len(operands) != (1 if operation == "neg" else 2):
        raise ValueError(f"the operands of {operation!r}")
    return ComputedSize(operation, tuple([number_from_json(each) for each in operands]))
