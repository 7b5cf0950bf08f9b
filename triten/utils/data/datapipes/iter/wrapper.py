"""A pipe of the items of a container, and the length of pipes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Sized
from typing import Any

from ..datapipe import IterDataPipe

__all__ = ["IterableWrapperIterDataPipe"]

Pipe = IterDataPipe[Any]


class IterableWrapperIterDataPipe(Pipe):
    """The items of a container as samples.

    Args:
        iterable: The container.
        deepcopy: If True, iterate over a deep copy. A container that cannot be copied gives a warning. Default: True.
    """

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[Any]:
        samples = self.iterable
        if self.deepcopy:
            try:
                samples = copy.deepcopy(samples)
            except TypeError:
                warnings.warn(
                    "The input iterable can not be deepcopied, please be aware of in-place modification would affect "
                    "source data.",
                    stacklevel=2,
                )
        yield from samples

    def __len__(self) -> int:
        return length_of(self, self.iterable)


def length_of(pipe: object, source: object) -> int:
    """Return the length of a pipe's source.

    Raises:
        TypeError: The source has no length.
    """
    if isinstance(source, Sized):
        return len(source)
    raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
