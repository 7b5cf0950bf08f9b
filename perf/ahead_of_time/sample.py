"""Definition of samples, and helpers that create their tensors."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

tt: Any = importlib.import_module("...", __package__)


class Sample(NamedTuple):
    """A call.

    Args:
        label: operator, dtype, layout.
        run: makes the call.
        wide: names of kernels that access their operands 128 bits at a time here.
        refused: True if the target must refuse it.
    """

    label: str
    run: Callable[[], object]
    wide: tuple[str, ...] = ()
    refused: bool = False


FLOATING = ("float32", "float64", "float16", "bfloat16")
INTEGRAL = ("int32", "int64", "int8", "int16", "uint8", "uint16", "uint32", "uint64")
NUMBERS = (*FLOATING, *INTEGRAL, "bool")
SIZES = {1: "uint8", 2: "bfloat16", 4: "float32", 8: "float64"}
"""A dtype of each size: kernels that only move elements tell no others apart."""


def empty(*sizes: int, dtype: str = "float32", offset: int = 0, last: bool = False) -> Any:
    """Return a CUDA tensor; `offset` elements make it unaligned, `last` makes it channels-last."""
    numel = tt.empty(sizes, device="meta").numel()
    flat = tt.empty((offset + numel,), dtype=getattr(tt, dtype), device="cuda")[offset:]
    if last:
        n, c, h, w = sizes
        return flat.view((n, h, w, c)).permute(0, 3, 1, 2)
    return flat.view(sizes)


def gradients(function: Callable[..., Any], *inputs: Any) -> None:
    """Forward and backward."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    result = function(*leaves)
    result.backward(tt.empty(result.shape, dtype=result.dtype, device="cuda"))
