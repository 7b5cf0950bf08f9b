"""Pipes of samples by index (`torch.utils.data.datapipes.map`)."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator, Sized
from typing import Any

from .datapipe import DataChunk, IterDataPipe, MapDataPipe, functional_datapipe
from .iter.combinatorics import Seeded
from .utils.common import _check_unpickable_fn

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]

Pipe = MapDataPipe[Any]


class SequenceWrapper(Pipe):
    """The items of a sequence or a dict as samples; of a copy of it unless `deepcopy` is False."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn(
                    "The input sequence can not be deepcopied, please be aware of in-place modification would affect "
                    "source data",
                    stacklevel=2,
                )

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


def default_fn(data: Any) -> Any:
    """Return a sample unchanged."""
    return data


@functional_datapipe("map")
class Mapper(Pipe):
    """A function of each sample."""

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any] = default_fn) -> None:
        _check_unpickable_fn(fn)
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


def _checked(datapipes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return pipes that are to be combined.

    Raises:
        ValueError: There is none.
        TypeError: One is no `MapDataPipe`, or has no length.
    """
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(each, MapDataPipe) for each in datapipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")
    if not all(isinstance(each, Sized) for each in datapipes):
        raise TypeError("Expected all inputs to be `Sized`")
    return datapipes


@functional_datapipe("concat")
class Concater(Pipe):
    """The samples of one pipe after those of another."""

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = _checked(datapipes)

    def __getitem__(self, index: Any) -> Any:
        position = index
        for pipe in self.datapipes:
            if position < len(pipe):
                return pipe[position]
            position -= len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(Pipe):
    """Tuples of the samples of several pipes, as many as the shortest has."""

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = _checked(datapipes)

    def __getitem__(self, index: Any) -> Any:
        try:
            return tuple(pipe[index] for pipe in self.datapipes)
        except IndexError as error:
            raise IndexError(
                f"Index {index} is out of range for one of the input MapDataPipes {self.datapipes}."
            ) from error

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("batch")
class Batcher(Pipe):
    """Batches of `batch_size` samples; the last batch may be smaller unless `drop_last`."""

    def __init__(
        self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Any = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index: Any) -> Any:
        first, count = index * self.batch_size, len(self.datapipe)
        last = min(first + self.batch_size, count)
        if index < 0 or first >= count or (self.drop_last and last - first < self.batch_size):
            raise IndexError(f"Index {index} is out of bound.")
        return self.wrapper_class([self.datapipe[position] for position in range(first, last)])

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class Shuffler(Seeded, IterDataPipe[Any]):
    """The samples of some indices in random order; an iterable-style pipe.

    Args:
        datapipe: The source.
        indices: The indices. Default: None, all from 0 to the source's length.
    """

    def __init__(self, datapipe: Any, *, indices: list[Any] | None = None) -> None:
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._rng = random.Random()
        self._shuffled_indices = self.indices

    def reset(self) -> None:
        if self._enabled:
            self._reseed()
            self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            for index in self.indices:
                yield self.datapipe[index]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def __len__(self) -> int:
        return len(self.indices)


MapDataPipe.register_datapipe_as_function("shuffle", Shuffler)
