"""Names whose overloads share no signature keep one plan for all calls with the same metadata."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

PLACES = tt.tensor([[1, 0], [0, 1]])
A, B = tt.tensor([[1.0, 5.0], [3.0, 2.0]]), tt.tensor([[4.0, 1.0], [2.0, 6.0]])

TWICE: dict[str, tuple[Callable[..., Any], Any]] = {
    "isin": (lambda a, b: tt.isin(a, b), [[True, False], [False, True]]),
    "max": (lambda a, b: tt.max(a, b), [[4.0, 5.0], [3.0, 6.0]]),
    "max by name": (lambda a, b: tt.max(a, other=b), [[4.0, 5.0], [3.0, 6.0]]),
    "min": (lambda a, b: a.min(b), [[1.0, 1.0], [2.0, 2.0]]),
    "scatter": (lambda a, b: a.scatter(1, PLACES, b), [[1.0, 4.0], [2.0, 6.0]]),
    "scatter by names": (lambda a, b: tt.scatter(a, dim=1, src=b, index=PLACES), [[1.0, 4.0], [2.0, 6.0]]),
    "histogram": (lambda a, b: tt.histogram(a, 2, range=(0.0, 6.0), weight=b)[0], [10.0, 3.0]),
}


@pytest.mark.parametrize("name", TWICE)
def test_one_tensor_in_two_places_is_two_arguments(name: str) -> None:
    call, expected = TWICE[name]
    for tensor in (A, B):
        call(tensor, tensor)
    assert call(A, B).tolist() == expected
    assert call(A.clone(), B).tolist() == expected


def test_a_number_is_told_from_an_equal_dimension() -> None:
    x = tt.zeros(2, 2)
    for value in (1, 5):
        assert x.scatter(1, PLACES, value).tolist() == [[value, value]] * 2
