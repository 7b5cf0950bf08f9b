"""Iterator classes of `DataLoader`, by PyTorch's names; programs use them to detect loops with workers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...runtime.profiler_ranges import recorded_range
from ...runtime.traceback_filter import hide_inner_frames

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from .dataloader import DataLoader
    from .worker_batches import WorkerBatches


class _BaseDataLoaderIter(Iterator[Any]):
    """One loop over a loader. Its length is the loader's number of batches.

    Args:
        loader: The loader to iterate over.
        batches: the batches.
    """

    def __init__(self, loader: DataLoader[Any], batches: Iterator[Any]) -> None:
        self._loader = loader
        self._begin(batches)

    def _begin(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._yielded = 0
        self._told = self._loader._told_length

    def __next__(self) -> Any:
        with recorded_range(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
            batch = next(self._batches)
        self._yielded += 1
        if self._told is not None and self._yielded > self._told:
            self._warn_of_length()
        return batch

    def _warn_of_length(self) -> None:
        """Warn that a stream has more batches than `len` told the program it has samples."""
        where = (
            " For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset "
            "replica at each worker. Please see `tt.utils.data.get_worker_info`."
        )
        warnings.warn(
            f"Length of IterableDataset {self._loader.dataset} was reported to be {self._told} (when accessing "
            f"len(dataloader)), but {self._yielded} samples have been fetched."
            f"{where if self._loader.num_workers else ''}",
            stacklevel=3,
        )

    def __len__(self) -> int:
        return len(self._loader)


class LocalBatches(Iterator[Any]):
    """Batches of a loader fetched in the calling process. After an error of the data set, the next batch follows."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._is_iterable = loader._is_iterable
        self._indices = iter(loader._index_sampler)
        self._fetch = loader.fetching().fetcher()

    def __next__(self) -> Any:
        try:
            indices = next(self._indices)
            try:
                return self._fetch(indices)
            except StopIteration as error:
                if self._is_iterable:
                    raise
                raise RuntimeError("the data set raised StopIteration") from error
        except BaseException:
            hide_inner_frames()
            raise


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Iterator that fetches batches in the calling process."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Iterator whose batches worker processes fetch.

    Args:
        loader: The loader to iterate over.
        batches: the batches, as they come from `source` or changed.
        source: The owner of the processes.
    """

    def __init__(self, loader: DataLoader[Any], batches: Iterator[Any], source: WorkerBatches) -> None:
        super().__init__(loader, batches)
        self._source = source

    @property
    def _workers(self) -> list[BaseProcess]:
        """The worker processes."""
        return self._source.processes()

    def _shutdown_workers(self) -> None:
        """End the workers, also those that were to stay for other loops."""
        self._source.close()
