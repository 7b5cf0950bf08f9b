"""Pooling over volumes and adaptive pooling agree with single windows, on both backends."""

import itertools
import math

import numpy as np
import pytest

import triten as tt
from triten.dispatch.generated import functions as ops

F = tt.nn.functional
DEVICES = ["cpu", "cuda"]
VOLUMES = {
    "plain": ((2, 3, 4, 6, 4), 2, 2, 0, 1, False),
    "overlapping": ((1, 2, 5, 4, 6), 3, (1, 2, 1), 1, 1, False),
    "spread": ((1, 2, 7, 8, 6), (3, 2, 2), (2, 1, 3), (1, 0, 1), (2, 3, 1), True),
    "no batch": ((2, 4, 4, 5), (2, 1, 3), 1, 0, 1, False),
}
SHARES = [(1, 1), (2, 3), (5, 4), (7, 1), (9, 11)]


def axis_windows(n, k, s, p, d, ceil):
    """Return the positions of each window along a dimension, without those outside."""
    reach = n + 2 * p - d * (k - 1) - 1
    out = (-(-reach // s) if ceil else reach // s) + 1
    if ceil and (out - 1) * s >= n + p:
        out -= 1
    return [[t for t in range(i * s - p, i * s - p + (k - 1) * d + 1, d) if 0 <= t < n] for i in range(out)]


def share_windows(n, out):
    return [list(range(i * n // out, -(-(i + 1) * n // out))) for i in range(out)]


def reference(x, axes, divisor=None):
    """Return the maxima with their indices, and the means, of windows over the last dimensions."""
    rank, out = len(axes), [len(a) for a in axes]
    spatial = x.shape[-rank:]
    flat = x.reshape(-1, math.prod(spatial))
    top, at, mean = (np.zeros((len(flat), *out), t) for t in (x.dtype, np.int64, np.float64))
    for where in itertools.product(*[range(n) for n in out]):
        grid = np.meshgrid(*[axes[d][i] for d, i in enumerate(where)], indexing="ij")
        inside = np.ravel_multi_index([g.reshape(-1) for g in grid], spatial)
        part = flat[:, inside]
        pick = part.argmax(1)
        top[(slice(None), *where)] = part[np.arange(len(flat)), pick]
        at[(slice(None), *where)] = inside[pick]
        mean[(slice(None), *where)] = part.astype(np.float64).sum(1) / (divisor or part.shape[1])
    lead = x.shape[:-rank]
    return tuple(r.reshape(*lead, *out) for r in (top, at, mean))


def three(value):
    return (value,) * 3 if isinstance(value, int) else value


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", VOLUMES.values(), ids=VOLUMES)
def test_volumes(rng, case, device):
    sizes, kernel, stride, padding, dilation, ceil = case
    a = rng.integers(-9, 9, sizes).astype(np.float64)
    x = tt.from_numpy(a).to(device)
    lists = [three(v) for v in (kernel, stride, padding, dilation)]
    axes = [axis_windows(n, *own, ceil) for n, *own in zip(sizes[-3:], *lists, strict=True)]
    top, at, _ = reference(a, axes)
    values, indices = F.max_pool3d(x, kernel, stride, padding, dilation, ceil, return_indices=True)
    np.testing.assert_array_equal(values.cpu().numpy(), top)
    np.testing.assert_array_equal(indices.cpu().numpy(), at)
    if dilation == 1:
        mean = reference(a, axes)[2]
        got = F.avg_pool3d(x, kernel, stride, padding, ceil, count_include_pad=False)
        np.testing.assert_allclose(got.cpu().numpy(), mean, atol=1e-12)
        by_five = reference(a, axes, 5)[2]
        got = F.avg_pool3d(x, kernel, stride, padding, ceil, divisor_override=5)
        np.testing.assert_allclose(got.cpu().numpy(), by_five, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("out", SHARES, ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["nchw", "nhwc"])
def test_even_shares(rng, device, out, last):
    a = rng.integers(-9, 9, (2, 3, 7, 8)).astype(np.float64)
    x = tt.from_numpy(a).to(device)
    if last:
        x = x.to(memory_format=tt.channels_last)
    top, at, mean = reference(a, [share_windows(n, o) for n, o in zip((7, 8), out, strict=True)])
    values, indices = F.adaptive_max_pool2d(x, out, return_indices=True)
    np.testing.assert_array_equal(values.cpu().numpy(), top)
    np.testing.assert_array_equal(indices.cpu().numpy(), at)
    np.testing.assert_allclose(F.adaptive_avg_pool2d(x, out).cpu().numpy(), mean, atol=1e-12)
    if last and out != (1, 1):
        assert values.is_contiguous(memory_format=tt.channels_last)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("out", [(2, 3, 2), (5, 1, 7)], ids=str)
def test_even_shares_of_volumes(rng, device, out):
    a = rng.integers(-9, 9, (2, 4, 5, 6)).astype(np.float64)
    x = tt.from_numpy(a).to(device)
    top, at, mean = reference(a, [share_windows(n, o) for n, o in zip((4, 5, 6), out, strict=True)])
    values, indices = F.adaptive_max_pool3d(x, out, return_indices=True)
    np.testing.assert_array_equal(values.cpu().numpy(), top)
    np.testing.assert_array_equal(indices.cpu().numpy(), at)
    np.testing.assert_allclose(F.adaptive_avg_pool3d(x, out).cpu().numpy(), mean, atol=1e-12)


POOLS = {
    "max_pool3d": (lambda x: F.max_pool3d(x, 3, 2, 1), (1, 2, 5, 6, 4)),
    "spread max_pool3d": (lambda x: F.max_pool3d(x, 2, (1, 2, 3), 1, (2, 1, 3)), (1, 2, 5, 6, 8)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 3, 2, 1, True), (1, 2, 5, 6, 4)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 9)), (1, 2, 7, 5)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (3, 9)), (1, 2, 7, 5)),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 5, 3)), (1, 2, 3, 4, 5)),
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, (2, 5, 3)), (1, 2, 3, 4, 5)),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 3), (2, 2, 7)),
    "lp_pool2d": (lambda x: F.lp_pool2d(x.abs() + 0.5, 3, 2), (1, 2, 4, 6)),
}


@pytest.mark.parametrize("name", POOLS)
def test_gradients(name, rng, same):
    pool, sizes = POOLS[name]
    a = tt.from_numpy(rng.permutation(math.prod(sizes)).reshape(sizes) * 0.1)
    assert tt.autograd.gradcheck(pool, (a.requires_grad_(),))
    seed = tt.from_numpy(rng.standard_normal(tuple(pool(a).shape)))
    gradients = []
    for device in ("cuda", "cpu"):
        x = a.detach().to(device).requires_grad_()
        pool(x).backward(seed.to(device))
        gradients.append(x.grad)
    same(*gradients, 1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_nan_is_the_largest_and_the_last_counts(device):
    x = tt.ones(1, 1, 4, 4, device=device)
    x[0, 0, 0, 1] = x[0, 0, 1, 0] = math.nan
    x[0, 0, 3, 3] = -math.inf
    values, indices = F.adaptive_max_pool2d(x, 2, return_indices=True)
    assert math.isnan(values[0, 0, 0, 0].item())
    assert indices.tolist() == [[[[4, 2], [8, 10]]]]
    values, indices = F.max_pool3d(x, (1, 2, 2), return_indices=True)
    assert indices.tolist() == [[[[4, 2], [8, 10]]]]


def test_one_share_of_everything_is_a_mean(random, launches):
    x = random((2, 3, 8, 8)).to("cuda")
    before = launches.count
    got = F.adaptive_avg_pool2d(x, 1)
    assert launches.count - before == 1
    assert tuple(got.shape) == (2, 3, 1, 1)


def test_sizes_that_are_left_out():
    x = tt.ones(2, 3, 5, 6)
    assert tuple(F.adaptive_avg_pool2d(x, (None, 2)).shape) == (2, 3, 5, 2)
    assert tuple(F.adaptive_max_pool2d(x, 4).shape) == (2, 3, 4, 4)
    assert tuple(F.adaptive_avg_pool2d(x[:0], 2).shape) == (0, 3, 2, 2)
    assert tuple(F.adaptive_avg_pool2d(x, (0, 2)).shape) == (2, 3, 0, 2)


REFUSED = [
    (
        lambda x: ops.avg_pool3d(x, [2, 2]),
        "avg_pool3d: kernel_size must be a single int, or a tuple of three ints",
    ),
    (
        lambda x: ops.max_pool3d_with_indices(x, [2], [2], [0], [1, 1]),
        "max_pool3d: dilation must be either a single int, or a tuple of three ints",
    ),
    (
        lambda x: ops.avg_pool3d(x, [9], [1]),
        r"input image \(T: 4 H: 4 W: 4\) smaller than kernel size \(kT: 9",
    ),
    (lambda x: ops.max_pool3d_with_indices(x, [9], [1]), r"Calculated output size: \(2x-4x-4x-4\)"),
    (
        lambda x: ops.max_pool3d_with_indices(x[0, 0], [2]),
        r"non-empty 4D or 5D \(batch mode\) tensor expected",
    ),
    (lambda x: ops._adaptive_avg_pool3d(x, [2]), "adaptive_avg_pool3d: output_size must be 3"),
    (lambda x: ops.adaptive_avg_pool3d(x, [-1, 2, 2]), "greater than or equal to 0 but received {-1, 2, 2}"),
    (lambda x: ops.adaptive_max_pool2d(x, [2, 2]), "Expected 3D or 4D tensor, but got: "),
    (lambda x: ops.adaptive_max_pool3d(x[..., :0], [2, 2, 2]), "with dimension 4 being empty"),
    (lambda x: ops._adaptive_avg_pool3d_backward(x[..., 0], x), "Expected dimensions 5 for `grad_output`"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_refusals(call, message):
    x = tt.ones(1, 2, 4, 4, 4)
    with pytest.raises(RuntimeError, match=message):
        call(x)


@pytest.mark.parametrize("device", DEVICES)
def test_dtypes_that_are_refused(device):
    with pytest.raises(NotImplementedError, match="Int"):
        F.adaptive_avg_pool2d(tt.ones(1, 4, 4, dtype=tt.int32, device=device), 2)
    with pytest.raises(NotImplementedError, match="Bool"):
        F.max_pool3d(tt.ones(1, 4, 4, 4, dtype=tt.bool, device=device), 2)
