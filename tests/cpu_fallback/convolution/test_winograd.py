"""Winograd convolution F(2, 3) agrees with the sum by taps for every geometry, number of threads and values."""

from collections.abc import Iterator

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.convolution import winograd
from triten.dispatch.core.dispatcher import Dispatcher


@pytest.fixture(params=[1 << 13, 1 << 20])
def part_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Use parts of the given bytes, for every geometry with three rows."""
    for name, value in {
        "PART_BYTES": request.param,
        "MIN_POSITIONS": 1,
        "MIN_CHANNELS": 1,
        "MIN_WORK": 1,
        "MIN_PART": 1,
        "MIN_WIDTH": 20,
        "SMALL_PRODUCT": 200,
    }.items():
        monkeypatch.setattr(winograd, name, value)
    Dispatcher.singleton().forget_all()
    yield request.param
    Dispatcher.singleton().forget_all()


def by_taps(x: np.ndarray, w: np.ndarray, padding: tuple[int, int], dilation: int) -> np.ndarray:
    (ph, pw), (rows, taps) = padding, w.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    height, width = padded.shape[2] - rows + 1, padded.shape[3] - (taps - 1) * dilation
    return sum(
        np.einsum(
            "nchw,oc->nohw", padded[:, :, i : i + height, j * dilation : j * dilation + width], w[:, :, i, j]
        )
        for i in range(rows)
        for j in range(taps)
    )


GEOMETRIES = [
    pytest.param(3, (8, 24), (1, 1), 3, 1, id="even"),
    pytest.param(4, (7, 25), (1, 1), 3, 1, id="odd"),
    pytest.param(4, (7, 25), (0, 0), 1, 1, id="one tap, no border"),
    pytest.param(3, (5, 30), (2, 4), 5, 2, id="five taps, dilated"),
    pytest.param(3, (3, 30), (0, 1), 3, 1, id="one row of a result"),
]


@pytest.mark.parametrize(("images", "size", "padding", "taps", "dilation"), GEOMETRIES)
def test_like_taps(
    rng: np.random.Generator,
    part_bytes: int,
    images: int,
    size: tuple[int, int],
    padding: tuple[int, int],
    taps: int,
    dilation: int,
) -> None:
    x, w = rng.standard_normal((images, 3, *size)), rng.standard_normal((5, 3, 3, taps))
    bias = rng.standard_normal(5)
    expected = by_taps(x, w, padding, dilation) + bias[:, None, None]
    g = rng.standard_normal(expected.shape)
    turned = ((2 - padding[0]), (taps - 1) * dilation - padding[1])
    of_x = by_taps(g, w[:, :, ::-1, ::-1].swapaxes(0, 1), turned, dilation)
    of_w = np.zeros_like(w)
    (ph, pw), (rows, columns) = padding, g.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    for i in range(3):
        for j in range(taps):
            met = padded[:, :, i : i + rows, j * dilation : j * dilation + columns]
            of_w[:, :, i, j] = np.einsum("nohw,nchw->oc", g, met)
    made = []
    before = tt.get_num_threads()
    for threads in (1, 3):
        tt.set_num_threads(threads)
        try:
            a, b = tt.from_numpy(x).requires_grad_(), tt.from_numpy(w).requires_grad_()
            out = tt.conv2d(a, b, tt.from_numpy(bias), 1, padding, (1, dilation))
            out.backward(tt.from_numpy(g))
        finally:
            tt.set_num_threads(before)
        made.append([out.detach().numpy(), a.grad.numpy(), b.grad.numpy()])
    assert "F(2, 3)" in str(
        tt.explain(tt.conv2d, a, tt.from_numpy(w), tt.from_numpy(bias), 1, padding, (1, dilation))
    )
    for found, correct in zip(made[0], (expected, of_x, of_w), strict=True):
        np.testing.assert_allclose(found, correct, atol=1e-11)
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one, other)


def test_small_integers_give_exact_results(rng: np.random.Generator, part_bytes: int) -> None:
    x, w = (rng.integers(-8, 9, sizes).astype(np.float32) for sizes in ((4, 6, 9, 20), (5, 6, 3, 3)))
    out = tt.conv2d(tt.from_numpy(x), tt.from_numpy(w), None, 1, 1)
    np.testing.assert_array_equal(out.numpy(), by_taps(x, w, (1, 1), 1))


def test_narrow_floats_are_computed_in_float32(rng: np.random.Generator, part_bytes: int) -> None:
    x, w = (tt.from_numpy(rng.standard_normal(sizes)) for sizes in ((4, 6, 9, 20), (5, 6, 3, 3)))
    x, w = x.to(tt.bfloat16), w.to(tt.bfloat16)
    out = tt.conv2d(x, w, None, 1, 1)
    expected = by_taps(x.double().numpy(), w.double().numpy(), (1, 1), 1)
    assert out.dtype is tt.bfloat16
    np.testing.assert_allclose(out.double().numpy(), expected, rtol=2**-8, atol=1e-4)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e38])
@pytest.mark.parametrize("where", ["input", "weight"])
def test_what_is_not_finite_stays_in_place(
    rng: np.random.Generator, part_bytes: int, where: str, value: float
) -> None:
    x, w = (rng.standard_normal(sizes).astype(np.float32) for sizes in ((4, 3, 9, 20), (5, 3, 3, 3)))
    (x if where == "input" else w)[(1, 2, 4, 6) if where == "input" else (1, 2, 0, 1)] = value
    a, b = tt.from_numpy(x).requires_grad_(), tt.from_numpy(w).requires_grad_()
    out = tt.conv2d(a, b, None, 1, 1)
    with np.errstate(all="ignore"):
        expected = by_taps(x.astype(np.float64), w.astype(np.float64), (1, 1), 1)
        expected = expected.astype(np.float32)
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-4, atol=1e-4)
    g = rng.standard_normal(expected.shape).astype(np.float32)
    out.backward(tt.from_numpy(g))
    of_x, of_w = np.zeros((4, 3, 11, 22)), np.zeros(w.shape)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    with np.errstate(all="ignore"):
        for i in range(3):
            for j in range(3):
                met = of_x[:, :, i : i + g.shape[2], j : j + g.shape[3]]
                met += np.einsum("nohw,oc->nchw", g.astype(np.float64), w[:, :, i, j].astype(np.float64))
                of_w[:, :, i, j] = np.einsum("nohw,nchw->oc", g, padded[:, :, i : i + 9, j : j + 20])
        of_x = of_x[:, :, 1:-1, 1:-1].astype(np.float32)
    np.testing.assert_allclose(a.grad.numpy(), of_x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(b.grad.numpy(), of_w.astype(np.float32), rtol=1e-4, atol=1e-4)
