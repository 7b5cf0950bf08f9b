"""Pipes of batches and groups of samples."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from ..datapipe import DataChunk, functional_datapipe
from ..utils.common import _check_unpickable_fn
from .wrapper import Pipe, length_of

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(Pipe):
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
        count = length_of(self, self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(Pipe):
    """The samples of batches, so many levels deep; -1 for all."""

    def __init__(self, datapipe: Pipe, unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def _flat(self, value: Any, level: int) -> Iterator[Any]:
        if level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
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


@functional_datapipe("groupby")
class GrouperIterDataPipe(Pipe):
    """Groups of samples with the same key.

    A group is complete with `group_size` samples. If the buffer is full before, its largest group is yielded as it
    is. The remaining groups follow at the end.

    Args:
        datapipe: The source.
        group_key_fn: The function from a sample to its key.
        keep_key: If True, yield pairs of the key and the group. Default: False.
        buffer_size: The number of samples that wait for their groups. Default: 10000.
        group_size: The number of samples of a group. Default: None, no limit.
        guaranteed_group_size: The smallest size of a group that a full buffer yields. Default: `group_size`.
        drop_remaining: If True, a full buffer drops its largest group if that is smaller. Default: False, an error.

    Raises:
        AssertionError: Sizes do not fit.
        RuntimeError: In the loop: the buffer is full of groups that are too small.

    Example:
        >>> from triten.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([1, -2, -1, 3, 2]).groupby(abs, group_size=2))
        [[1, -1], [-2, 2], [3]]
    """

    def __init__(
        self,
        datapipe: Pipe,
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        _check_unpickable_fn(group_key_fn)
        if group_size is not None and buffer_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is not None and (
            group_size is None or not 0 < guaranteed_group_size <= group_size
        ):
            raise AssertionError(
                "guaranteed_group_size must be > 0 and <= group_size and group_size must be set"
            )
        self.datapipe, self.group_key_fn = datapipe, group_key_fn
        self.keep_key, self.drop_remaining = keep_key, drop_remaining
        self.max_buffer_size = buffer_size
        self.group_size = group_size
        self.guaranteed_group_size = group_size if guaranteed_group_size is None else guaranteed_group_size
        self.wrapper_class = DataChunk

    def _wrapped(self, key: Any, group: list[Any]) -> Any:
        chunk: DataChunk[Any] = self.wrapper_class(group)
        return (key, chunk) if self.keep_key else chunk

    def __iter__(self) -> Iterator[Any]:
        groups: defaultdict[Any, list[Any]] = defaultdict(list)
        waiting = 0
        least = self.guaranteed_group_size
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            groups[key].append(sample)
            waiting += 1
            if len(groups[key]) == self.group_size:
                waiting -= self.group_size
                yield self._wrapped(key, groups.pop(key))
            if waiting != self.max_buffer_size:
                continue
            key = max(groups, key=lambda each: len(groups[each]))
            group = groups[key]
            if least is not None and len(group) < least and not self.drop_remaining:
                raise RuntimeError("Failed to group items", str(group))
            waiting -= len(group)
            del groups[key]
            if least is None or len(group) >= least:
                yield self._wrapped(key, group)
        for key, group in groups.items():
            yield self._wrapped(key, group)
