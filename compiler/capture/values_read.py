"""Values of tensors that a function holds: a graph would keep the number that was read, and the tensor changes."""

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
    """Have a function be called, which may raise, with each tensor whose elements are read, but for fake ones.

    Those refuse by themselves, and what stands for a tensor reads that one.

    Args:
        stand_ins: begins and ends it.
        refuse: the function.
    """

    def refusing(read: Callable[..., Any]) -> Callable[..., Any]:
        def refused(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(tensor, TracedTensor | FunctionalTensor):
                refuse(tensor)
            return read(tensor, *args, **kwargs)

        return refused

    for name in READERS:
        stand_ins.replace_function(Tensor, name, refusing)
