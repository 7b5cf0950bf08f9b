"""Operators whose result grows exponentially in an argument: too large a result is refused before it is computed."""

from collections.abc import Callable

import pytest

import triten as tt
from triten.tests.shared.large_outputs import ALLOWED, CALLS, MOST


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


@pytest.mark.parametrize(
    ("device", "size"), [("cpu", 2**46), ("cuda", 2**46), ("meta", 2**46), ("meta", MOST)]
)
@pytest.mark.parametrize("name", CALLS)
def test_large_results_are_refused_at_once(name: str, device: str, size: int) -> None:
    with tt.device(device):
        try:
            CALLS[name](size)
        except ALLOWED:
            return
    assert device == "meta", "no machine has the memory of such a result"


@pytest.mark.parametrize("split", [tt.unbind, lambda x: tt.split(x, 1), lambda x: tt.chunk(x, 2**40)])
def test_more_views_than_fit_in_memory_are_refused(split: Callable[[tt.Tensor], object]) -> None:
    with pytest.raises(RuntimeError, match=rf"{2**40} views are more than"):
        split(tt.ones(1).expand(2**40))


def test_distances_of_meta_are_not_computed_in_parts() -> None:
    assert tt.pdist(tt.ones(1, 1, device="meta").expand(2**20, 1)).shape == (2**19 * (2**20 - 1),)
