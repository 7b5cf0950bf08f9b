"""Copies of states on the host, which a program may change the originals of meanwhile."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ...dispatch.tensor import Tensor

__all__ = ["staged"]


def staged(value: Any) -> Any:
    """A copy of a state whose tensors are on the host, and stay those of now.

    Dicts, lists and tuples are followed; other objects are copied as `copy.deepcopy` does.
    """
    if isinstance(value, Tensor):
        if hasattr(value, "like") and hasattr(value, "__create_chunk_list__"):
            # A tensor of parts: its part is copied.
            return value.detach().like([staged(each) for each in value.parts])
        copied = value.detach().to("cpu", copy=True)
        return copied
    if isinstance(value, Mapping):
        return {key: staged(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(staged(each) for each in value)
    return copy.deepcopy(value)
