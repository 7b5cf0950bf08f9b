"""Data sets: samples by index (map-style) or as a stream (iterable-style)."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeAlias, TypeVar

from ...dispatch.generated import functions as _ops
from ...dispatch.random import Generator
from ...dispatch.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)
Sample = TypeVar("Sample")


class Dataset(Generic[T_co]):
    """Map-style data set (`torch.utils.data.Dataset`); a subclass defines ``__getitem__`` and usually ``__len__``.

    If the subclass defines ``__getitems__``, fetchers pass it the whole list of indices.

    Example:
        >>> import triten as tt
        >>> class Squares(tt.utils.data.Dataset):
        ...     def __getitem__(self, index):
        ...         return index * index
        ...     def __len__(self):
        ...         return 3
        >>> list((Squares() + Squares())[i] for i in range(6))
        [0, 1, 4, 0, 1, 4]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Iterable-style data set (`torch.utils.data.IterableDataset`); a subclass defines ``__iter__``."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[T_co]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors of one length (`torch.utils.data.TensorDataset`).

    Raises:
        AssertionError: the lengths differ.

    Example:
        >>> import triten as tt
        >>> tt.utils.data.TensorDataset(tt.tensor([1, 2]), tt.tensor([3, 4]))[1]
        (tensor(2), tensor(4))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset[Any]):
    """Samples of several data sets side by side, as tuples or by name (`torch.utils.data.StackDataset`).

    Raises:
        ValueError: the lengths differ, or there are neither data sets nor names; for both at once.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets: Any = args or kwargs
        sets = list(args or kwargs.values())
        self._length = len(sets[0])
        if any(len(each) != self._length for each in sets):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: each[index] for name, each in self.datasets.items()}
        return tuple(each[index] for each in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Data sets one behind the other (`torch.utils.data.ConcatDataset`).

    Raises:
        AssertionError: there is none, or one of them cannot be indexed.
    """

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(each, IterableDataset) for each in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Sized]) -> list[int]:
        """Return the running sums of lengths."""
        return list(itertools.accumulate(map(len, sequence)))

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        dataset_index = bisect.bisect_right(self.cumulative_sizes, index)
        sample: T_co = self.datasets[dataset_index][
            index - (self.cumulative_sizes[dataset_index - 1] if dataset_index else 0)
        ]
        return sample

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[Any]):
    """Iterable data sets one behind the other (`torch.utils.data.ChainDataset`)."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def _iterable(self) -> Iterator[Any]:
        for each in self.datasets:
            if not isinstance(each, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield each

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._iterable())

    def __len__(self) -> int:
        return sum(map(len, self._iterable()))


Source: TypeAlias = Dataset[T_co] | Sequence[T_co]
"""What samples are taken from by their indices."""


class Subset(Dataset[T_co]):
    """Some samples of a data set, by their indices (`torch.utils.data.Subset`)."""

    def __init__(self, dataset: Source[T_co], indices: Sequence[int]) -> None:
        self.dataset: Any = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        """Return several samples, in one call if the data set supports it."""
        chosen = [self.indices[i] for i in indices]
        at_once = getattr(self.dataset, "__getitems__", None)
        samples: list[T_co] = at_once(chosen) if callable(at_once) else [self.dataset[i] for i in chosen]
        return samples

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Source[Sample], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[Sample]]:
    """Split a data set into random disjoint parts (`torch.utils.data.random_split`).

    Args:
        dataset: The data set, which has a length.
        lengths: The sizes of the parts, or fractions that sum to 1. Fractions are rounded down, and the remaining
            samples go to the first parts.
        generator: The random generator. Default: the CPU's.

    Raises:
        ValueError: The sizes do not sum to the data set's length, or a fraction is not between 0 and 1.

    Example:
        >>> import triten as tt
        >>> [len(part) for part in tt.utils.data.random_split(range(10), [0.75, 0.25])]
        [8, 2]
    """
    sizes = list(lengths)
    whole = len(dataset)  # type: ignore[arg-type]  # what is split has a length
    if math.isclose(sum(sizes), 1) and sum(sizes) <= 1:
        for number, share in enumerate(sizes):
            if not 0 <= share <= 1:
                raise ValueError(f"Fraction at index {number} is not between 0 and 1")
        sizes = [math.floor(whole * share) for share in sizes]
        for number in range(whole - int(sum(sizes))):
            sizes[number % len(sizes)] += 1
        for number, size in enumerate(sizes):
            if size == 0:
                warnings.warn(
                    f"Length of split at index {number} is 0. This might result in an empty dataset.",
                    stacklevel=2,
                )
    if sum(sizes) != whole:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = _ops.randperm(whole, generator=generator).tolist()
    ends = itertools.accumulate(int(size) for size in sizes)
    return [Subset(dataset, order[end - int(size) : end]) for end, size in zip(ends, sizes, strict=True)]
