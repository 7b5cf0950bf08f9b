"""How a batch is fetched: the samples of some indices, or the next ones of a stream, put together."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple


class Fetching(NamedTuple):
    """Picklable settings of a fetcher: everything of a `DataLoader` that fetching needs."""

    dataset: Any
    is_iterable: bool
    collate_fn: Callable[[Any], Any]
    is_batched: bool
    drop_last: bool

    def fetcher(self) -> Callable[[Any], Any]:
        """Return a function from an index, or a list of indices, to a batch.

        A stream's fetcher uses only the length of the list. It raises StopIteration at the end.
        """
        return _stream_fetcher(self) if self.is_iterable else _index_fetcher(self)


def _index_fetcher(fetching: Fetching) -> Callable[[Any], Any]:
    dataset, collate = fetching.dataset, fetching.collate_fn
    if not fetching.is_batched:
        return lambda index: collate(dataset[index])
    at_once = getattr(dataset, "__getitems__", None)
    if at_once:
        return lambda indices: collate(at_once(indices))
    return lambda indices: collate([dataset[index] for index in indices])


def _stream_fetcher(fetching: Fetching) -> Callable[[Any], Any]:
    samples, collate = iter(fetching.dataset), fetching.collate_fn
    if not fetching.is_batched:
        return lambda _: collate(next(samples))

    def fetch(indices: list[None]) -> Any:
        batch = list(itertools.islice(samples, len(indices)))
        if not batch or (fetching.drop_last and len(batch) < len(indices)):
            raise StopIteration
        return collate(batch)

    return fetch
