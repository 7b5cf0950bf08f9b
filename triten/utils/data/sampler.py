"""Samplers: orders of a data set's samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...dispatch.generated import functions as _ops
from ...dispatch.random import Generator
from ...dispatch.tensor_data import as_tensor
from ...runtime.scalar_type import float64, int64

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """Iterable of indices (`torch.utils.data.Sampler`); a subclass defines ``__iter__`` and ``__len__``."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """All indices in their order (`torch.utils.data.SequentialSampler`)."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


SAMPLED_AT_ONCE = 32
"""Indices that `RandomSampler` samples with replacement at once, as in PyTorch, so that its memory is bounded."""


class RandomSampler(Sampler[int]):
    """All indices in an order of chance (`torch.utils.data.RandomSampler`).

    Args:
        data_source: The data set to sample from.
        replacement: If True, sample with replacement. Default: False.
        num_samples: The number of samples. Default: the size of the data set.
        generator: The random generator. Default: a new one that the default generator seeds.

    Raises:
        TypeError: `replacement` is no bool.
        ValueError: `num_samples` is no positive integer.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples < 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many indices are drawn."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        generator = self.generator or seeded()
        if self.replacement:
            for begin in range(0, self.num_samples, SAMPLED_AT_ONCE):
                size = min(SAMPLED_AT_ONCE, self.num_samples - begin)
                yield from _ops.randint(count, (size,), dtype=int64, generator=generator).tolist()
            return
        if not count:
            return
        # As in PyTorch, the last permutation is generated even if unused, so that the generator advances equally.
        for begin in range(0, self.num_samples + 1, count):
            order = _ops.randperm(count, generator=generator).tolist()
            yield from order[: self.num_samples - begin]

    def __len__(self) -> int:
        return self.num_samples


def seeded() -> Generator:
    """Return a generator seeded by the default generator, which advances once."""
    return Generator().manual_seed(int(_ops.randint(1 << 62, (), dtype=int64).item()))


class SubsetRandomSampler(Sampler[int]):
    """Some indices in an order of chance (`torch.utils.data.SubsetRandomSampler`)."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in _ops.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn by their weights (`torch.utils.data.WeightedRandomSampler`).

    Raises:
        ValueError: `num_samples` is no positive integer, `replacement` no bool, or the weights no list.
    """

    def __init__(
        self,
        weights: Tensor | Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.dim() != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                + str(tuple(self.weights.shape))
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = _ops.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[Any]]):
    """Indices of another sampler in lists (`torch.utils.data.BatchSampler`).

    Raises:
        ValueError: `batch_size` is no positive integer, or `drop_last` no bool.

    Example:
        >>> import triten as tt
        >>> list(tt.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        drawn = iter(self.sampler)
        while batch := list(itertools.islice(drawn, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
