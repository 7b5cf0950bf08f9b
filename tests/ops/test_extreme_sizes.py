"""Sizes at the ends of 64 bits: sums and differences that do not wrap around, and errors that name the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

MOST, LEAST = 2**63 - 1, -(2**63)

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: tt.repeat_interleave(tt.tensor([2**62] * 4)), rf"overflowed with sizes=\[{2**64}\]"),
    (lambda: tt.repeat_interleave(tt.tensor([2**62] * 5)), rf"overflowed with sizes=\[{5 * 2**62}\]"),
    (lambda: tt.repeat_interleave(tt.ones(4), tt.tensor([2**62] * 4)), rf"sizes=\[{2**64}\]"),
    (lambda: tt.repeat_interleave(tt.tensor([MOST, MOST, 3])), rf"sizes=\[{2 * MOST + 3}\]"),
    (lambda: tt.repeat_interleave(tt.tensor([LEAST, 1])), "repeats can not be negative"),
    (lambda: tt.ones(3).repeat(0, MOST), rf"overflowed with sizes=\[0, {3 * MOST}\]"),
    (lambda: tt.arange(LEAST, MOST), "invalid size, possible overflow"),
    (lambda: tt.bincount(tt.tensor([MOST])), "maximum value of input overflowed"),
    (lambda: tt.sparse_coo_tensor(tt.tensor([[MOST]]), tt.ones(1)), rf"overflowed with sizes=\[{2**63}\]"),
]


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_sizes_beyond_64_bits_are_refused(place: int) -> None:
    call, message = REFUSED[place]
    with pytest.raises(RuntimeError, match=message):
        call()


def test_large_repeats_that_fit_are_exact() -> None:
    with pytest.raises((RuntimeError, MemoryError), match=r"bytes of memory|overflowed"):
        tt.repeat_interleave(tt.tensor([2**61, 2**61]))
    assert tt.repeat_interleave(tt.tensor([2, 0, 1])).tolist() == [0, 0, 2]
    assert tt.repeat_interleave(tt.tensor([5.0, 7.0]), tt.tensor([1, 2])).tolist() == [5.0, 7.0, 7.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: tt.empty(2**50),
        lambda: tt.arange(2**50),
        lambda: tt.empty_strided((2, 2), (2**50, 1)),
        lambda: tt.UntypedStorage(MOST),
        lambda: tt.UntypedStorage(2**50),
        lambda: tt.ones(3).untyped_storage().resize_(MOST),
    ],
)
def test_the_error_of_memory_names_the_tensors_bytes(call: Callable[[], Any]) -> None:
    with pytest.raises(MemoryError, match=r"a tensor needs [0-9]+ bytes of memory, which the system"):
        call()


def test_chains_of_many_matrices_are_multiplied() -> None:
    matrices = [tt.tensor([[2.0]])] + [tt.tensor([[1.0]])] * 119
    assert tt.linalg.multi_dot(matrices).tolist() == [[2.0]]
    a, b, c = tt.arange(6.0).reshape(2, 3), tt.arange(3.0).reshape(3, 1), tt.tensor([[2.0, 1.0]])
    assert tt.linalg.multi_dot([a, b, c]).tolist() == [[10.0, 5.0], [28.0, 14.0]]


def test_a_chain_may_have_more_parts_than_python_has_frames() -> None:
    from triten.dispatch.composite.contraction import _chain

    n = 3000
    splits = {(i, n - 1): i for i in range(n - 1)}
    assert _chain([tt.ones(1, 1)] * n, splits).tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("extents", "splits"),
    [
        # Cormen et al., 15.2: the optimal order is ((A1 (A2 A3)) ((A4 A5) A6)).
        (
            [30, 35, 15, 5, 10, 20, 25],
            {(0, 5): 2, (0, 2): 0, (1, 2): 1, (3, 5): 4, (3, 4): 3},
        ),
        ([1, 2, 3], {(0, 1): 0}),
    ],
)
def test_the_order_has_the_fewest_multiplications(extents: list[int], splits: dict[Any, int]) -> None:
    from triten.dispatch.composite.contraction import find_splits

    assert find_splits(extents).items() >= splits.items()


def test_a_sampler_of_many_indices_draws_a_few_at_once() -> None:
    sampler = tt.utils.data.RandomSampler([7], replacement=True, num_samples=2**62)
    assert next(iter(sampler)) == 0
    assert list(tt.utils.data.RandomSampler([7], replacement=True, num_samples=70)) == [0] * 70
