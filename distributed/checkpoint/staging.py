"""Copies of states on the host, which a program may change the originals of meanwhile."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ...dispatch.layers.tensor_of_parts import TensorOfParts
from ...dispatch.tensor import Tensor

__all__ = ["staged"]


def staged(value: Any) -> Any:
    """Copy a state to the host, as a snapshot.

    Dicts, lists and tuples are traversed; other objects are copied with `copy.deepcopy`.
    """
    if isinstance(value, Tensor):
        if isinstance(value, TensorOfParts):
            held: Any = value.detach()
            return held.like([staged(each) for each in held.parts])
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: staged(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(staged(each) for each in value)
    return copy.deepcopy(value)
