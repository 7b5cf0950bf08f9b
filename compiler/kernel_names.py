"""What a kernel of several operators is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..dispatch.layers.graph.graph import Node

LONGEST_NAME = 60


class _Call(Protocol):
    """A step that is an operator's call."""

    @property
    def node(self) -> Node:
        """The step in its graph."""


def joined_name(calls: Sequence[_Call]) -> str:
    """The names of operators as that of a kernel."""
    names = [call.node.target._opname.strip("_") for call in calls]
    text = "_".join(names)
    return text if len(text) <= LONGEST_NAME else f"{names[0]}_{len(names) - 2}_more_{names[-1]}"
