"""Pipes of a function of each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...collate import default_collate
from ..datapipe import IterDataPipe, functional_datapipe
from ..utils.common import _check_unpickable_fn, validate_input_col
from .wrapper import Pipe, length_of

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(Pipe):
    """A function of each sample, or of some of its parts.

    Args:
        datapipe: The source.
        fn: The function.
        input_col: An index or key of a sample, or a list of several, that the function gets. Default: None, the sample.
        output_col: The index or key for the result, -1 to append it. Default: None, the first of `input_col`; the
            others are removed.

    Raises:
        ValueError: `output_col` is given without `input_col` or has several, or `fn` takes another number of arguments.
    """

    def __init__(
        self, datapipe: Pipe, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None
    ) -> None:
        _check_unpickable_fn(fn)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, list | tuple):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col
        validate_input_col(fn, input_col)

    def _apply_fn(self, sample: Any) -> Any:
        column = self.input_col
        if column is None:
            return self.fn(sample)
        several = isinstance(column, list | tuple)
        result = self.fn(*(sample[each] for each in column)) if several else self.fn(sample[column])
        was_tuple = isinstance(sample, tuple)
        parts = list(sample) if was_tuple else sample
        if self.output_col is None:
            first, *other_columns = column if several else [column]
            parts[first] = result
            for each in sorted(other_columns, reverse=True):
                del parts[each]
        elif self.output_col == -1:
            parts.append(result)
        else:
            parts[self.output_col] = result
        return tuple(parts) if was_tuple else parts

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield self._apply_fn(sample)

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches collated by a function.

    Args:
        datapipe: The source.
        conversion: The function. Default: `tt.utils.data.default_collate`.
        collate_fn: The function, by its older name. Default: None.
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        conversion: Callable[..., Any] = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(datapipe, conversion if collate_fn is None else collate_fn)
