"""Networks of linear layers."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import Any


def perceptron(library: ModuleType, widths: tuple[int, ...]) -> Any:
    """Return linear layers of these widths with ReLU between them."""
    nn = library.nn
    layers = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
