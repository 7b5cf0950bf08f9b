"""Iterable-style pipes (`torch.utils.data.datapipes.iter`)."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

from ..collate import default_collate
from .datapipe import DataChunk, IterDataPipe, functional_datapipe

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Filter",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "ShardingFilter",
    "Shuffler",
    "UnBatcher",
    "Zipper",
]

Pipe = IterDataPipe[Any]


class IterableWrapper(Pipe):
    """The items of a container as samples; a copy of it unless `deepcopy` is False."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from copy.deepcopy(self.iterable) if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return _length(self, self.iterable)


def _length(pipe: object, *sources: object) -> int:
    """Return the sum of the lengths.

    Raises:
        TypeError: A source has no length.
    """
    if all(isinstance(each, Sized) for each in sources):
        return sum(len(each) for each in sources)  # type: ignore[arg-type, misc]
    raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")


@functional_datapipe("map")
class Mapper(Pipe):
    """A function of each sample; of the parts `input_col`, the result put at `output_col`, where those are given."""

    def __init__(
        self, datapipe: Pipe, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None
    ) -> None:
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, list | tuple):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def _applied(self, sample: Any) -> Any:
        column = self.input_col
        if column is None:
            return self.fn(sample)
        several = isinstance(column, list | tuple)
        found = self.fn(*(sample[each] for each in column)) if several else self.fn(sample[column])
        was_tuple = isinstance(sample, tuple)
        parts = list(sample) if was_tuple else sample
        if self.output_col is None:
            first, *others = column if several else [column]
            parts[first] = found
            for each in sorted(others, reverse=True):
                del parts[each]
        elif self.output_col == -1:
            parts.append(found)
        else:
            parts[self.output_col] = found
        return tuple(parts) if was_tuple else parts

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield self._applied(sample)

    def __len__(self) -> int:
        return _length(self, self.datapipe)


@functional_datapipe("collate")
class Collator(Mapper):
    """Batches collated, by `tt.utils.data.default_collate` or another function."""

    def __init__(self, datapipe: Pipe, collate_fn: Callable[..., Any] | None = None) -> None:
        super().__init__(datapipe, default_collate if collate_fn is None else collate_fn)


@functional_datapipe("filter")
class Filter(Pipe):
    """Filter: samples, or their parts `input_col`, for which a function returns True."""

    def __init__(self, datapipe: Pipe, filter_fn: Callable[..., bool], input_col: Any = None) -> None:
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        column = self.input_col
        for sample in self.datapipe:
            if column is None:
                kept = self.filter_fn(sample)
            elif isinstance(column, list | tuple):
                kept = self.filter_fn(*(sample[each] for each in column))
            else:
                kept = self.filter_fn(sample[column])
            if not isinstance(kept, bool):
                raise ValueError(
                    "Boolean output is required for `filter_fn` of FilterIterDataPipe, got", type(kept)
                )
            if kept:
                yield sample


@functional_datapipe("batch")
class Batcher(Pipe):
    """Batches of `batch_size` samples; the last batch may be smaller unless `drop_last`."""

    def __init__(
        self, datapipe: Pipe, batch_size: int, drop_last: bool = False, wrapper_class: Any = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[Any]:
        samples = iter(self.datapipe)
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = _length(self, self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcher(Pipe):
    """The samples of batches, so many levels deep; -1 for all."""

    def __init__(self, datapipe: Pipe, unbatch_level: int = 1) -> None:
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def _flat(self, value: Any, level: int) -> Iterator[Any]:
        is_batch = isinstance(value, list)
        if level == 0 or (level < 0 and not is_batch):
            yield value
            return
        if not is_batch:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        for each in value:
            yield from self._flat(each, level - 1 if level > 0 else level)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.datapipe:
            yield from self._flat(batch, self.unbatch_level)


@functional_datapipe("shuffle")
class Shuffler(Pipe):
    """The samples in another order, drawn from a buffer of so many; `set_seed` makes it the same next time."""

    def __init__(self, datapipe: Pipe, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise ValueError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else UnBatcher(datapipe, unbatch_level)
        self.buffer_size = buffer_size
        self._enabled = True
        self._seed: int | None = None
        self._random = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> Shuffler:
        """Enable or disable shuffling."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Shuffler:
        """Set the seed of the next iteration."""
        self._seed = seed
        return self

    def reset(self) -> None:
        if self._seed is None:
            from ....dispatch.generated.functions import randint

            self._seed = int(randint(0, 2**62, ()).item())
        self._random.seed(self._seed)
        self._seed = None

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer: list[Any] = []
        for sample in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
            else:
                place = self._random.randrange(len(buffer))
                sample, buffer[place] = buffer[place], sample
                yield sample
        self._random.shuffle(buffer)
        yield from buffer

    def __len__(self) -> int:
        return _length(self, self.datapipe)


@functional_datapipe("concat")
class Concater(Pipe):
    """The samples of one pipe after those of another."""

    def __init__(self, *datapipes: Pipe) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain(*self.datapipes)

    def __len__(self) -> int:
        return _length(self, *self.datapipes)


@functional_datapipe("zip")
class Zipper(Pipe):
    """Tuples of the samples of several pipes, until the first ends."""

    def __init__(self, *datapipes: Pipe) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(_length(self, each) for each in self.datapipes)


@functional_datapipe("mux")
class Multiplexer(Pipe):
    """The samples of several pipes in turn, until the first ends."""

    def __init__(self, *datapipes: Pipe) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(zip(*self.datapipes, strict=False))

    def __len__(self) -> int:
        return min(_length(self, each) for each in self.datapipes) * len(self.datapipes)


@functional_datapipe("sharding_filter")
class ShardingFilter(Pipe):
    """Every n-th sample, so that n copies share the work; all of them until `apply_sharding`."""

    def __init__(self, source_datapipe: Pipe, sharding_group_filter: object = None) -> None:
        self.source_datapipe = source_datapipe
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: object = None) -> None:
        """Set the shard of this copy.

        Raises:
            ValueError: `instance_id` is out of range.
        """
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(
                f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})"
            )
        self.num_of_instances, self.instance_id = num_of_instances, instance_id

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.source_datapipe), self.instance_id, None, self.num_of_instances)

    def __len__(self) -> int:
        count = _length(self, self.source_datapipe)
        return len(range(self.instance_id, count, self.num_of_instances))
