"""Values of tensors that a function holds: a graph would keep the number that was read, and the tensor changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...dispatch.layers.functionalization.layer import FunctionalTensor
from ...dispatch.layers.graph.make_graph import TracedTensor
from ...dispatch.tensor import Tensor

READERS = ("item", "host_array", "numpy")
"""What gives a tensor's elements to Python; `float`, `bool`, `tolist`, `print` and others call one of these."""


@contextmanager
def refusing_reads(refuse: Callable[[Any], None]) -> Iterator[None]:
    """Call a function, which may raise, with each tensor of this thread whose elements are read, but for fake ones.

    Those refuse by themselves, and what stands for a tensor reads that one.
    """
    thread = threading.get_ident()
    before = {name: getattr(Tensor, name) for name in READERS}

    def refusing(read: Callable[..., Any]) -> Callable[..., Any]:
        def refused(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == thread and not isinstance(tensor, TracedTensor | FunctionalTensor):
                refuse(tensor)
            return read(tensor, *args, **kwargs)

        return refused

    for name, read in before.items():
        setattr(Tensor, name, refusing(read))
    try:
        yield
    finally:
        for name, read in before.items():
            setattr(Tensor, name, read)
