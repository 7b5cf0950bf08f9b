"""`Size` is a tuple of integers whose slices, sums and multiples are sizes."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import numpy as np
import pytest

import triten as tt


def test_what_is_made_of_sizes_are_sizes() -> None:
    size = tt.Size([2, 3])
    sums = operator.add(size, (4,)), operator.add((4,), size)
    for made in (*sums, size * 2, 2 * size, size[:1], tt.ones(2, 3).shape[1:]):
        assert type(made) is tt.Size
    assert sums == ((2, 3, 4), (4, 2, 3)) and size * 2 == (2, 3, 2, 3)
    assert size.numel() == 6 and tt.Size().numel() == 1
    assert pickle.loads(pickle.dumps(size)) == size


def test_integers_of_any_kind_are_sizes() -> None:
    size = tt.Size([np.int64(2), tt.tensor(3), True])
    assert size == (2, 3, 1) and all(type(n) is int for n in size)


@pytest.mark.parametrize(
    ("sizes", "place", "kind"),
    [([1.5], 0, "float"), ((1, "a"), 1, "str"), ([2, tt.tensor(1.0)], 1, "Tensor")],
)
def test_what_is_no_integer_is_refused(sizes: Any, place: int, kind: str) -> None:
    with pytest.raises(TypeError, match=rf"iterable of 'int' \(item {place} is '{kind}'\)"):
        tt.Size(sizes)


def test_a_sum_with_no_tuple_is_refused() -> None:
    with pytest.raises(TypeError):
        operator.add([1], tt.Size([2]))
