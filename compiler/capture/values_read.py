"""Reads of values of held tensors: a graph would keep the number, while the tensor changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.layers.functionalization.layer import FunctionalTensor
from ...dispatch.layers.graph.make_graph import TracedTensor
from ...dispatch.tensor import Tensor
from .stand_ins import StandIns

READERS = ("item", "host_array", "numpy")
"""Functions that return a tensor's elements to Python; `float`, `bool`, `tolist`, `print` and others call one
of them."""


def refuse_reads(stand_ins: StandIns, refuse: Callable[[Any], None]) -> None:
    """Call a function, which may raise, with each tensor whose elements are read, except fake tensors.

    Fake tensors refuse by themselves, and a stand-in of a tensor reads the tensor.

    Args:
        stand_ins: Stand-ins that activate and end this.
        refuse: The function.
    """

    def refusing(read: Callable[..., Any]) -> Callable[..., Any]:
        def refused(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(tensor, TracedTensor | FunctionalTensor):
                refuse(tensor)
            return read(tensor, *args, **kwargs)

        return refused

    for name in READERS:
        stand_ins.replace_function(Tensor, name, refusing)
