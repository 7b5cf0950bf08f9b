"""Fractional pooling against windows taken one by one, as PyTorch's loop takes them, on both backends."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import triten as tt
from triten.dispatch.generated import functions as ops

F = tt.nn.functional
DEVICES = ["cpu", "cuda"]
SHAPES = {
    "planes": ((2, 3, 9, 11), (2, 3), (4, 5), 2),
    "one window": ((1, 2, 5, 5), (3, 2), (1, 1), 2),
    "no batch": ((3, 8, 13), (2, 2), (7, 12), 2),
    "volumes": ((2, 2, 5, 7, 6), (2, 3, 1), (3, 2, 6), 3),
    "volumes without batch": ((2, 6, 5, 8), (1, 2, 3), (2, 4, 6), 3),
}


def starts(sample, n, kernel, out):
    """Return the starts of the windows in exact arithmetic; the tested samples and steps have few bits."""
    sample = Fraction(float(sample))
    step = Fraction(float((n - kernel) / (out - 1))) if out > 1 else 0
    return [
        math.floor((i + sample) * step) - math.floor(sample * step) if i < out - 1 else n - kernel
        for i in range(out)
    ]


def reference(x, samples, kernel, out, rank):
    spatial, lead = x.shape[-rank:], x.shape[:-rank]
    planes = x.reshape(-1, *spatial)
    numbers = samples[: lead[0] if len(lead) == 2 else 1].reshape(-1, rank)
    top, at = np.zeros((len(planes), *out)), np.zeros((len(planes), *out), np.int64)
    order = (1, 0) if rank == 2 else (0, 1, 2)
    for p, plane in enumerate(planes):
        lines = [
            starts(numbers[p, w], n, k, o) for w, n, k, o in zip(order, spatial, kernel, out, strict=True)
        ]
        for where in itertools.product(*map(range, out)):
            corner = [line[i] for line, i in zip(lines, where, strict=True)]
            best, named = -math.inf, np.ravel_multi_index(corner, spatial)
            for tap in itertools.product(*map(range, kernel)):
                place = tuple(c + t for c, t in zip(corner, tap, strict=True))
                if plane[place] > best or math.isnan(plane[place]):
                    best, named = plane[place], np.ravel_multi_index(place, spatial)
            top[(p, *where)], at[(p, *where)] = best, named
    return top.reshape(*lead, *out), at.reshape(*lead, *out)


def pool_of(rank):
    return F.fractional_max_pool2d if rank == 2 else F.fractional_max_pool3d


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
@pytest.mark.parametrize("case", SHAPES.values(), ids=SHAPES)
def test_windows(rng, case, dtype, device):
    sizes, kernel, out, rank = case
    a = rng.integers(-9, 9, sizes).astype(np.float64)
    a[rng.random(sizes) < 0.05] = math.nan
    a[rng.random(sizes) < 0.1] = -math.inf
    batch = sizes[0] + 1 if len(sizes) == rank + 2 else 2  # one more than needed
    samples = rng.integers(0, 256, (batch, sizes[-rank - 1], rank)) / 256
    x, numbers = (tt.from_numpy(given).to(device).to(dtype) for given in (a, samples))
    values, indices = pool_of(rank)(x, kernel, out, return_indices=True, _random_samples=numbers)
    top, at = reference(a, samples, kernel, out, rank)
    np.testing.assert_array_equal(values.cpu().numpy(), top)
    np.testing.assert_array_equal(indices.cpu().numpy(), at)
    assert values.dtype is dtype and values.is_contiguous()


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float32], ids=str)
def test_both_backends_round_the_places_alike(rng, dtype):
    x = tt.from_numpy(rng.standard_normal((1, 4, 1, 600))).to(dtype)
    samples = tt.from_numpy(rng.random((1, 4, 2))).to(dtype)
    samples[0, 0, 0], samples[0, 1, 0], samples[0, 2, 0] = math.nan, math.inf, -7.0
    host = F.fractional_max_pool2d(x, (1, 2), (1, 411), return_indices=True, _random_samples=samples)
    card = F.fractional_max_pool2d(
        x.to("cuda"), (1, 2), (1, 411), return_indices=True, _random_samples=samples.to("cuda")
    )
    for a, b in zip(host, card, strict=True):
        np.testing.assert_array_equal(a.float().numpy(), b.cpu().float().numpy())
    assert host[1].min() >= 0 and host[1].max() < 600


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rank", [2, 3])
def test_gradients_go_where_the_largest_elements_were(rng, rank, device):
    sizes, out = (2, 3, *(6, 7, 5)[:rank]), (4, 6, 3)[:rank]
    x = tt.from_numpy(rng.standard_normal(sizes)).to(device).requires_grad_()
    values, indices = pool_of(rank)(x, 2, out, return_indices=True)
    weight = rng.standard_normal(tuple(values.shape))
    values.backward(tt.from_numpy(weight).to(device))
    expected = np.zeros((6, math.prod(sizes[2:])))
    for p, (at, given) in enumerate(
        zip(indices.cpu().numpy().reshape(6, -1), weight.reshape(6, -1), strict=True)
    ):
        np.add.at(expected[p], at, given)
    np.testing.assert_allclose(x.grad.cpu().numpy(), expected.reshape(sizes), atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_layouts_and_nothing(rng, device):
    a = tt.from_numpy(rng.standard_normal((2, 4, 6, 7))).to(device)
    samples = tt.rand(2, 4, 2, dtype=tt.float64, device=device)
    expected = F.fractional_max_pool2d(a, 2, 3, _random_samples=samples)
    wide = tt.zeros(2, 4, 12, 7, dtype=tt.float64, device=device)
    wide[:, :, ::2] = a
    layouts = (
        (a.to(memory_format=tt.channels_last), samples),
        (wide[:, :, ::2], samples.transpose(0, 2).contiguous().transpose(0, 2)),
        (a.transpose(2, 3).contiguous().transpose(2, 3), samples),
    )
    for x, numbers in layouts:
        got = F.fractional_max_pool2d(x, 2, 3, _random_samples=numbers)
        assert tt.equal(got, expected)
    assert F.fractional_max_pool2d(a[:0], 2, 3).shape == (0, 4, 3, 3)
    assert F.fractional_max_pool2d(a, 2, (0, 3)).shape == (2, 4, 0, 3)
    out, at = tt.empty(0, dtype=tt.float64, device=device), tt.empty(0, dtype=tt.int64, device=device)
    tt.ops.aten.fractional_max_pool2d.output(a, [2, 2], [3, 3], samples, output=out, indices=at)
    assert tt.equal(out, expected)


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, s: ops.fractional_max_pool2d(x, [2], [3, 3], s), "kernel_size must either be a single"),
        (lambda x, s: ops.fractional_max_pool2d(x, [2, 2], [3], s), "output_size must either be a single"),
        (lambda x, s: ops.fractional_max_pool2d(x, [2, 2], [8, 3], s), "pool height 2 too large relative to"),
        (lambda x, s: ops.fractional_max_pool2d(x, [2, 9], [3, 3], s), "pool width 9 too large relative to"),
        (lambda x, s: ops.fractional_max_pool2d(x, [2, 2], [3, 3], s[0]), "to have 3 dimensions, got 2"),
        (lambda x, s: ops.fractional_max_pool2d(x, [2, 2], [3, 3], s[:1]), r"size\(0\) no less"),
        (lambda x, s: ops.fractional_max_pool2d(x, [2, 2], [3, 3], s[:, :2]), r"size\(1\) equals to input"),
        (lambda x, s: ops.fractional_max_pool2d(x, [2, 2], [3, 3], s[..., :1]), r"equals to 2; got 1"),
        (lambda x, s: ops.fractional_max_pool2d(x, [2, 2], [3, 3], s.double()), "the same dtype as input"),
        (lambda x, s: ops.fractional_max_pool2d(x, [2, 2], [-1, 3], s), "negative dimension -1"),
        (lambda x, s: ops.fractional_max_pool2d(x[0, 0], [2, 2], [3, 3], s), "Expected 3D or 4D tensor"),
        (lambda x, s: ops.fractional_max_pool2d(x[:, :, :0], [2, 2], [3, 3], s), "dimension 2 being empty"),
        (
            lambda x, s: ops.fractional_max_pool2d_backward(
                x, x, [1, 1], [8, 9], tt.full(tuple(x.shape), 99, device=x.device)
            ),
            "invalid max index 99",
        ),
        (
            lambda x, s: ops.fractional_max_pool2d_backward(x, x, [2, 2], [3, 3], tt.zeros(2, 3, 3, 3)),
            "gradOutput sizes unexpected",
        ),
    ],
)
@pytest.mark.parametrize("device", DEVICES)
def test_refusals(call, message, device):
    with pytest.raises(RuntimeError, match=message):
        call(tt.ones(2, 3, 8, 9, device=device), tt.zeros(2, 3, 2, device=device))


@pytest.mark.parametrize("device", DEVICES)
def test_integers_are_refused(device):
    x, s = (
        tt.ones(2, 3, 8, 9, dtype=tt.int32, device=device),
        tt.ones(2, 3, 2, dtype=tt.int32, device=device),
    )
    with pytest.raises(NotImplementedError, match="fractional_max_pool2d"):
        ops.fractional_max_pool2d(x, [2, 2], [3, 3], s)


def test_layers(rng):
    x = tt.from_numpy(rng.standard_normal((2, 3, 8, 9, 10)))
    samples = tt.rand(2, 3, 3, dtype=tt.float64)
    layer = tt.nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.4, 0.9), _random_samples=samples)
    assert tt.equal(layer(x), F.fractional_max_pool3d(x, 2, (4, 3, 9), _random_samples=samples))
    assert set(layer.state_dict()) == {"_random_samples"}
    assert len(tt.nn.FractionalMaxPool2d(2, 3, return_indices=True)(x[0])) == 2
    for arguments, message in (
        ({}, "requires specifying either"),
        ({"output_size": 3, "output_ratio": 0.5}, "only one of"),
        ({"output_ratio": 1.5}, "must be between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            tt.nn.FractionalMaxPool2d(2, **arguments)
    with pytest.raises(ValueError, match="kernel_size must be greater than 0"):
        tt.nn.FractionalMaxPool3d(0, 3)
    with pytest.raises(ValueError, match="requires specifying either an output_size"):
        F.fractional_max_pool2d(x[0], 2)
