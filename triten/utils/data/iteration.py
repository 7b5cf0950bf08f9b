"""Iterator classes of `DataLoader`, by PyTorch's names; programs use them to detect loops with workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...runtime.profiler_ranges import recorded_range

if TYPE_CHECKING:
    from .dataloader import DataLoader


class _BaseDataLoaderIter(Iterator[Any]):
    """One loop over a loader. Its length is the loader's number of batches.

    Args:
        loader: The loader to iterate over.
        batches: the batches.
    """

    def __init__(self, loader: DataLoader[Any], batches: Iterator[Any]) -> None:
        self._loader = loader
        self._batches = batches

    def __next__(self) -> Any:
        with recorded_range(f"enumerate(DataLoader)#{type(self).__name__}.__next__"):
            return next(self._batches)

    def __len__(self) -> int:
        return len(self._loader)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Iterator that fetches batches in the calling process."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Iterator whose batches worker processes fetch.

    Args:
        loader: The loader to iterate over.
        batches: the batches, as they come from `workers` or changed.
        workers: The owner of the processes (`worker_batches.WorkerBatches`).
    """

    def __init__(self, loader: DataLoader[Any], batches: Iterator[Any], workers: Any) -> None:
        super().__init__(loader, batches)
        self._workers = workers

    def _shutdown_workers(self) -> None:
        """End the workers, also those that were to stay for other loops."""
        self._workers.close()
