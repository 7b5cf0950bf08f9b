"""Optimizers: what `step` does to parameters, from their gradients (`torch.optim`).

`optimizer.py` is the base: groups, state, saving. A file beside it is an algorithm. A name's module is imported with
its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PLACES = {"Adam": "adam", "AdamW": "adam", "Optimizer": "optimizer", "SGD": "sgd"}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{place}", __package__), name)
    return found


def __dir__() -> list[str]:
    return __all__
