"""CPU kernels that compute in blocks: norms, maxima and convolutions in every layout, threaded or not, at
the edges.
"""

import tracemalloc

import numpy as np
import pytest

import triten as tt
import triten.nn.functional as F
from triten.cpu_fallback.convolution import columns as convolution_columns
from triten.cpu_fallback.convolution import convolution
from triten.cpu_fallback.elementwise import pointwise_math as arithmetic
from triten.cpu_fallback.elementwise import selection
from triten.cpu_fallback.normalization import moments, row_norm
from triten.cpu_fallback.pooling import pooling


def laid_out(array, layout):
    """Return a tensor of these values: contiguous, channels-last, or strided by two."""
    x = tt.from_numpy(np.ascontiguousarray(array))
    if layout == "channels_last":
        return x.contiguous(memory_format=tt.channels_last)
    if layout == "strided":
        wide = tt.zeros(*array.shape[:-1], 2 * array.shape[-1], dtype=x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    return x


LAYOUTS = ["contiguous", "channels_last", "strided"]


# --- choosing


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.float16, np.bool_])
@pytest.mark.parametrize("n", [0, 1, selection.SMALL, selection.SMALL + 1, 5003])
def test_a_choice_is_bit_by_bit(rng, dtype, n):
    a, b = (rng.integers(-9, 9, n).astype(dtype) for _ in range(2))
    if dtype in (np.float32, np.float64) and n > 3:
        a[:4], b[:4] = [np.nan, np.inf, -0.0, 1], [1, -np.inf, 0.0, np.nan]
    mask = rng.random(n) < 0.5
    got = selection.selected(mask, a, b)
    expected = np.where(mask, a, b)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.view(np.uint8), expected.view(np.uint8))
    np.testing.assert_array_equal(
        selection.selected(mask[:, None], a[:, None], b[None, :3]),
        np.where(mask[:, None], a[:, None], b[None, :3]),
    )


@pytest.mark.parametrize("offset", [0, 3])
def test_gelu_in_float32_is_that_of_the_normal_distribution(offset):
    from scipy import special

    x = np.concatenate([np.linspace(-14, 14, 20001), np.geomspace(1e-30, 1e18, 2000)]).astype(np.float32)[
        offset:
    ]
    wide = x.astype(np.float64)
    share = special.ndtr(wide)
    a = tt.from_numpy(x).requires_grad_()
    y = F.gelu(a)
    y.sum().backward()
    eps = np.finfo(np.float32).eps
    np.testing.assert_allclose(y.detach().numpy(), wide * share, rtol=3 * eps, atol=eps * 14)
    slope = share + wide * np.exp(-wide * wide / 2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(a.grad.numpy(), slope, rtol=4 * eps, atol=4 * eps)
    grown = np.diff(arithmetic.normal_share(np.linspace(0, 40, 4001, dtype=np.float32))[0])
    assert (grown >= -eps).all()
    edges = F.gelu(tt.tensor([np.nan, np.inf, 0.0, -0.0])).numpy()
    assert np.isnan(edges[0]) and edges[1] == np.inf and list(np.signbit(edges[2:])) == [False, True]


@pytest.mark.parametrize("name", ["elu", "mish", "hardswish", "hardsigmoid", "leaky_relu", "softplus"])
def test_activations_at_the_edges_and_in_place_of_their_argument(rng, name):
    x = np.concatenate([rng.standard_normal(5000) * 30, [np.inf, -np.inf, np.nan, 0.0, -0.0, 89.0, -104.0]])
    large, small = (getattr(F, name)(tt.from_numpy(x.astype(t))).numpy() for t in (np.float32, np.float64))
    np.testing.assert_allclose(large, small.astype(np.float32), rtol=1e-5, atol=1e-5)
    assert np.array_equal(np.isnan(large), np.isnan(small))


# --- sums and moments


@pytest.mark.parametrize(
    "n", [0, 1, 7, moments.CHUNK - 1, moments.CHUNK, moments.CHUNK + 1, 3 * moments.CHUNK + 5]
)
def test_row_sums_are_as_good_as_pairwise_ones(rng, n):
    a = (rng.standard_normal((5, n)) + 100).astype(np.float32)
    exact = a.astype(np.float64).sum(1)
    np.testing.assert_allclose(moments.row_dots(a, moments.ones(n, a.dtype)), exact, rtol=2e-6)
    np.testing.assert_allclose(moments.row_dots(a, a), (a.astype(np.float64) ** 2).sum(1), rtol=2e-6)


@pytest.mark.parametrize("rows", [0, 1, 127, 128, 129, 1000])
@pytest.mark.parametrize("n", [1, 3, 1023, 1024, 1500])
def test_column_sums_are_as_good_as_pairwise_ones(rng, rows, n):
    a = (rng.standard_normal((rows, n)) + 100).astype(np.float32)
    np.testing.assert_allclose(moments.column_sums(a), a.astype(np.float64).sum(0), rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("lengths", [[5], [5, 1], [1, 2, 3, 40]])
def test_moments_of_blocks_combine(rng, lengths):
    parts = [rng.standard_normal(n) + 1e3 for n in lengths]
    counts = np.array(lengths, np.float64)
    means = np.array([p.mean() for p in parts])
    squares = np.array([((p - p.mean()) ** 2).sum() for p in parts])
    mean, square = moments.combined(counts, means, squares, (0,))
    whole = np.concatenate(parts)
    np.testing.assert_allclose(mean, whole.mean(), rtol=1e-14)
    np.testing.assert_allclose(square, ((whole - whole.mean()) ** 2).sum(), rtol=1e-9)


# --- norms


def normalised(x, axes, weight, bias, eps=1e-5):
    """Normalize in float64."""
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("other", LAYOUTS)
@pytest.mark.parametrize("groups", [None, 1, 3])
def test_channel_norms_of_every_layout_and_block(monkeypatch, rng, threads, layout, other, groups):
    for block in (8, 64, 1 << 16):
        monkeypatch.setattr("triten.cpu_fallback.normalization.channel_norm.BLOCK", block)
        monkeypatch.setattr("triten.cpu_fallback.normalization.channel_norm.GRAIN", 1)
        # Plans are kept by shape.
        sizes = (3, 6, 5 + threads, 3 + block.bit_length())
        x, g = (rng.standard_normal(sizes) * 2 + 5 for _ in range(2))
        weight, bias = rng.standard_normal(6), rng.standard_normal(6)
        a = laid_out(x, layout).requires_grad_()
        w, b = (tt.from_numpy(p).requires_grad_() for p in (weight, bias))
        y = F.batch_norm(a, None, None, w, b, True) if groups is None else F.group_norm(a, groups, w, b)
        wide = (weight[:, None, None], bias[:, None, None])
        if groups is None:
            expected = normalised(x, (0, 2, 3), *wide)
        else:
            split = x.reshape(3, groups, -1)
            expected = normalised(split, (2,), 1, 0).reshape(sizes) * wide[0] + wide[1]
        np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-10, atol=1e-10)
        y.backward(laid_out(g, other))
        axes = (0, 2, 3) if groups is None else (2,)
        shape = sizes if groups is None else (3, groups, -1)
        gw, xs = (g * wide[0]).reshape(shape), x.reshape(shape)
        rstd = 1 / np.sqrt(xs.var(axes, keepdims=True) + 1e-5)
        hat = (xs - xs.mean(axes, keepdims=True)) * rstd
        slope = rstd * (gw - gw.mean(axes, keepdims=True) - hat * (gw * hat).mean(axes, keepdims=True))
        np.testing.assert_allclose(a.grad.numpy(), slope.reshape(sizes), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(
            w.grad.numpy(), (g * hat.reshape(sizes)).sum((0, 2, 3)), rtol=1e-9, atol=1e-9
        )
        np.testing.assert_allclose(b.grad.numpy(), g.sum((0, 2, 3)), rtol=1e-9)


def test_statistics_of_channels_hold_where_float32_sums_do_not(rng):
    x = (rng.standard_normal((4, 3, 70, 70)) + 3000).astype(np.float32)
    mean, var = tt.zeros(3), tt.ones(3)
    F.batch_norm(tt.from_numpy(x), mean, var, None, None, True, 1.0)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean.numpy(), wide.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(var.numpy(), wide.var((0, 2, 3), ddof=1), rtol=1e-4)
    large = tt.full((2, 3, 5, 5), 3e38)
    large[0] = 1e38
    mean = tt.zeros(3)
    F.batch_norm(large, mean, tt.ones(3), None, None, True, 1.0)
    np.testing.assert_allclose(mean.numpy(), 2e38, rtol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_what_is_not_finite_stays_within_its_statistics(value, layout):
    x = np.ones((2, 4, 5, 7), np.float32)
    x[:, :, 0] = 2
    x[1, 2, 3, 4] = value
    y = F.group_norm(laid_out(x, layout), 2).numpy()
    broken = np.zeros((2, 4), bool)
    broken[1, 2:] = True
    np.testing.assert_array_equal(np.isnan(y).all((2, 3)), broken)
    np.testing.assert_array_equal(np.isnan(y).any((2, 3)), broken)
    y = F.batch_norm(laid_out(x, layout), None, None, None, None, True).numpy()
    np.testing.assert_array_equal(np.isnan(y).any((0, 2, 3)), [False, False, True, False])


@pytest.mark.parametrize("n", [1, 7, moments.CHUNK, moments.CHUNK + 3])
def test_row_norms_in_blocks_and_strips(monkeypatch, rng, threads, n):
    monkeypatch.setattr(moments, "BLOCK", 4 * n)
    monkeypatch.setattr(row_norm, "GRAIN", 1)
    monkeypatch.setattr(row_norm, "STRIPS", 3)
    rows = 37 + threads
    x, g = rng.standard_normal((2, rows, n)) + 3
    weight, bias = rng.standard_normal((2, n))
    a, w, b = (tt.from_numpy(p.copy()).requires_grad_() for p in (x, weight, bias))
    y = F.layer_norm(a, (n,), w, b)
    np.testing.assert_allclose(y.detach().numpy(), normalised(x, (1,), weight, bias), rtol=1e-9, atol=1e-9)
    y.backward(tt.from_numpy(g))
    rstd = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    hat, gw = (x - x.mean(1, keepdims=True)) * rstd, g * weight
    slope = rstd * (gw - gw.mean(1, keepdims=True) - hat * (gw * hat).mean(1, keepdims=True))
    np.testing.assert_allclose(a.grad.numpy(), slope, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(w.grad.numpy(), (g * hat).sum(0), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(b.grad.numpy(), g.sum(0), rtol=1e-9, atol=1e-10)


def test_results_do_not_depend_on_the_number_of_threads(rng):
    x, g = (tt.from_numpy(rng.standard_normal((8, 48, 56, 57)).astype(np.float32)) for _ in range(2))
    before = tt.get_num_threads()
    seen = []
    for count in (1, 2, 5):
        tt.set_num_threads(count)
        a, w = x.clone().requires_grad_(), tt.ones(48, requires_grad=True)
        b, v = x.clone().requires_grad_(), tt.ones(56, 57, requires_grad=True)
        F.batch_norm(a, None, None, w, None, True).backward(g)
        F.layer_norm(b, (56, 57), v).backward(g)
        seen.append([t.grad.numpy().tobytes() for t in (a, w, b, v)])
    tt.set_num_threads(before)
    assert seen[0] == seen[1] == seen[2]


# --- maxima


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("window", [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2), (2, 3, 0, 1)])
def test_maxima_in_blocks(monkeypatch, rng, threads, layout, window):
    kernel, stride, padding, dilation = window
    for block in (5, 40, 1 << 15):
        monkeypatch.setattr(pooling, "BLOCK", block)
        monkeypatch.setattr(pooling, "GRAIN", 1)
        sizes = (3, 4, 9 + threads, 8 + block.bit_length())
        x = rng.integers(-3, 4, sizes).astype(np.float32)
        x[x == 0] *= rng.choice([-1.0, 1.0], (x == 0).sum()).astype(np.float32)
        if block == 40:
            x.reshape(-1)[rng.integers(0, x.size, 30)] = rng.choice([np.nan, np.inf, -np.inf], 30)
        y, at = F.max_pool2d(laid_out(x, layout), kernel, stride, padding, dilation, return_indices=True)
        border = np.full((3, 4, sizes[2] + 2 * padding, sizes[3] + 2 * padding), -np.inf, np.float32)
        border[:, :, padding : padding + sizes[2], padding : padding + sizes[3]] = x
        place = np.full(border.shape[2:], -1)
        place[padding : padding + sizes[2], padding : padding + sizes[3]] = np.arange(
            sizes[2] * sizes[3]
        ).reshape(sizes[2:])
        y, at = y.numpy(), at.numpy()
        for i, j in np.ndindex(y.shape[2:]):
            rows = slice(i * stride, i * stride + (kernel - 1) * dilation + 1, dilation)
            columns = slice(j * stride, j * stride + (kernel - 1) * dilation + 1, dilation)
            inside = place[rows, columns].reshape(-1) >= 0
            seen = border[:, :, rows, columns].reshape(12, -1)[:, inside]
            places = place[rows, columns].reshape(-1)[inside]
            nan = np.isnan(seen)
            first = np.where(
                nan.any(1), seen.shape[1] - 1 - nan[:, ::-1].argmax(1), np.where(nan, 0, seen).argmax(1)
            )
            value = seen[np.arange(12), first]
            np.testing.assert_array_equal(y[:, :, i, j].reshape(-1), value)
            np.testing.assert_array_equal(
                np.signbit(y[:, :, i, j].reshape(-1)[value == 0]), np.signbit(value[value == 0])
            )
            np.testing.assert_array_equal(at[:, :, i, j].reshape(-1), places[first])


@pytest.mark.parametrize("kernel", [15, 16, 17])
def test_windows_of_more_taps_than_a_byte_counts(rng, kernel):
    x = rng.standard_normal((2, 3, 40, 41))
    y, at = F.max_pool2d(tt.from_numpy(x), kernel, 5, return_indices=True)
    np.testing.assert_array_equal(
        y.numpy().reshape(6, -1), np.take_along_axis(x.reshape(6, -1), at.numpy().reshape(6, -1), 1)
    )
    np.testing.assert_array_equal(
        y.numpy()[:, :, 1, 2], x[:, :, 5 : 5 + kernel, 10 : 10 + kernel].max((2, 3))
    )


@pytest.mark.parametrize("n, out", [(12, 4), (12, 5), (7, 7), (7, 1), (5, 9), (130, 65), (131, 67)])
def test_even_shares_and_others(rng, n, out):
    x = rng.standard_normal((2, 3, n, 6))
    a = tt.from_numpy(x).requires_grad_()
    y = F.adaptive_avg_pool2d(a, (out, 3))
    g = rng.standard_normal(y.shape)
    y.backward(tt.from_numpy(g))
    expected, slope = np.empty(y.shape), np.zeros(x.shape)
    for i in range(out):
        rows = slice(i * n // out, -(-(i + 1) * n // out))
        for j in range(3):
            part = x[:, :, rows, 2 * j : 2 * j + 2]
            expected[:, :, i, j] = part.mean((2, 3))
            slope[:, :, rows, 2 * j : 2 * j + 2] += g[:, :, i, j, None, None] / (part.shape[2] * 2)
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(a.grad.numpy(), slope, rtol=1e-12, atol=1e-12)
    top = F.adaptive_max_pool2d(tt.from_numpy(x), (out, 3)).numpy()
    np.testing.assert_array_equal(top[:, :, 0, 0], x[:, :, : -(-n // out), :2].max((2, 3)))


# --- convolution


def convolved(x, w, stride, padding, dilation, groups):
    """Convolve in float64, tap by tap."""
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * 2])
    n, _, *size = x.shape
    o, each, *kernel = w.shape
    out = [(s - (k - 1) * dilation - 1) // stride + 1 for s, k in zip(size, kernel, strict=True)]
    y = np.zeros((n, groups, o // groups, *out))
    for i, j in np.ndindex(*kernel):
        rows = slice(i * dilation, i * dilation + (out[0] - 1) * stride + 1, stride)
        columns = slice(j * dilation, j * dilation + (out[1] - 1) * stride + 1, stride)
        seen = x[:, :, rows, columns].reshape(n, groups, each, *out)
        y += np.einsum("ngchw,goc->ngohw", seen, w[:, :, i, j].reshape(groups, o // groups, each))
    return y.reshape(n, o, *out)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "geometry", [(1, 1, 1, 1), (2, 1, 1, 1), (1, 0, 2, 2), (1, 1, 1, 6), (1, 3, 1, 1), (3, 2, 1, 3)]
)
def test_convolutions_in_blocks(monkeypatch, rng, layout, geometry):
    stride, padding, dilation, groups = geometry
    for columns in (1, 700, 1 << 20):
        monkeypatch.setattr(convolution_columns, "COLUMN_BYTES", columns)
        monkeypatch.setattr(convolution_columns, "MIN_POSITIONS", 1)
        monkeypatch.setattr(convolution_columns, "MIN_PRODUCTS", 1)
        monkeypatch.setattr(convolution, "FEW_POSITIONS", 0 if columns < 1000 else 1 << 10)
        # Plans are kept by shape.
        sizes = (3, 6, 9, 7 + columns.bit_length())
        x, w, b = (
            rng.standard_normal(sizes),
            rng.standard_normal((12, 6 // groups, 3, 2)),
            rng.standard_normal(12),
        )
        a = laid_out(x, layout).requires_grad_()
        weight, bias = (tt.from_numpy(p).requires_grad_() for p in (w, b))
        y = F.conv2d(a, weight, bias, stride, padding, dilation, groups)
        np.testing.assert_allclose(
            y.detach().numpy(),
            convolved(x, w, stride, padding, dilation, groups) + b[:, None, None],
            rtol=1e-11,
            atol=1e-11,
        )
        g = rng.standard_normal(y.shape)
        y.backward(laid_out(g, layout))
        # The convolution is linear in both: <g, conv(d, w)> = <grad, d>.
        for step, grad in ((rng.standard_normal(sizes), a.grad), (rng.standard_normal(w.shape), weight.grad)):
            moved = (step, w) if grad is a.grad else (x, step)
            slope = (g * convolved(*moved, stride, padding, dilation, groups)).sum()
            np.testing.assert_allclose((grad.numpy() * step).sum(), slope, rtol=1e-10, atol=1e-9)
        np.testing.assert_allclose(bias.grad.numpy(), g.sum((0, 2, 3)), rtol=1e-10)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_reaches_only_the_windows_that_have_it(rng, value):
    x, w = rng.standard_normal((1, 2, 9, 9)), rng.standard_normal((3, 2, 3, 3))
    x[0, 1, 4, 5] = value
    y = F.conv2d(tt.from_numpy(x), tt.from_numpy(w), padding=1).numpy()
    reached = np.zeros((9, 9), bool)
    reached[3:6, 4:7] = True
    np.testing.assert_array_equal(~np.isfinite(y[0]), np.broadcast_to(reached, (3, 9, 9)))


# --- memory


@pytest.mark.parametrize("name", ["convolution", "batch_norm", "layer_norm", "max_pool"])
def test_memory_is_that_of_the_output_and_of_a_few_blocks(name):
    x = tt.rand(2, 16, 200, 301)
    w = tt.rand(16, 16, 3, 3)
    run = {
        "convolution": lambda: F.conv2d(x, w, padding=1),
        "batch_norm": lambda: F.batch_norm(x, None, None, None, None, True),
        "layer_norm": lambda: F.layer_norm(x, (301,)),
        "max_pool": lambda: F.max_pool2d(x, 3, 1, 1),
    }[name]
    run()
    tracemalloc.start()
    y = run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Maxima have their indices too.
    output = y.numel() * y.element_size() * (3 if name == "max_pool" else 1)
    assert output <= peak < output + (40 << 20)


# --- borders


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("pad", [(1, 2, 3, 0), (0, 0, 2, 2), (-1, 2, 1, -2), (3, -3, 0, 1)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_borders_of_what_is_there(rng, mode, pad, layout):
    x = rng.standard_normal((2, 3, 6, 5))
    wide = np.pad(
        x,
        [(0, 0), (0, 0), *[(max(p, 0), max(q, 0)) for p, q in (pad[2:], pad[:2])]],
        {"replicate": "edge"}.get(mode, mode),
    )
    crop = [
        slice(max(-p, 0), n - max(-q, 0))
        for (p, q), n in zip((pad[2:], pad[:2]), wide.shape[2:], strict=True)
    ]
    got = F.pad(laid_out(x, layout), pad, mode)
    np.testing.assert_array_equal(got.numpy(), wide[:, :, crop[0], crop[1]])
