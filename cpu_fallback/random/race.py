"""Winners of a race, by which indices are sampled without replacement."""

from __future__ import annotations

from typing import Any

from ..plain_numpy import np


def firsts(race: Any, count: int) -> Any:
    """Return the indices of the least numbers of each row, in order; of equal numbers the first ones.

    Example:
        >>> import numpy as np
        >>> firsts(np.array([[4.0, 1.0, 3.0, 1.0]]), 2).tolist()
        [[1, 3]]
    """
    columns = race.shape[1]
    if 4 * count >= columns:
        return np.argsort(race, axis=1, kind="stable")[:, :count]
    last = np.partition(race, count - 1, 1)[:, count - 1 : count]
    is_first = race <= last
    if np.count_nonzero(is_first) != len(race) * count:  # equal numbers
        return np.argsort(race, axis=1, kind="stable")[:, :count]
    some = np.flatnonzero(is_first).reshape(len(race), count)
    order = np.argsort(race.reshape(-1)[some], axis=1, kind="stable")
    return np.take_along_axis(some, order, 1) % columns
