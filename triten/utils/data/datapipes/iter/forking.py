"""Several pipes of one source, which read it once: `fork` gives its samples to all of them, `demux` each to one.

The pipes share a buffer of the samples that some have read and others have not.
"""

from __future__ import annotations

import copy as copying
import warnings
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from .._hook_iterator import describe
from ..datapipe import functional_datapipe
from ..utils.common import StreamWrapper, _check_unpickable_fn
from .wrapper import Pipe, length_of

__all__ = ["DemultiplexerIterDataPipe", "ForkerIterDataPipe"]


class _Round:
    """One pass over the source.

    Attributes:
        source: The iterator of the source.
        waiting: For each pipe the samples that it has yet to yield.
        finished: For each pipe whether its iterator has ended.
        is_exhausted: True if the source has ended.
    """

    def __init__(self, source: Iterator[Any], count: int) -> None:
        self.source = source
        self.waiting: list[deque[Any]] = [deque() for _ in range(count)]
        self.finished = [False] * count
        self.is_exhausted = False


class _Container(Pipe):
    """The source of several pipes, and the samples that are on their way."""

    _round: _Round | None = None
    _unsaved = frozenset({*Pipe._unsaved, "_round"})

    def __init__(self, datapipe: Pipe, num_instances: int, buffer_size: int, name: str) -> None:
        self.main_datapipe = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{name}`, please be aware of OOM at random places",
                UserWarning,
                stacklevel=4,
            )

    @abstractmethod
    def _distribute(self, waiting: list[deque[Any]], sample: Any, instance_id: int) -> None:
        """Put a sample of the source, which pipe `instance_id` asks for, into the buffers of its pipes."""

    def _own(self, sample: Any) -> Any:
        """Return the sample as one pipe yields it."""
        return sample

    def get_next_element_by_instance(self, instance_id: int) -> Iterator[Any]:
        """Yield the samples of a pipe.

        Raises:
            BufferError: The buffer is full.
        """
        current = self._round
        if current is None:
            current = self._round = _Round(iter(self.main_datapipe), self.num_instances)
        queue = current.waiting[instance_id]
        try:
            while True:
                while not queue and not current.is_exhausted:
                    try:
                        sample = next(current.source)
                    except StopIteration:
                        current.is_exhausted = True
                    else:
                        self._distribute(current.waiting, sample, instance_id)
                if not queue:
                    return
                yield self._own(queue.popleft())
        finally:
            current.finished[instance_id] = True
            if all(current.finished):
                StreamWrapper.close_streams([each for waiting in current.waiting for each in waiting])
                for waiting in current.waiting:
                    waiting.clear()

    def is_every_instance_exhausted(self) -> bool:
        """Return whether all pipes have yielded all of their samples."""
        return self._round is not None and self._round.is_exhausted and all(self._round.finished)

    def get_length_by_instance(self, instance_id: int) -> int:
        """Return the length of a pipe."""
        return length_of(self, self.main_datapipe)

    def reset(self) -> None:
        self._round = None


class _ForkerIterDataPipe(_Container):
    def __init__(self, datapipe: Pipe, num_instances: int, buffer_size: int, copy: str | None) -> None:
        super().__init__(datapipe, num_instances, buffer_size, "fork")
        if copy not in (None, "shallow", "deep"):
            raise ValueError(
                f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`."
            )
        self.copy = copy

    def __len__(self) -> int:
        return length_of(self, self.main_datapipe)

    def _own(self, sample: Any) -> Any:
        if self.copy is None:
            return sample
        return copying.copy(sample) if self.copy == "shallow" else copying.deepcopy(sample)

    def _distribute(self, waiting: list[deque[Any]], sample: Any, instance_id: int) -> None:
        for queue in waiting:
            queue.append(sample)
        behind = max(len(queue) for number, queue in enumerate(waiting) if number != instance_id)
        if 0 <= self.buffer_size < behind:
            raise BufferError(
                f"ForkerIterDataPipe buffer overflow,buffer size {self.buffer_size} is insufficient."
            )


class _DemultiplexerIterDataPipe(_Container):
    def __init__(
        self,
        datapipe: Pipe,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool,
        buffer_size: int,
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size, "demux")
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none

    def get_length_by_instance(self, instance_id: int) -> int:
        raise TypeError("a pipe of `demux` has no length: it depends on the samples")

    def _distribute(self, waiting: list[deque[Any]], sample: Any, instance_id: int) -> None:
        branch = self.classifier_fn(sample)
        if branch is None and self.drop_none:
            StreamWrapper.close_streams(sample)
            return
        if branch is None or not 0 <= branch < self.num_instances:
            raise ValueError(
                f"Output of the classification fn should be between 0 and {self.num_instances - 1}. {branch} is "
                "returned."
            )
        waiting[branch].append(sample)
        held = sum(len(queue) for number, queue in enumerate(waiting) if number != instance_id)
        if branch != instance_id and 0 <= self.buffer_size < held:
            raise BufferError(
                f"DemultiplexerIterDataPipe buffer overflow, buffer size {self.buffer_size} is insufficient."
            )


class _ChildDataPipe(Pipe):
    """One of the pipes of a source.

    A new iterator of a pipe that has the current one invalidates those of the other pipes too, and the source is read
    anew. A pipe whose iterator was invalidated so begins another one without a further effect.
    """

    _is_child_datapipe = True

    def __init__(self, main_datapipe: _Container, instance_id: int) -> None:
        self.main_datapipe = main_datapipe
        self.instance_id = instance_id

    def __iter__(self) -> Iterator[Any]:
        return self.main_datapipe.get_next_element_by_instance(self.instance_id)

    def __len__(self) -> int:
        return self.main_datapipe.get_length_by_instance(self.instance_id)

    def _begin_iterator(self) -> int:
        source = self.main_datapipe
        if source._valid_iterator_id is None:
            source._valid_iterator_id = 0
        elif source._valid_iterator_id == self._valid_iterator_id:
            source._valid_iterator_id += 1
            if not source.is_every_instance_exhausted():
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are resetting the buffer and "
                    "each child DataPipe will read from the start again.",
                    UserWarning,
                    stacklevel=3,
                )
            source.reset()
        self._valid_iterator_id = source._valid_iterator_id
        self.reset()
        return self._valid_iterator_id

    def _check_iterator(self, number: int) -> None:
        if not number == self._valid_iterator_id == self.main_datapipe._valid_iterator_id:
            raise RuntimeError(
                "This iterator has been invalidated, because a new iterator has been created from one of the "
                f"ChildDataPipes of {describe(self.main_datapipe)}."
            )


@functional_datapipe("fork")
class ForkerIterDataPipe(Pipe):
    """Several pipes of all samples of a source.

    Args:
        datapipe: The source.
        num_instances: The number of pipes. One gives the source itself.
        buffer_size: The number of samples by which one pipe may be ahead of another; -1 for no limit. Default: 1000.
        copy: ``"shallow"`` or ``"deep"`` to give each pipe its copy of a sample. Default: None, the same object.

    Returns:
        A list of the pipes.

    Raises:
        ValueError: `num_instances` is not positive, or `copy` is unknown.
        BufferError: In a loop: one pipe is too far ahead.

    Example:
        >>> from triten.utils.data.datapipes.iter import IterableWrapper
        >>> first, second = IterableWrapper(range(3)).fork(2)
        >>> list(first), list(second)
        ([0, 1, 2], [0, 1, 2])
    """

    def __new__(
        cls, datapipe: Pipe, num_instances: int, buffer_size: int = 1000, copy: str | None = None
    ) -> Any:
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        if num_instances == 1:
            return datapipe
        container = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(container, number) for number in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(Pipe):
    """Several pipes that share the samples of a source by a function.

    Args:
        datapipe: The source.
        num_instances: The number of pipes.
        classifier_fn: The function from a sample to the number of its pipe, from 0.
        drop_none: If True, drop the samples for which the function returns None. Default: False, an error.
        buffer_size: The number of samples that wait in the buffer; -1 for no limit. Default: 1000.

    Returns:
        A list of the pipes.

    Raises:
        ValueError: `num_instances` is not positive. In a loop: the function returns no number of a pipe.
        BufferError: In a loop: the buffer is full.

    Example:
        >>> from triten.utils.data.datapipes.iter import IterableWrapper
        >>> negative, positive = IterableWrapper([3, -1, 4]).demux(2, (0).__lt__)
        >>> list(negative), list(positive)
        ([-1], [3, 4])
    """

    def __new__(
        cls,
        datapipe: Pipe,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        _check_unpickable_fn(classifier_fn)
        container = _DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size)
        return [_ChildDataPipe(container, number) for number in range(num_instances)]
