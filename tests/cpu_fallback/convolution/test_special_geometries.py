"""1x1 convolutions, depthwise convolutions of small planes and large weights each have an algorithm."""

from __future__ import annotations

import numpy as np
import pytest

import triten as tt


def reference(
    x: np.ndarray, w: np.ndarray, stride: int, padding: int, dilation: int, groups: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return a convolution, a gradient, and the gradients of input and weight, computed tap by tap and group
    by group.
    """
    x, w = x.astype(np.float64), w.astype(np.float64)
    rows, columns = (
        (n + 2 * padding - dilation * (k - 1) - 1) // stride + 1
        for n, k in zip(x.shape[2:], w.shape[2:], strict=True)
    )
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    out = np.zeros((len(x), len(w), rows, columns))
    g = np.random.default_rng(1).standard_normal(out.shape)
    of_x, of_w = np.zeros_like(padded), np.zeros_like(w)
    c, o = x.shape[1] // groups, len(w) // groups
    for group in range(groups):
        ins, outs = slice(group * c, group * c + c), slice(group * o, group * o + o)
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                down, along = (
                    slice(t * dilation, t * dilation + (n - 1) * stride + 1, stride)
                    for t, n in ((i, rows), (j, columns))
                )
                met = padded[:, ins, down, along]
                out[:, outs] += np.einsum("nchw,oc->nohw", met, w[outs, :, i, j])
                of_w[outs, :, i, j] = np.einsum("nohw,nchw->oc", g[:, outs], met)
                of_x[:, ins, down, along] += np.einsum("nohw,oc->nchw", g[:, outs], w[outs, :, i, j])
    inside = slice(padding, -padding or None)
    return out, g, of_x[:, :, inside, inside], of_w


@pytest.mark.parametrize(
    ("images", "channels", "size", "outputs", "kernel", "stride", "padding", "dilation", "groups"),
    [
        pytest.param(3, 6, (5, 4), 6, 3, 1, 1, 1, 6, id="depthwise"),
        pytest.param(2, 5, (5, 4), 5, 3, 2, 1, 2, 5, id="depthwise, strided and dilated"),
        pytest.param(2, 5, (2, 3), 5, 7, 1, 3, 1, 5, id="depthwise, a kernel larger than the plane"),
        pytest.param(2, 3, (40, 33), 3, 3, 2, 1, 1, 3, id="depthwise, strided, large planes"),
        pytest.param(1, 3, (38, 33), 3, 3, 3, 2, 2, 3, id="depthwise, strided and dilated, large planes"),
        pytest.param(1, 6, (5, 4), 4, 1, 1, 0, 1, 1, id="one element"),
        pytest.param(3, 6, (5, 4), 4, 1, 1, 0, 1, 2, id="one element, groups"),
        pytest.param(20, 6, (3, 4), 4, 1, 1, 0, 1, 1, id="one element, many images"),
        pytest.param(3, 40, (1, 2), 30, 1, 1, 0, 1, 1, id="one element, few positions"),
        pytest.param(3, 6, (1, 1), 4, 1, 1, 0, 1, 1, id="one element, planes of one"),
        pytest.param(3, 6, (1, 1), 4, 1, 1, 0, 1, 2, id="one element, planes of one, groups"),
        pytest.param(2, 120, (3, 2), 130, 3, 1, 1, 1, 1, id="a large weight"),
        pytest.param(3, 120, (9, 8), 130, 3, 1, 1, 1, 2, id="a large weight, groups"),
        pytest.param(2, 160, (16, 5), 160, 3, 2, 1, 1, 1, id="a large weight, strided"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_like_taps(
    rng: np.random.Generator,
    dtype: type,
    images: int,
    channels: int,
    size: tuple[int, int],
    outputs: int,
    kernel: int,
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
) -> None:
    x = rng.standard_normal((images, channels, *size)).astype(dtype)
    w = rng.standard_normal((outputs, channels // groups, kernel, kernel)).astype(dtype)
    bias = rng.standard_normal(outputs).astype(dtype)
    out, g, of_x, of_w = reference(x, w, stride, padding, dilation, groups)
    made = []
    for threads in (1, 3):
        before = tt.get_num_threads()
        tt.set_num_threads(threads)
        try:
            a, b = (tt.from_numpy(array).requires_grad_() for array in (x, w))
            result = tt.conv2d(a, b, tt.from_numpy(bias), stride, padding, dilation, groups)
            result.backward(tt.from_numpy(g.astype(dtype)))
        finally:
            tt.set_num_threads(before)
        made.append([result.detach().numpy(), a.grad.numpy(), b.grad.numpy()])
    atol = 1e-4 if dtype == np.float32 else 1e-11
    for results in made:
        for found, expected in zip(results, (out + bias[:, None, None], of_x, of_w), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("where", ["input", "weight"])
def test_what_is_not_finite_in_a_small_plane_stays_in_place(
    rng: np.random.Generator, where: str, value: float
) -> None:
    x, w = rng.standard_normal((2, 3, 5, 4)), rng.standard_normal((3, 1, 3, 3))
    (x if where == "input" else w)[(0, 0, 2, 1) if where == "input" else (0, 0, 0, 1)] = value
    out, g, of_x, of_w = reference(x, w, 1, 1, 1, 3)
    a, b = tt.from_numpy(x).requires_grad_(), tt.from_numpy(w).requires_grad_()
    result = tt.conv2d(a, b, None, 1, 1, 1, 3)
    result.backward(tt.from_numpy(g))
    if where == "input":  # an infinite weight meets the border's zeros, as in PyTorch
        np.testing.assert_allclose(result.detach().numpy(), out, atol=1e-11)
    np.testing.assert_allclose(a.grad.numpy(), of_x, atol=1e-11)
    np.testing.assert_allclose(b.grad.numpy(), of_w, atol=1e-11)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_an_infinite_weight_reaches_only_the_elements_that_it_met(rng: np.random.Generator) -> None:
    x, w = rng.standard_normal((2, 3, 30, 31)), rng.standard_normal((4, 3, 3, 3))
    w[1, 2, 0, 1] = np.inf
    for groups, outputs in ((1, 4), (3, 3)):
        weight = w if groups == 1 else np.ascontiguousarray(w[:outputs, :1])
        weight[0, 0, 0, 0] = np.inf
        _, g, of_x, _ = reference(x, weight, 1, 1, 1, groups)
        a = tt.from_numpy(x).requires_grad_()
        tt.conv2d(a, tt.from_numpy(weight), None, 1, 1, 1, groups).backward(tt.from_numpy(g))
        np.testing.assert_allclose(a.grad.numpy(), of_x, atol=1e-11)
