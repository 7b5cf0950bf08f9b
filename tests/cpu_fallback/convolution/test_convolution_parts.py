"""Convolution in parts is bitwise identical for every number of threads; non-finite values stay in place."""

from collections.abc import Iterator

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.convolution import columns as convolution_columns
from triten.cpu_fallback.convolution import rows as convolution_rows
from triten.dispatch.core.dispatcher import Dispatcher


@pytest.fixture(params=[8, 40, 1 << 20])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Use blocks of the given number of positions, with new plans."""
    for name, value in {
        "COLUMN_BYTES": 4,
        "GROUPED_BYTES": 4,
        "MIN_POSITIONS": request.param,
        "MIN_PRODUCTS": 1,
    }.items():
        monkeypatch.setattr(convolution_columns, name, value)
    for name, value in {
        "PART_BYTES": 200 * request.param,
        "MIN_PART": 1,
        "MIN_WIDTH": 8,
        "SHORT": 1,
        "SMALL_PRODUCT": 20 * request.param,
        "MIN_LINE": 3,
    }.items():
        monkeypatch.setattr(convolution_rows, name, value)
    before = tt.get_num_threads()
    Dispatcher.singleton().forget_all()
    yield request.param
    Dispatcher.singleton().forget_all()
    tt.set_num_threads(before)


def by_taps(
    x: np.ndarray, w: np.ndarray, g: np.ndarray, padding: tuple[int, int], dilation: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of input and weight, summed tap by tap."""
    (ph, pw), (rows, columns) = padding, g.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    of_x, of_w = np.zeros_like(padded), np.zeros_like(w)
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            at = (..., slice(i * dilation, i * dilation + rows), slice(j * dilation, j * dilation + columns))
            of_w[:, :, i, j] = np.einsum("nohw,nchw->oc", g, padded[at])
            of_x[at] += np.einsum("nohw,oc->nchw", g, w[:, :, i, j])
    inside = of_x[:, :, ph : of_x.shape[2] - ph, pw : of_x.shape[3] - pw]
    return inside, of_w


@pytest.mark.parametrize("outputs", [2, 7])  # gathered, and added tap by tap
@pytest.mark.parametrize("padding", [(1, 1), (0, 0), (1, 0), (2, 2)])
@pytest.mark.parametrize("infinite", ["none", "input", "weight"])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_gradients(
    rng: np.random.Generator, blocks: int, outputs: int, padding: tuple[int, int], infinite: str
) -> None:
    dilation = 1 + (padding == (2, 2))
    x, w = rng.standard_normal((5, 3, 6, 7)), rng.standard_normal((outputs, 3, 3, 3))
    if infinite != "none":
        a = x if infinite == "input" else w
        a[tuple(rng.integers(0, n) for n in a.shape)] = np.inf
    made = []
    for threads in (1, 2, 3):
        tt.set_num_threads(threads)
        a, b = (tt.from_numpy(array.copy()).requires_grad_() for array in (x, w))
        out = tt.conv2d(a, b, None, 1, padding, dilation)
        g = np.random.default_rng(1).standard_normal(tuple(out.shape))
        out.backward(tt.from_numpy(g))
        made.append([out.detach().numpy(), a.grad.numpy(), b.grad.numpy()])
    for found, expected in zip(made[0][1:], by_taps(x, w, g, padding, dilation), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    for other in made[1:]:
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(made[0], other, strict=True))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "padding", "dilation"),
    [
        ((3, 1), (1, 0), 1),
        ((1, 3), (0, 1), 1),
        ((3, 3), (1, 1), 1),
        ((3, 5), (2, 4), 2),
        ((3, 3), (2, 1), 1),
        ((2, 5), (1, 2), 1),
        ((4, 3), (0, 1), 1),
        ((1, 3), (0, 3), 3),
    ],
)
def test_rows_of_several_images_side_by_side(
    rng: np.random.Generator,
    blocks: int,
    kernel: tuple[int, int],
    padding: tuple[int, int],
    dilation: int,
    groups: int,
) -> None:
    """Pad either dimension, both or none: rows and images share borders, and rows without padding have no
    gaps.
    """
    x, w = rng.standard_normal((5, 4, 6, 7)), rng.standard_normal((6, 4 // groups, *kernel))
    b = rng.standard_normal(6)
    a, v = (tt.from_numpy(array).requires_grad_() for array in (x, w))
    out = tt.conv2d(a, v, tt.from_numpy(b), 1, padding, dilation, groups)
    g = rng.standard_normal(tuple(out.shape))
    out.backward(tt.from_numpy(g))
    of = [
        (slice(i * 4 // groups, (i + 1) * 4 // groups), slice(i * 6 // groups, (i + 1) * 6 // groups))
        for i in range(groups)
    ]
    padded = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    expected = np.zeros(out.shape) + b[:, None, None]
    for channels, outputs in of:
        for i, j in np.ndindex(kernel):
            met = padded[:, channels, i * dilation :, j * dilation :][..., : g.shape[2], : g.shape[3]]
            expected[:, outputs] += np.einsum("nchw,oc->nohw", met, w[outputs, :, i, j])
    np.testing.assert_allclose(out.detach().numpy(), expected, atol=1e-9)
    parts = [by_taps(x[:, c], w[o], g[:, o], padding, dilation) for c, o in of]
    for found, axis, each in ((a.grad, 1, [p[0] for p in parts]), (v.grad, 0, [p[1] for p in parts])):
        np.testing.assert_allclose(found.numpy(), np.concatenate(each, axis), atol=1e-9)


@pytest.mark.parametrize("padding", [0, 1, 2])
def test_long_lines_go_in_blocks(padding: int) -> None:
    x = tt.randn(2, 64, 3700, requires_grad=True)
    w = tt.randn(4, 64, 5, requires_grad=True)
    made = tt.conv1d(x, w, padding=padding)
    grad = tt.randn(*made.shape)
    made.backward(grad)
    padded = np.pad(x.detach().numpy().astype(np.float64), ((0, 0), (0, 0), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 5, 2)
    expected = np.einsum("nclk,ock->nol", windows, w.detach().numpy(), optimize=True)
    np.testing.assert_allclose(made.detach().numpy(), expected, rtol=1e-4, atol=1e-4)
    of_weight = np.einsum("nclk,nol->ock", windows, grad.numpy(), optimize=True)
    np.testing.assert_allclose(w.grad.numpy(), of_weight, rtol=1e-4, atol=2e-3)
    spread = np.pad(grad.numpy().astype(np.float64), ((0, 0), (0, 0), (4, 4)))
    lines = np.lib.stride_tricks.sliding_window_view(spread, 5, 2)
    of_input = np.einsum("nolk,ock->ncl", lines, w.detach().numpy()[:, :, ::-1], optimize=True)
    of_input = of_input[:, :, padding : padding + 3700]
    np.testing.assert_allclose(x.grad.numpy(), of_input, rtol=1e-4, atol=1e-4)
