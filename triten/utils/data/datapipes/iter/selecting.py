"""Pipes of some of the samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..datapipe import functional_datapipe
from ..utils.common import StreamWrapper, _check_unpickable_fn, validate_input_col
from .wrapper import Pipe

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(Pipe):
    """The samples for which a function returns True.

    Args:
        datapipe: The source.
        filter_fn: The function, which must return a bool.
        input_col: An index or key of a sample, or a list of several, that the function gets. Default: None, the sample.

    Raises:
        ValueError: In the loop: the function returns something else.
    """

    def __init__(self, datapipe: Pipe, filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        _check_unpickable_fn(filter_fn)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col
        validate_input_col(filter_fn, input_col)

    def _is_kept(self, sample: Any) -> bool:
        column = self.input_col
        if column is None:
            is_kept = self.filter_fn(sample)
        elif isinstance(column, list | tuple):
            is_kept = self.filter_fn(*(sample[each] for each in column))
        else:
            is_kept = self.filter_fn(sample[column])
        if not isinstance(is_kept, bool):
            raise ValueError(
                "Boolean output is required for `filter_fn` of FilterIterDataPipe, got", type(is_kept)
            )
        return is_kept

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            if self._is_kept(sample):
                yield sample
            else:
                StreamWrapper.close_streams(sample)
