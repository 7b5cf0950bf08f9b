"""Operators whose result grows exponentially in an argument: too large a result is refused before it is computed."""

import pytest

import triten as tt


@pytest.mark.parametrize(
    ("numel", "r", "with_replacement"),
    [
        (100, 60, False),
        (40, 8, False),
        (10000, 4, False),
        (30, 20, True),
        (3, 2**62, True),
    ],
)
def test_combinations_of_too_many_choices_are_refused(numel: int, r: int, with_replacement: bool) -> None:
    x = tt.ones(numel)
    with pytest.raises(
        RuntimeError, match=rf"combinations: {numel} elements, {r} at a time, .* choose a smaller r"
    ):
        tt.combinations(x, r, with_replacement)


@pytest.mark.parametrize(
    ("numel", "r", "with_replacement", "rows"),
    [(3, 100, False, 0), (0, 3, True, 0), (1, 5, True, 1), (5, 3, False, 10), (3, 4, True, 15)],
)
def test_combinations_of_few_choices_are_computed(
    numel: int, r: int, with_replacement: bool, rows: int
) -> None:
    assert tt.combinations(tt.arange(numel), r, with_replacement).shape == (rows, r)
