"""Pieces of Triton source."""

from __future__ import annotations

from typing import Any

from ...runtime.cuda.triton.lazy_triton import NAMES


def type_text(type_: Any) -> str:
    """A Triton type as source."""
    return f"tl.{NAMES.get(type_.name, type_.name)}"
