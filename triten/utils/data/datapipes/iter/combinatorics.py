"""Pipes of samples in another order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any

from .....dispatch.generated import functions as _ops
from .....runtime.scalar_type import int64
from ...sampler import SequentialSampler
from ..datapipe import functional_datapipe
from .grouping import UnBatcherIterDataPipe
from .wrapper import Pipe, length_of

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(Pipe):
    """The indices that a sampler yields for a pipe.

    Args:
        datapipe: The pipe, with a length.
        sampler: The class of the sampler. Default: `SequentialSampler`.
        sampler_args, sampler_kwargs: Its arguments; the pipe is its `data_source`.

    Raises:
        AssertionError: The pipe has no length.
    """

    def __init__(
        self,
        datapipe: Pipe,
        sampler: Any = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(datapipe, Sized):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        self.datapipe = datapipe
        self.sampler_args = sampler_args or ()
        self.sampler_kwargs = {**(sampler_kwargs or {}), "data_source": datapipe}
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return length_of(self, self.sampler)


class Seeded:
    """A pipe with its own generator, whose seed is given or drawn by the global generator for each iteration."""

    _enabled = True
    _seed: int | None = None
    _rng: random.Random

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Enable or disable shuffling."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """Set the seed of the next iteration."""
        self._seed = seed
        return self

    def _reseed(self) -> None:
        if self._seed is None:
            self._seed = int(_ops.empty((), dtype=int64).random_().item())
        self._rng.seed(self._seed)
        self._seed = None


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Seeded, Pipe):
    """The samples in random order, drawn from a buffer.

    Args:
        datapipe: The source.
        buffer_size: The number of samples in the buffer. The order is uniformly random if it holds all of them.
            Default: 10000.
        unbatch_level: The number of levels of batches to undo first. Default: 0.

    Raises:
        AssertionError: `buffer_size` is not positive.
    """

    def __init__(self, datapipe: Pipe, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else UnBatcherIterDataPipe(datapipe, unbatch_level)
        self.buffer_size = buffer_size
        self._buffer: list[Any] = []
        self._rng = random.Random()

    def reset(self) -> None:
        self._buffer = []
        if self._enabled:
            self._reseed()

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        for sample in self.datapipe:
            if len(self._buffer) < self.buffer_size:
                self._buffer.append(sample)
                continue
            index = self._rng.randrange(len(self._buffer))
            drawn, self._buffer[index] = self._buffer[index], sample
            yield drawn
        while self._buffer:
            yield self._buffer.pop(self._rng.randrange(len(self._buffer)))

    def __len__(self) -> int:
        return length_of(self, self.datapipe)
