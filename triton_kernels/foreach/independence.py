"""Independence of a foreach call's rows: no row writes memory of another, so they may run in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.tensor_spec import TensorSpec
from ..optimizers.tensor_table import KEPT


class Rows:
    """The rows of lists of gapless tensors, of which the first list is written.

    Args:
        lists: the specs of each list, all of as many.
    """

    def __init__(self, lists: Sequence[Sequence[TensorSpec]]) -> None:
        self._sizes = np.array([spec.nbytes for spec in lists[0]], np.int64)
        self._found: dict[tuple[int, ...], bool] = {}

    def are_independent(self, columns: Sequence[Sequence[Any]]) -> bool:
        """Return True if no row writes what another reads or writes; a row may read what it writes.

        Args:
            columns: the bytes of each list, a `DataPtr` a row.
        """
        addresses = tuple([data.address for column in columns for data in column])
        independent = self._found.get(addresses)
        if independent is None:
            independent = self._compared(np.array(addresses, np.int64).reshape(len(columns), -1))
            if len(self._found) >= KEPT:
                self._found.clear()
            self._found[addresses] = independent
        return independent

    def _compared(self, addresses: Any) -> bool:
        filled = np.flatnonzero(self._sizes)
        written, sizes = addresses[0][filled], self._sizes[filled]
        order = np.argsort(written)
        starts = written[order]
        ends = starts + sizes[order]
        if (ends[:-1] > starts[1:]).any():
            return False
        for column in addresses[1:]:
            read = column[filled]
            # Written rows from the first that ends behind the row's begin, up to the last that begins before its end.
            first = np.searchsorted(ends, read, "right")
            count = np.searchsorted(starts, read + sizes, "left") - first
            met = order[np.minimum(first, len(order) - 1)]
            is_own = (met == np.arange(len(filled))) & (read == written)
            if ((count > 1) | ((count == 1) & ~is_own)).any():
                return False
        return True
