"""Pooling, interpolation and sampling of small arrays agree with those of large ones, at every edge."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional


def maxima(x, kernel, stride, padding, dilation, out):
    """Return the maximum of each window of a plane: the first of equal elements, the last of NaNs."""
    values, places = np.empty(out, x.dtype), np.empty(out, np.int64)
    for o in np.ndindex(*out):
        best, place = None, None
        for tap in itertools.product(*map(range, kernel)):
            at = tuple(
                a * s - p + t * d for a, s, p, t, d in zip(o, stride, padding, tap, dilation, strict=True)
            )
            if any(not 0 <= a < n for a, n in zip(at, x.shape, strict=True)):
                continue
            if best is None or x[at] > best or x[at] != x[at]:
                best, place = x[at], int(np.ravel_multi_index(at, x.shape))
        values[o], places[o] = best, place
    return values, places


def images(rng, size, dtype=np.float32):
    x = rng.integers(-2, 3, (2, 3, *size)).astype(dtype)
    return x


@pytest.mark.parametrize(
    ("size", "window"),
    [
        ((6, 7), ((3, 2), (2, 1), (1, 0), (1, 2), True)),
        ((5, 5), ((2, 3), (1, 2), (0, 1), (1, 1), False)),
        ((4, 3, 5), ((2, 2, 3), (1, 2, 2), (1, 0, 1), (1, 1, 1), True)),
    ],
)
@pytest.mark.parametrize("special", ["equals", "nan", "infinite"])
def test_maxima_are_those_of_the_taps_one_after_another(rng, size, window, special):
    x = images(rng, size)
    if special != "equals":
        x.reshape(-1)[rng.integers(0, x.size, 25)] = np.nan if special == "nan" else -np.inf
    pool = F.max_pool2d if len(size) == 2 else F.max_pool3d
    kernel, stride, padding, dilation, ceil_mode = window
    values, places = pool(tt.tensor(x), kernel, stride, padding, dilation, ceil_mode, return_indices=True)
    alone = pool(tt.tensor(x), kernel, stride, padding, dilation, ceil_mode)
    for n, c in np.ndindex(2, 3):
        found, at = maxima(x[n, c], kernel, stride, padding, dilation, tuple(values.shape[2:]))
        np.testing.assert_array_equal(values.numpy()[n, c], found)
        np.testing.assert_array_equal(places.numpy()[n, c], at)
        np.testing.assert_array_equal(alone.numpy()[n, c], found)


def test_the_sign_of_a_zero_is_that_of_the_element_found():
    x = tt.tensor([[[[-0.0, 0.0, 0.0, -0.0]]]])
    found = F.max_pool2d(x, (1, 2)).numpy()
    assert np.signbit(found).tolist() == [[[[True, False]]]]


@pytest.mark.parametrize("dtype", [tt.bfloat16, tt.float16, tt.float64])
def test_maxima_of_other_dtypes(rng, dtype):
    x = tt.tensor(images(rng, (5, 6))).to(dtype)
    large = tt.cat([x] * 40)  # beyond the table
    for pool in (
        lambda t: F.max_pool2d(t, 2, 1, return_indices=True),
        lambda t: F.adaptive_max_pool2d(t, (3, 4), True),
    ):
        for small, whole in zip(pool(x), pool(large), strict=True):
            assert small.dtype is whole.dtype
            np.testing.assert_array_equal(small.double().numpy(), whole[:2].double().numpy())


@pytest.mark.parametrize("special", [1.0, math.inf, -math.inf, math.nan, 3e38])
@pytest.mark.parametrize(
    "average",
    [
        lambda x: F.avg_pool2d(x, 3, 2, 1, True, False),
        lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5),
        lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
        lambda x: F.interpolate(x, (4, 9), mode="bilinear", align_corners=True),
        lambda x: F.interpolate(x, (7, 3), mode="bicubic"),
        lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
        lambda x: F.interpolate(x, (7, 3), mode="nearest"),
        lambda x: F.interpolate(x, (3, 4), mode="area"),
    ],
)
def test_small_averages_are_those_of_large_arrays(rng, average, special):
    x = rng.standard_normal((2, 3, 6, 7)).astype(np.float32)
    x[0, 1, 2, 3] = special
    x[1, 2, 5, 6] = -special
    small, large = average(tt.tensor(x)), average(tt.cat([tt.tensor(x)] * 60))
    assert small.is_contiguous()
    np.testing.assert_allclose(small.numpy(), large[:2].numpy(), rtol=2e-6, atol=2e-6)
    last = average(tt.tensor(x).contiguous(memory_format=tt.channels_last))
    assert last.stride() == tt.empty(last.shape).contiguous(memory_format=tt.channels_last).stride()
    np.testing.assert_allclose(last.numpy(), small.numpy(), rtol=2e-6, atol=2e-6)


def test_a_sum_of_negative_zeros_is_zero():
    x = tt.full((1, 1, 4, 4), -0.0)
    assert not np.signbit(F.avg_pool2d(x, 2).numpy()).any()
    assert not np.signbit(F.adaptive_avg_pool2d(x, 3).numpy()).any()


def test_interpolation_to_a_size_is_not_planned_for_factors():
    x = tt.arange(4.0).reshape(1, 1, 4)
    for factor, size in ((2.0, 8), (1.5, 6), (3.0, 12)):
        assert F.interpolate(x, scale_factor=factor, mode="linear").shape == (1, 1, size)
        assert F.interpolate(x, size=size, mode="linear").shape == (1, 1, size)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("places", [3, 150])
def test_places_outside_are_zero_whatever_lies_at_the_edge(rank, align_corners, places):
    image = np.full((1, 2, *(3,) * rank), np.inf, np.float32)
    grid = np.full((1, *(1,) * (rank - 1), places, rank), 5.0, np.float32)
    for k, outside in enumerate([-np.inf, np.inf, np.nan, -1e30, 2.5]):
        grid[..., k % places, 0] = outside
    found = F.grid_sample(tt.tensor(image), tt.tensor(grid), align_corners=align_corners)
    assert not found.numpy().any()
    # The centre of the middle element is that element, whatever its neighbours are.
    middle = image.copy()
    middle[(slice(None), slice(None), *(1,) * rank)] = 7
    at = F.grid_sample(
        tt.tensor(np.where(middle == 7, middle, 1)), tt.zeros(1, *(1,) * rank, rank), align_corners=True
    )
    assert at.reshape(-1).tolist() == [7, 7]


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_windows_of_small_arrays_are_those_of_large_ones(rng, rank):
    size, out = ((7, 6, 5)[:rank], (3, 4, 2)[:rank])
    pool = F.fractional_max_pool2d if rank == 2 else F.fractional_max_pool3d
    x = rng.standard_normal((2, 3, *size)).astype(np.float32)
    x.reshape(-1)[::17] = np.nan
    samples = rng.random((60, 3, rank)).astype(np.float32)
    some = pool(tt.tensor(x), 2, out, return_indices=True, _random_samples=tt.tensor(samples[:2]))
    every = pool(
        tt.tensor(np.concatenate([x] * 30)), 2, out, return_indices=True, _random_samples=tt.tensor(samples)
    )
    for small, large in zip(some, every, strict=True):
        np.testing.assert_array_equal(small.numpy(), large[:2].numpy())


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.float64])
@pytest.mark.parametrize("special", [0, 1])
def test_maxima_of_long_shares(rng, dtype, special):
    x = tt.tensor(rng.integers(-9, 9, (40, 3, 2, 96)).astype(np.float32)).to(dtype)
    if special:
        x[1, 2, 1, 50] = x[1, 2, 1, 70] = np.nan
    values, places = F.adaptive_max_pool2d(x, (2, 3), return_indices=True)
    lines = x.double().numpy().reshape(40, 3, 6, 32)
    at = np.where(np.isnan(lines).any(-1), 31 - np.isnan(lines)[..., ::-1].argmax(-1), lines.argmax(-1))
    expected = np.take_along_axis(lines, at[..., None], -1)[..., 0]
    np.testing.assert_array_equal(values.double().numpy().reshape(40, 3, 6), expected)
    np.testing.assert_array_equal(places.numpy().reshape(40, 3, 6), at + 32 * np.arange(6))
