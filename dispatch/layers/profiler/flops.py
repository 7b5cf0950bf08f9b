"""Floating-point operations of operators, estimated from the sizes of their arguments (torch/csrc/profiler/util.cpp).

A multiplication and an addition are two operations. Operators that call a counted one are not counted themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from ....runtime.tensor_impl import TensorImpl


def flops_of(name: str, args: Sequence[Any]) -> int:
    """Return the estimate for a call; 0 for an operator that is not counted.

    Args:
        name: The operator's name, without its overload.
        args: The arguments in the schema's order.
    """
    formula = FORMULAS.get(name)
    return 0 if formula is None else formula(args)


def _sizes(value: Any) -> tuple[int, ...]:
    return value._spec.sizes if isinstance(value, TensorImpl) else ()


def _matmul(first: int) -> Callable[[Sequence[Any]], int]:
    """Return the formula of a matmul whose left operand is argument `first`."""

    def count(args: Sequence[Any]) -> int:
        return 2 * prod(_sizes(args[first])) * _sizes(args[first + 1])[-1]

    return count


def _pointwise(args: Sequence[Any]) -> int:
    return prod(_sizes(args[0]))


def _conv2d(args: Sequence[Any]) -> int:
    input, weight, _, stride, padding, dilation, _ = args
    *batch, _, height, width = _sizes(input)
    out_channels, in_channels_per_group, *kernel = _sizes(weight)
    stride, dilation = (list(each) * 2 if len(each) == 1 else each for each in (stride, dilation))
    if isinstance(padding, str):
        total = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation, strict=True)]
    else:
        total = [2 * each for each in (list(padding) * 2 if len(padding) == 1 else padding)]
    out = [
        (n + p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip((height, width), total, dilation, kernel, stride, strict=True)
    ]
    count: int = 2 * prod((*batch, *out, out_channels, in_channels_per_group, *kernel))
    return count


FORMULAS: Mapping[str, Callable[[Sequence[Any]], int]] = {
    "aten::add": _pointwise,
    "aten::addmm": _matmul(1),
    "aten::baddbmm": _matmul(1),
    "aten::bmm": _matmul(0),
    "aten::conv2d": _conv2d,
    "aten::mm": _matmul(0),
    "aten::mul": _pointwise,
}
"""The formula of each operator that is counted."""
