"""Pieces of Triton source."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ...dispatch.layers.graph.graph import Node
from ...runtime.cuda.triton.lazy_triton import NAMES


def type_text(type_: Any) -> str:
    """Return a Triton type as source."""
    return f"tl.{NAMES.get(type_.name, type_.name)}"


def number_text(value: float | int) -> str:
    """Return a number as source."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def step_text(node: Node, values: Mapping[Node, str]) -> str:
    """Return a step without sizes, in the program's own names, so that equal steps of a graph have one text."""
    names = {node.name: name for node, name in values.items()}
    text = node.format_node().partition(" = ")[2]
    return re.sub(r"%(\w+)", lambda found: names.get(found[1], found[0]), text)
