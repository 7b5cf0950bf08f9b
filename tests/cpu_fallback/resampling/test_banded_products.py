"""Interpolation by banded matrices agrees with dense ones, with non-finite values, and bytes in fixed point."""

from __future__ import annotations

import math

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.resampling import banded_products, line_maps
from triten.cpu_fallback.resampling.banded_products import LONG_TILE, TILE, Band

SEED = 22
interpolate = tt.nn.functional.interpolate


@pytest.mark.parametrize("lines", [1, 1 << 20])
@pytest.mark.parametrize(
    "n, out", [(1, 1), (1, 7), (7, 1), (13, TILE), (13, TILE + 1), (41, 2 * LONG_TILE + 3)]
)
def test_a_band_is_its_dense_matrix(n: int, out: int, lines: int) -> None:
    rng = np.random.default_rng(SEED)
    targets = np.repeat(np.arange(out), 3)
    sources = np.clip((targets * n) // out + np.tile([-1, 0, 1], out), 0, n - 1)
    weights = rng.standard_normal(len(targets))
    dense = np.zeros((n, out))
    np.add.at(dense, (sources, targets), weights)
    band = Band(n, out, sources, targets, weights, np.dtype(np.float64), lines)
    assert all(t.last - t.first <= (TILE if lines > 1 else LONG_TILE) for t in band.tiles)
    for count in (1, 127, 128, 129, 300):
        x = rng.standard_normal((count, n))
        np.testing.assert_allclose(band.apply(x, 1), x @ dense, 1e-12, 1e-12)
    x = rng.standard_normal((3, n, 5))
    np.testing.assert_allclose(band.apply(x, 1), np.einsum("inj,no->ioj", x, dense), 1e-12, 1e-12)


CASES = [
    ("linear", (2, 3, 37), (90,)),
    ("bilinear", (3, 5, 17, 23), (40, 9)),
    ("bilinear", (1, 1, 1, 5), (7, 1)),
    ("bicubic", (2, 3, 19, 11), (8, 53)),
    ("trilinear", (2, 2, 5, 6, 7), (9, 3, 20)),
]


def reference(x: np.ndarray, mode: str, sizes: tuple[int, ...], corners: bool) -> np.ndarray:
    """Interpolate in float64, one dimension after another, at the positions of PyTorch's documentation."""
    for axis, out in enumerate(sizes, 2):
        n = x.shape[axis]
        o = np.arange(out)
        if corners:
            at = o * ((n - 1) / (out - 1) if out > 1 else 0.0)
        else:
            at = (o + 0.5) * n / out - 0.5
        at = at if mode == "bicubic" else np.maximum(at, 0)
        first = np.floor(at).astype(int)
        part = at - first
        if mode == "bicubic":
            taps = [(k, line_maps.keys(np.abs(part - k), -0.75)) for k in (-1, 0, 1, 2)]
        else:
            taps = [(0, 1 - part), (1, part)]
        shape = [1] * x.ndim
        shape[axis] = out
        x = sum(np.take(x, np.clip(first + k, 0, n - 1), axis) * w.reshape(shape) for k, w in taps)
    return x


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode, shape, sizes", CASES)
def test_against_float64(mode: str, shape: tuple[int, ...], sizes: tuple[int, ...], corners: bool) -> None:
    x = np.random.default_rng(SEED).standard_normal(shape)
    want = reference(x, mode, sizes, corners)
    for dtype, tolerance in (
        (tt.float64, 1e-12),
        (tt.float32, 1e-5),
        (tt.bfloat16, 0.05),
        (tt.float16, 5e-3),
    ):
        t = tt.from_numpy(x).to(dtype)
        layouts = [t]
        if t.ndim == 4:
            layouts += [
                t.contiguous(memory_format=tt.channels_last),
                t.transpose(2, 3).contiguous().transpose(2, 3),
            ]
        for layout in layouts:
            got = interpolate(layout, size=sizes, mode=mode, align_corners=corners)
            np.testing.assert_allclose(got.double().numpy(), want, tolerance, tolerance, err_msg=f"{dtype}")
    leaf = tt.from_numpy(x).requires_grad_()
    grad = np.random.default_rng(SEED + 1).standard_normal(want.shape)
    interpolate(leaf, size=sizes, mode=mode, align_corners=corners).backward(tt.from_numpy(grad))
    # The map is linear, so its gradient is its transpose.
    other = np.random.default_rng(SEED + 2).standard_normal(shape)
    assert (leaf.grad.numpy() * other).sum() == pytest.approx(
        (grad * reference(other, mode, sizes, corners)).sum(), rel=1e-9
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_reaches_only_the_results_that_take_it(value: float) -> None:
    x = np.random.default_rng(SEED).standard_normal((3, 2, 20, 20)).astype(np.float32)
    want = reference(x.astype(np.float64), "bilinear", (40, 40), False)
    x[1, 1, 9, 4] = value
    got = interpolate(tt.from_numpy(x), size=(40, 40), mode="bilinear").numpy()
    touched = np.zeros((3, 2, 40, 40), bool)
    touched[1, 1, 17:21, 7:11] = True
    np.testing.assert_array_equal(~np.isfinite(got), touched)
    np.testing.assert_allclose(got[~touched], want[~touched], 1e-5, 1e-5)
    grad = np.ones((3, 2, 40, 40), np.float32)
    grad[1, 1, 18, 8] = value
    leaf = tt.from_numpy(np.zeros((3, 2, 20, 20), np.float32)).requires_grad_()
    interpolate(leaf, size=(40, 40), mode="bilinear").backward(tt.from_numpy(grad))
    assert (~np.isfinite(leaf.grad.numpy())).sum() == 4 and not np.isfinite(
        leaf.grad.numpy()[1, 1, 8:10, 3:5]
    ).any()


def test_results_are_those_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(banded_products, "GRAIN", 1)
    monkeypatch.setattr(line_maps, "SHARED_FROM", 1)
    x = tt.from_numpy(np.random.default_rng(SEED).standard_normal((5, 7, 12, 13)).astype(np.float32))
    before, found = tt.get_num_threads(), []
    try:
        for threads in (1, 3):
            tt.set_num_threads(threads)
            found.append(
                [interpolate(x, size=(31, 29), mode=m).numpy() for m in ("bilinear", "bicubic", "nearest")]
            )
    finally:
        tt.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_bytes_are_rounded_in_fixed_point() -> None:
    index = np.array([[0, 0], [0, 1], [1, 1]])
    weight = np.array([[0.25, 0.75], [0.75, 0.25], [0.5, 0.5]])
    fixed, bits = line_maps.fixed_point(index, weight)
    assert bits == 14 and fixed is not None
    np.testing.assert_array_equal(fixed, np.array([[4, 0], [3, 1], [4, 0]]) << 12)
    assert line_maps.fixed_point(index, None) == (None, 0)
    # A half is rounded up, at each dimension: 0.5 and 1.5 are not 0 and 2.
    x = tt.tensor([[[[0, 2], [0, 2]]]], dtype=tt.uint8)
    assert interpolate(x, size=(2, 4), mode="bilinear").tolist() == [[[[0, 1, 2, 2]] * 2]]


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_as_pytorch_has_them(mode: str, antialias: bool, corners: bool) -> None:
    torch = pytest.importorskip("torch")
    for shape, sizes in (((2, 3, 10, 11), (20, 22)), ((1, 5, 17, 23), (9, 40)), ((2, 1, 5, 5), (64, 3))):
        x = np.random.default_rng(SEED).integers(0, 256, shape).astype(np.uint8)
        options = {"size": sizes, "mode": mode, "align_corners": corners, "antialias": antialias}
        want = torch.nn.functional.interpolate(torch.from_numpy(x), **options)
        np.testing.assert_array_equal(interpolate(tt.from_numpy(x), **options).numpy(), want.numpy())
