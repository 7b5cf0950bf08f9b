"""The order in which `einsum` contracts three or more operands, by opt_einsum if it is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

STRATEGIES = ("auto", "greedy", "optimal")


@cache
def is_available() -> bool:
    """Return whether opt_einsum is installed."""
    return importlib.util.find_spec("opt_einsum") is not None


@dataclass
class _Settings:
    """Settings of `einsum`: `enabled` asks opt_einsum, with a `strategy`."""

    enabled: bool = True
    strategy: str = "auto"


settings = _Settings()


def einsum_path(equation: str, operands: Sequence[Any]) -> tuple[int, ...] | None:
    """Return pairs of positions to contract in turn; None for the order from left to right."""
    if not (settings.enabled and is_available()):
        return None
    return _path(equation, tuple(tuple(each.shape) for each in operands), settings.strategy)


@lru_cache(maxsize=256)
def _path(equation: str, shapes: tuple[tuple[int, ...], ...], strategy: str) -> tuple[int, ...]:
    steps, _ = import_module("opt_einsum").contract_path(equation, *shapes, shapes=True, optimize=strategy)
    return tuple(position for step in steps for position in step)
