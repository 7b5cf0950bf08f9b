"""Compiled convolutions, by tiles and by panels, agree with NumPy's matmuls on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.convolution import panel_weight_gradient, panels, tiles
from triten.dispatch.core.dispatcher import Dispatcher
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm


@pytest.fixture(autouse=True, params=["tiles", "panels"])
def small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[pytest.MonkeyPatch]:
    """Compile tiles or panels for small convolutions, shared among threads."""
    before = tt.get_num_threads()
    for name in ("MIN_CHANNELS", "MIN_OUTPUTS"):
        monkeypatch.setattr(panels, name, 1 if request.param == "panels" else 1 << 62)
    monkeypatch.setattr(tiles, "MIN_WORK", 1)
    monkeypatch.setattr(tiles, "SHARED_WORK", 1)
    Dispatcher.singleton().forget_all()
    yield monkeypatch
    Dispatcher.singleton().forget_all()
    tt.set_num_threads(before)


def made(x: Any, w: Any, bias: Any, g: Any, convolve: Any, *geometry: Any) -> list[tt.Tensor]:
    """Return a convolution and all of its gradients."""
    a, b, c = (tt.from_numpy(each).requires_grad_() for each in (x, w, bias))
    out = convolve(a, b, c, *geometry)
    if g.size != out.numel():
        g = np.random.default_rng(1).standard_normal(tuple(out.shape)).astype(x.dtype)
    return [out.detach(), *tt.autograd.grad(out, (a, b, c), tt.from_numpy(g))]


GEOMETRIES = {
    "a border": ((5, 3, 9, 8), (20, 3, 3, 3), 1, 1, 1, 1),
    "no border": ((2, 5, 9, 8), (7, 5, 3, 2), 1, 0, 1, 1),
    "two borders": ((2, 5, 9, 8), (9, 5, 3, 5), 1, (0, 3), 1, 1),
    "dilated": ((2, 4, 12, 11), (6, 4, 3, 3), 1, 2, 2, 1),
    "strided": ((3, 6, 13, 10), (5, 6, 3, 3), 2, 1, 1, 1),
    "strides of three, a remainder": ((2, 3, 17, 11), (4, 3, 5, 5), 3, 2, 1, 1),
    "strided and dilated": ((2, 3, 17, 15), (4, 3, 3, 3), 2, 2, 2, 1),
    "more stride than kernel": ((2, 3, 17, 15), (4, 3, 2, 2), 3, 0, 1, 1),
    "one element, strided": ((3, 6, 8, 9), (10, 6, 1, 1), 2, 0, 1, 1),
    "patches": ((3, 3, 12, 16), (24, 3, 4, 4), 4, 0, 1, 1),
    "groups": ((3, 12, 8, 8), (16, 3, 3, 3), 1, 1, 1, 4),
    "groups, strided": ((2, 6, 9, 9), (12, 2, 3, 3), 2, 1, 1, 3),
    "depthwise": ((3, 9, 7, 6), (9, 1, 3, 3), 1, 1, 1, 9),
    "depthwise, strided": ((3, 9, 7, 6), (9, 1, 5, 5), 2, 2, 1, 9),
    "depthwise, twice": ((2, 5, 7, 6), (10, 1, 7, 7), 1, 3, 1, 5),
    "many images": ((41, 2, 5, 4), (3, 2, 3, 3), 1, 1, 1, 1),
    "many outputs": ((3, 9, 9, 8), (21, 9, 3, 3), 1, 1, 1, 1),
    "many outputs, strided": ((2, 20, 9, 10), (37, 20, 3, 3), 2, 1, 1, 1),
    "many taps": ((2, 70, 6, 5), (9, 70, 3, 3), 1, 1, 1, 1),
    "one dimension": ((3, 4, 40), (6, 4, 5), 1, 2, 1, 1),
    "one dimension, strided": ((3, 4, 41), (6, 4, 5), 3, 2, 1, 1),
}


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_like_products(rng: np.random.Generator, small: pytest.MonkeyPatch, name: str, dtype: type) -> None:
    sizes, kernel, *geometry = GEOMETRIES[name]
    x, w = rng.standard_normal(sizes).astype(dtype), rng.standard_normal(kernel).astype(dtype)
    bias, g = rng.standard_normal(kernel[0]).astype(dtype), np.empty(0, dtype)
    convolve = (tt.conv1d, tt.conv2d)[len(sizes) - 3]
    found = []
    for threads in (1, 2, 5):
        tt.set_num_threads(threads)
        found.append(made(x, w, bias, g, convolve, *geometry))
    for other in found[1:]:
        for one, another in zip(found[0], other, strict=True):
            assert one.numpy().tobytes() == another.numpy().tobytes()
    small.setattr(tiles, "MIN_WORK", 1 << 62)
    Dispatcher.singleton().forget_all()
    expected = made(*(each.astype(np.float64) for each in (x, w, bias, g)), convolve, *geometry)
    near = 2e-6 if dtype is np.float32 else 1e-14
    for one, another in zip(found[0], expected, strict=True):
        exact = another.numpy()
        np.testing.assert_allclose(one.numpy(), exact, rtol=0, atol=near * max(1, np.abs(exact).max()))


@pytest.mark.parametrize("name", GEOMETRIES)
def test_bands_of_lines(rng: np.random.Generator, small: pytest.MonkeyPatch, name: str) -> None:
    sizes, kernel, *geometry = GEOMETRIES[name]
    given = (
        rng.standard_normal(sizes),
        rng.standard_normal(kernel),
        rng.standard_normal(kernel[0]),
        np.empty(0),
    )
    convolve = (tt.conv1d, tt.conv2d)[len(sizes) - 3]
    expected = made(*given, convolve, *geometry)
    for name, value in (
        ("PLANE_BYTES", 1 << 9),
        ("MIN_LINES", 2),
        ("MAX_POSITIONS", 30),
        ("MAX_SUMMED", 30),
    ):
        small.setattr(tiles, name, value)
    for name, value in (("PLANE_BYTES", 1 << 9), ("MIN_LINES", 2)):
        small.setattr(panels, name, value)
    small.setattr(panel_weight_gradient, "MAX_SUMMED_BYTES", 1 << 12)
    Dispatcher.singleton().forget_all()
    for one, another in zip(made(*given, convolve, *geometry), expected, strict=True):
        np.testing.assert_allclose(one.numpy(), another.numpy(), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("stride", "padding", "output_padding", "groups", "dilation"),
    [(2, 1, 1, 1, 1), (2, 0, 0, 1, 1), (3, 1, 2, 2, 1), (1, 1, 0, 1, 1), (2, 2, 1, 1, 2)],
)
def test_transposed(
    rng: np.random.Generator,
    small: pytest.MonkeyPatch,
    stride: int,
    padding: int,
    output_padding: int,
    groups: int,
    dilation: int,
) -> None:
    x, w = rng.standard_normal((3, 6, 5, 7)), rng.standard_normal((6, 4, 3, 3))
    bias, g = rng.standard_normal(4 * groups), np.empty(0)
    given = (x, w, bias, g, tt.conv_transpose2d, stride, padding, output_padding, groups, dilation)
    found = made(*given)
    small.setattr(tiles, "MIN_WORK", 1 << 62)
    Dispatcher.singleton().forget_all()
    for one, another in zip(found, made(*given), strict=True):
        np.testing.assert_allclose(one.numpy(), another.numpy(), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("where", ["input", "weight", "gradient"])
def test_what_is_not_finite_stays_in_place(
    rng: np.random.Generator, small: pytest.MonkeyPatch, where: str, value: float
) -> None:
    x, w, g = (
        rng.standard_normal((3, 3, 5, 4)),
        rng.standard_normal((4, 3, 3, 3)),
        rng.standard_normal((3, 4, 5, 4)),
    )
    {"input": x, "weight": w, "gradient": g}[where][1, 0, 2, 1] = value
    given = (x, w, np.zeros(4), g, tt.conv2d, 1, 1)
    found = made(*given)
    small.setattr(tiles, "MIN_WORK", 1 << 62)
    Dispatcher.singleton().forget_all()
    expected = [each.numpy() for each in made(*given)]
    if panels.MIN_OUTPUTS == 1:
        expected[0] = inside_sums(x, w)
    for one, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), exact, rtol=0, atol=1e-12)


def inside_sums(x: np.ndarray[Any, Any], w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the convolution with a border of 1 as sums over pixels alone, as PyTorch's: no zero meets a weight."""
    (n, _, height, width), (outputs, *_) = x.shape, w.shape
    out = np.zeros((n, outputs, height, width))
    for y, x_tap in np.ndindex(3, 3):
        for i, j in np.ndindex(height, width):
            if 0 <= i + y - 1 < height and 0 <= j + x_tap - 1 < width:
                out[:, :, i, j] += x[:, :, i + y - 1, j + x_tap - 1] @ w[:, :, y, x_tap].T
    return out


def test_operands_in_any_order(rng: np.random.Generator) -> None:
    x, w = rng.standard_normal((3, 6, 9, 8)), rng.standard_normal((5, 6, 3, 3))
    straight = tt.conv2d(tt.from_numpy(x), tt.from_numpy(w), None, 1, 1)
    turned = tt.conv2d(tt.from_numpy(np.asfortranarray(x)), tt.from_numpy(w).flip(0).flip(0), None, 1, 1)
    np.testing.assert_allclose(turned.numpy(), straight.numpy(), rtol=0, atol=1e-12)


def test_who_computes_is_told(rng: np.random.Generator) -> None:
    x, w = tt.from_numpy(rng.standard_normal((3, 6, 9, 8))), tt.from_numpy(rng.standard_normal((5, 6, 3, 3)))
    name = "compiled panels" if panels.MIN_OUTPUTS == 1 else "compiled tiles"
    assert name in str(tt.explain(tt.conv2d, x, w, None, 1, 1))
