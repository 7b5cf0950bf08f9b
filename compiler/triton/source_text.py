"""Pieces of Triton source."""

from __future__ import annotations

import math
from typing import Any

from ...runtime.cuda.triton.lazy_triton import NAMES


def type_text(type_: Any) -> str:
    """A Triton type as source."""
    return f"tl.{NAMES.get(type_.name, type_.name)}"


def number_text(value: float | int) -> str:
    """A number as source."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
