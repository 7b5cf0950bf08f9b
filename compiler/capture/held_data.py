"""`Tensor.data` of a tensor that the function holds, as a step of the graph, like that of an argument.

Eagerly it is a new tensor over the same bytes. To a graph it would be a constant tensor, and writes to it would be
lost.

before, in a function that holds ``w``::

    w.data.clamp_(0, 1)                 # a tensor outside of the graph is written to

after::

    %clamp = clamp(%held_0, 0, 1)       # `w`, whose version stays what it is
    copy_(%held_0, %clamp)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...dispatch.layers.functionalization.layer import FunctionalTensor, Layer, layers
from ...dispatch.layers.graph.make_graph import TracedTensor
from ...dispatch.tensor import Tensor
from ...runtime.data_of_tensors import followers


@contextmanager
def handles_of_data(layer: Layer) -> Iterator[None]:
    """Have `data` of a tensor from outside be a handle of this layer while the thread's operators run in it."""

    def handle(tensor: Tensor) -> FunctionalTensor | None:
        active = layers.active
        if not active or active[-1] is not layer or isinstance(tensor, TracedTensor | FunctionalTensor):
            return None
        made = layer.handle_of(tensor)
        return FunctionalTensor.from_data(made._data, made._spec.detached)

    followers.append(handle)
    try:
        yield
    finally:
        followers.remove(handle)
