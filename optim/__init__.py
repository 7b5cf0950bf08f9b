"""Optimizers: what `step` does to parameters, from their gradients (`torch.optim`).

`optimizer.py` is the base: groups, state, saving. A file beside it is an algorithm. A name's module is imported with
its first use.
"""

from __future__ import annotations

from .._lazy_names import lazy_names

_PLACES = {"Adam": "adam", "AdamW": "adam", "Optimizer": "optimizer", "SGD": "sgd"}

__all__ = sorted(_PLACES)

__getattr__, __dir__ = lazy_names(__name__, __name__, _PLACES)
