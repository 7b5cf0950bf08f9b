"""Formulas of random operators."""

from __future__ import annotations


def dropout_scale(p: float, train: bool | None) -> float:
    """Return the factor by which dropout scaled the elements that it kept."""
    if train is False:
        return 1.0
    return 0.0 if p == 1 else 1.0 / (1.0 - p)
