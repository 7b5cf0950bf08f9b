"""`Tensor.data` of a tensor that the function holds: as a step of the graph, like that of an argument.

Eagerly it is a new tensor over the same bytes. To a graph that would be a tensor made of numbers: what is written to it
would be lost.

before, in a function that holds ``w``::

    w.data.clamp_(0, 1)                 # a tensor that nobody knows is written to

after::

    %clamp = clamp(%held_0, 0, 1)       # `w`, whose version stays what it is
    copy_(%held_0, %clamp)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...dispatch.layers.functionalization.layer import FunctionalTensor, Layer, layers
from ...dispatch.layers.graph.make_graph import TracedTensor
from ...dispatch.tensor import Tensor
from ...nn.modules.parameter import Parameter


@contextmanager
def handles_of_data(layer: Layer) -> Iterator[None]:
    """Have `data` of a tensor from outside be a handle of this layer while a thread's operators run in it."""
    before = [(cls, vars(cls).get("data")) for cls in (Tensor, Parameter)]
    made = [(cls, _property(layer, cls.data)) for cls in (Tensor, Parameter)]  # type: ignore[arg-type]
    try:
        for cls, own in made:
            cls.data = own  # type: ignore[assignment,method-assign]
        yield
    finally:
        for cls, kept in before:
            if kept is not None:
                cls.data = kept  # type: ignore[method-assign]
            elif "data" in vars(cls):
                del cls.data


def _property(layer: Layer, original: property) -> property:
    def data(tensor: Any) -> Any:
        active = layers.active
        if not active or active[-1] is not layer or isinstance(tensor, TracedTensor | FunctionalTensor):
            return original.__get__(tensor)
        handle = layer.handle_of(tensor)
        return FunctionalTensor.from_data(handle._data, handle._spec.detached)

    return property(data, original.__set__)
