"""Pipes of several pipes. `fork` and `demux`, which make several pipes of one, are in `forking.py`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ..datapipe import IterDataPipe, functional_datapipe
from .forking import DemultiplexerIterDataPipe, ForkerIterDataPipe
from .wrapper import Pipe, length_of

__all__ = [
    "ConcaterIterDataPipe",
    "DemultiplexerIterDataPipe",
    "ForkerIterDataPipe",
    "MultiplexerIterDataPipe",
    "ZipperIterDataPipe",
]


@functional_datapipe("concat")
class ConcaterIterDataPipe(Pipe):
    """The samples of one pipe after those of another.

    Raises:
        ValueError: There is no pipe.
        TypeError: An argument is no `IterDataPipe`.
    """

    def __init__(self, *datapipes: Pipe) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(each, IterDataPipe) for each in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for each in self.datapipes:
            yield from each

    def __len__(self) -> int:
        return sum(length_of(self, each) for each in self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(Pipe):
    """Tuples of the samples of several pipes, until the first ends.

    Raises:
        TypeError: An argument is no `IterDataPipe`.
    """

    def __init__(self, *datapipes: Pipe) -> None:
        if not all(isinstance(each, IterDataPipe) for each in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(length_of(self, each) for each in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(Pipe):
    """The samples of several pipes in turn, until the first ends."""

    def __init__(self, *datapipes: Pipe) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from itertools.chain.from_iterable(zip(*self.datapipes, strict=False))

    def __len__(self) -> int:
        return min(length_of(self, each) for each in self.datapipes) * len(self.datapipes)
