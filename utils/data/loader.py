"""The loop over a data set in batches."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from ...dispatch.random import Generator
from ...dispatch.tensor import Tensor
from ...runtime.traceback_filter import hide_inner_frames
from .collate import default_collate, default_convert
from .datasets import IterableDataset, Source
from .samplers import BatchSampler, RandomSampler, SequentialSampler

T_co = TypeVar("T_co", covariant=True)


def get_worker_info() -> None:
    """None: samples are drawn in the process that asks for them (`torch.utils.data.get_worker_info`)."""
    return


class _Endless:
    """What stands for the order of a data set that has its own."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Batches of a data set's samples (`torch.utils.data.DataLoader`), drawn in the process that asks for them.

    Args:
        dataset: samples by index, or an `IterableDataset`.
        batch_size: how many samples are in a batch; None for samples by themselves.
        shuffle: whether the order is of chance, and anew in each loop.
        sampler: an order of indices; `batch_sampler` one of lists of them.
        num_workers: 0.
        collate_fn: what makes a batch of a list of samples; `default_collate` unless given.
        pin_memory: whether tensors are copied to pinned memory.
        drop_last: whether a last batch of fewer samples is left out.
        generator: where the order's random numbers come from.
        timeout, worker_init_fn, multiprocessing_context, prefetch_factor, persistent_workers, pin_memory_device,
            in_order: of workers; accepted where they say nothing of them.

    Raises:
        ValueError: options that do not go together.
        NotImplementedError: for workers.

    Example:
        >>> import triten as tt
        >>> data = tt.utils.data.TensorDataset(tt.arange(5), tt.arange(5) ** 2)
        >>> for x, y in tt.utils.data.DataLoader(data, batch_size=2):
        ...     print(x.tolist(), y.tolist())
        [0, 1] [0, 1]
        [2, 3] [4, 9]
        [4] [16]
    """

    def __init__(
        self,
        dataset: Source[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: object = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        self.dataset: Any = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.generator = generator
        self._is_iterable = isinstance(dataset, IterableDataset)
        if self._is_iterable:
            for name, given in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if given not in (None, False):
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={given}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
            )
        if sampler is None:
            if self._is_iterable:
                sampler = _Endless()
            else:
                sized: Any = dataset
                sampler = RandomSampler(sized, generator=generator) if shuffle else SequentialSampler(sized)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn

    def __iter__(self) -> Iterator[Any]:
        batches = self._of_iterable() if self._is_iterable else self._of_indices()
        return map(_pinned, batches) if self.pin_memory else batches

    def _of_indices(self) -> Iterator[Any]:
        try:
            if self.batch_sampler is None:
                for index in self.sampler:
                    yield self.collate_fn(self.dataset[index])
                return
            at_once = getattr(self.dataset, "__getitems__", None)
            for indices in self.batch_sampler:
                yield self.collate_fn(
                    at_once(indices) if at_once else [self.dataset[index] for index in indices]
                )
        except BaseException:
            hide_inner_frames()
            raise

    def _of_iterable(self) -> Iterator[Any]:
        try:
            samples = iter(self.dataset)
            expected = len(self.dataset) if hasattr(self.dataset, "__len__") else None
            count = 0
            while True:
                wanted = 1 if self.batch_size is None else self.batch_size
                batch = list(itertools.islice(samples, wanted))
                if not batch or (self.drop_last and len(batch) < wanted):
                    return
                count += len(batch)
                if expected is not None and count > expected:
                    warnings.warn(
                        f"Length of IterableDataset {self.dataset} was reported to be {expected}, but {count} samples "
                        "have been fetched.",
                        stacklevel=3,
                    )
                    expected = None
                yield self.collate_fn(batch[0] if self.batch_size is None else batch)
        except BaseException:
            hide_inner_frames()
            raise

    def __len__(self) -> int:
        if self._is_iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool, context: object
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers > 0:
        raise NotImplementedError(
            f"DataLoader: num_workers=0 expected, {num_workers} given: samples are drawn in the process that asks for "
            "them"
        )
    if prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if persistent_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if context is not None:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0)"
        )


def _pinned(value: Any) -> Any:
    """A batch with its tensors in pinned memory."""
    if isinstance(value, Tensor):
        return value.pin_memory()
    if hasattr(value, "pin_memory"):
        return value.pin_memory()
    if isinstance(value, Mapping):
        return type(value)({key: _pinned(each) for key, each in value.items()})  # type: ignore[call-arg]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_pinned, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_pinned, value))
    return value
