"""Overlap inside a tensor and between two, from specs and addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

import triten as tt
from triten.dispatch.iterator.overlap import (
    MemOverlap,
    MemOverlapStatus,
    assert_no_internal_overlap,
    assert_no_overlap,
    assert_no_partial_overlap,
    check_write_overlap,
    get_overlap_status,
    has_internal_overlap,
)
from triten.runtime.device import CPU
from triten.runtime.scalar_type import float32
from triten.runtime.tensor_spec import TensorSpec


def spec(sizes, strides=None) -> TensorSpec:
    if strides is None:
        return TensorSpec.contiguous(sizes, float32, CPU)
    return TensorSpec.of(sizes, strides, float32, CPU)


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((2, 3), (3, 1), MemOverlap.NO),
        ((2, 3), (1, 2), MemOverlap.NO),
        ((2, 3), (0, 1), MemOverlap.YES),
        ((1, 3), (0, 1), MemOverlap.NO),
        ((0, 3), (0, 1), MemOverlap.NO),
        ((2, 3), (6, 2), MemOverlap.TOO_HARD),
        ((2, 3), (1, 1), MemOverlap.TOO_HARD),
    ],
)
def test_internal_overlap(sizes, strides, expected) -> None:
    assert has_internal_overlap(spec(sizes, strides)) is expected


def test_writing_to_an_expanded_tensor_is_refused() -> None:
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single"
    ):
        assert_no_internal_overlap(spec((2, 3), (0, 1)))
    assert_no_internal_overlap(spec((2, 3), (6, 2)))


@pytest.mark.parametrize(
    ("a", "at_a", "b", "at_b", "expected"),
    [
        (spec((4,)), 64, spec((4,)), 64, MemOverlapStatus.FULL),
        (spec((4,)), 64, spec((4,)), 68, MemOverlapStatus.PARTIAL),
        (spec((4,)), 64, spec((4,)), 80, MemOverlapStatus.NO),
        (spec((2, 2)), 64, spec((2, 2), (1, 2)), 64, MemOverlapStatus.PARTIAL),
        (spec((4,), (2,)), 64, spec((4,), (2,)), 68, MemOverlapStatus.TOO_HARD),
        (spec((4,), (2,)), 64, spec((4,), (2,)), 64, MemOverlapStatus.FULL),
        (spec((0,)), 64, spec((4,)), 64, MemOverlapStatus.NO),
        (spec((2,)), 64, spec((4,)), 64, MemOverlapStatus.PARTIAL),
    ],
)
def test_overlap_status(a, at_a, b, at_b, expected) -> None:
    assert get_overlap_status(a, at_a, b, at_b) is expected
    assert get_overlap_status(b, at_b, a, at_a) is expected


@given(some.integers(1, 6), some.integers(0, 12), some.integers(1, 6), some.integers(0, 12))
def test_dense_ranges_overlap_exactly_where_they_share_elements(n, at_n, m, at_m) -> None:
    shared = set(range(at_n, at_n + n)) & set(range(at_m, at_m + m))
    status = get_overlap_status(spec((n,)), 4 * at_n, spec((m,)), 4 * at_m)
    expected = (
        MemOverlapStatus.NO
        if not shared
        else MemOverlapStatus.FULL
        if (n, at_n) == (m, at_m)
        else MemOverlapStatus.PARTIAL
    )
    assert status is expected


def test_assertions_differ_in_what_full_overlap_means() -> None:
    four = spec((4,))
    assert_no_partial_overlap(four, 64, four, 64)
    for check, address in ((assert_no_overlap, 64), (assert_no_partial_overlap, 68)):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
            check(four, 64, four, address)


def test_tensors_are_compared_by_the_addresses_they_have() -> None:
    x = tt.ones(4)
    check_write_overlap(x, x)
    check_write_overlap(x, tt.ones(4))
    check_write_overlap(x[:2], x[2:])
    with pytest.raises(RuntimeError, match="Please clone"):
        check_write_overlap(x[1:], x[:3])


def test_meta_tensors_overlap_within_one_storage_only() -> None:
    x = tt.ones(4, device="meta")
    check_write_overlap(x[1:], tt.ones(3, device="meta"))
    check_write_overlap(x, tt.ones(3, device="meta"))
    with pytest.raises(RuntimeError, match="Please clone"):
        check_write_overlap(x[1:], x[:3])
