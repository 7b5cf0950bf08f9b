"""What `Tensor.data` gives while a layer follows what a thread's program does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

followers: list[Callable[[Any], Any]] = []
"""Functions of a tensor that `data` asks, the latest first; each gives None for what is none of its thread's."""


def followed(tensor: Any) -> Any:
    """What the latest of `followers` that knows a tensor gives for its `data`; None where none does."""
    for follower in reversed(followers):
        found = follower(tensor)
        if found is not None:
            return found
    return None
