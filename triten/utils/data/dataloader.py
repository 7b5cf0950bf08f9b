"""The loop over a data set in batches: in the process that asks, or by workers."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...dispatch.generated import functions as _ops
from ...dispatch.random import Generator
from ...dispatch.tensor import Tensor
from ...runtime.cuda.driver import is_available
from ...runtime.scalar_type import int64
from .collate import default_collate, default_convert
from .dataset import IterableDataset, Source
from .fetching import Fetching
from .iteration import LocalBatches
from .iteration import _BaseDataLoaderIter as _BaseDataLoaderIter
from .iteration import _MultiProcessingDataLoaderIter as _MultiProcessingDataLoaderIter
from .iteration import _SingleProcessDataLoaderIter as _SingleProcessDataLoaderIter
from .loaded_pipes import draw_shared_seed, is_pipe, seed_pipe, share_of_process, share_pipe
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .worker import get_worker_info as get_worker_info

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from .worker_batches import WorkerBatches

T_co = TypeVar("T_co", covariant=True)
_T = TypeVar("_T")
_collate_fn_t = Callable[[list[_T]], Any]
_worker_init_fn_t = Callable[[int], None]

_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})
"""Attributes of a `DataLoader` that its other attributes depend on."""


class _Endless:
    """Placeholder sampler for data sets that define their own order."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Data loader: iterates over a data set in batches (`torch.utils.data.DataLoader`).

    With workers, other processes fetch and collate the next batches, and send them through shared memory. Each worker
    has a copy of the data set, its own seed, and one thread. A worker forked from a process that has used the GPU may
    not use the GPU. The loop raises a worker's error, with its traceback, and reports a worker's death immediately.

    Args:
        dataset: A map-style data set, or an `IterableDataset`.
        batch_size: The number of samples in a batch; None disables batching. Default: 1.
        shuffle: If True, reshuffle the data at every epoch. Default: False.
        sampler: An iterable of indices, instead of `shuffle`.
        batch_sampler: An iterable of lists of indices, instead of `batch_size`, `shuffle`, `sampler`, `drop_last`.
        num_workers: The number of worker processes; 0 loads in the calling process. Default: 0.
        collate_fn: A function from a list of samples to a batch. Default: `default_collate`, or
            `default_convert` without batching.
        pin_memory: If True, copy tensors to pinned memory; without a GPU, warn instead. Default: False.
        drop_last: If True, drop the last batch if it is incomplete. Default: False.
        timeout: Seconds to wait for a worker's batch; 0 waits forever. Default: 0.
        worker_init_fn: A function that each worker calls with its index before loading.
        multiprocessing_context: The start method, `fork`, `spawn` or `forkserver`, or a context of
            `multiprocessing`. Default: Python's default.
        generator: The generator of the order and of the workers' base seed. Default: the global generator.
        prefetch_factor: The number of batches that each worker prefetches. Default: 2.
        persistent_workers: If True, keep the workers for the next epoch. Default: False.
        pin_memory_device: Accepted but ignored; pinned memory serves all devices.
        in_order: If False, yield batches as they become ready. Default: True.

    Raises:
        ValueError: Options conflict.
        TypeError: `multiprocessing_context` is not a context.
        RuntimeError: In the loop: a worker has died, or `timeout` has passed.

    Example:
        >>> import triten as tt
        >>> data = tt.utils.data.TensorDataset(tt.arange(5), tt.arange(5) ** 2)
        >>> for x, y in tt.utils.data.DataLoader(data, batch_size=2):
        ...     print(x.tolist(), y.tolist())
        [0, 1] [0, 1]
        [2, 3] [4, 9]
        [4] [16]
    """

    _is_initialized = False
    _told_length: int | None = None
    """Number of samples of a stream that `len` last told the program."""

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
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _warn_of_many(num_workers)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        if is_pipe(dataset, iterable=True):
            from .graph_settings import apply_shuffle_settings

            dataset, shuffle = apply_shuffle_settings(dataset, shuffle), None
        self.dataset: Any = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self._context = _context_of(multiprocessing_context, num_workers)
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.generator = generator
        self._iterator: _MultiProcessingDataLoaderIter | None = None
        self._is_iterable = isinstance(dataset, IterableDataset)
        if self._is_iterable:
            for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if value not in (None, False):
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
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
        self._is_initialized = True

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """How workers are started; None for Python's default."""
        return self._context

    @property
    def _index_sampler(self) -> Iterable[Any]:
        """The sampler of the next samples: batches of indices, or single indices."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def fetching(self) -> Fetching:
        """Return the arguments of this loader's fetcher, in any process."""
        is_batched = self.batch_sampler is not None
        return Fetching(self.dataset, self._is_iterable, self.collate_fn, is_batched, self.drop_last)

    def __iter__(self) -> _BaseDataLoaderIter:
        if not self.num_workers:
            # The seed is drawn without workers too, so that the order that follows is the same.
            seed_pipe(self.dataset, draw_shared_seed(self.dataset, self.generator))
            self._draw_base_seed()
            share_pipe(self.dataset, share_of_process(self.dataset))
            return _SingleProcessDataLoaderIter(self, self._finished(LocalBatches(self)))
        running = self._iterator
        if running is not None and running._source.is_usable:
            running._source.restart(self)
            running._begin(self._finished(running._source))
            return running
        source = self._of_workers()
        running = _MultiProcessingDataLoaderIter(self, self._finished(source), source)
        if self.persistent_workers:
            self._iterator = running
        return running

    def _finished(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Return the batches as the loop yields them: in pinned memory on request."""
        if not self.pin_memory:
            return batches
        if not is_available():
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                "used.",
                stacklevel=3,
            )
            return batches
        return map(_pinned, batches)

    def _draw_base_seed(self) -> int:
        """Generate the base of the workers' seeds."""
        return int(_ops.empty((), dtype=int64).random_(generator=self.generator).item())

    def _of_workers(self) -> WorkerBatches:
        from .worker_batches import WorkerBatches

        shared_seed = draw_shared_seed(self.dataset, self.generator)
        base_seed = self._draw_base_seed()
        _warn_of_many(self.num_workers)
        return WorkerBatches(self, self._context or multiprocessing.get_context(), base_seed, shared_seed)

    def __len__(self) -> int:
        if self._is_iterable:
            count = self._told_length = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self._index_sampler)  # type: ignore[arg-type]


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if num_workers == 0 and persistent_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _context_of(context: object, num_workers: int) -> BaseContext | None:
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    from multiprocessing.context import BaseContext

    if not isinstance(context, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={context}"
        )
    return context


def _warn_of_many(num_workers: int) -> None:
    """Warn of more workers than this process may use cores (PyTorch's warning)."""
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if num_cores is not None and num_workers > num_cores:
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested max number of worker "
            f"in current system is {num_cores}, which is smaller than what this DataLoader is going to create. Please "
            "be aware that excessive worker creation might get DataLoader running slow or even freeze, lower the "
            "worker number to avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )


def _pinned(value: Any) -> Any:
    """Copy the tensors of a batch to pinned memory."""
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
