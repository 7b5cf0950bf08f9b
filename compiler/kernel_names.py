"""Names of kernels that fuse several operators."""

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
    """Return a kernel's name, joined from the names of its operators."""
    names = [call.node.target._opname.strip("_") for call in calls]
    text = "_".join(names)
    return text if len(text) <= LONGEST_NAME else f"{names[0]}_{len(names) - 2}_more_{names[-1]}"
