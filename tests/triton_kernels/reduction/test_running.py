"""Running products, minima, maxima and sums of exponentials agree with NumPy on both backends."""

import math

import numpy as np
import pytest

import triten as tt

DEVICES = ["cpu", "cuda"]
SHAPES = [((), 0), ((1,), 0), ((7,), 0), ((3, 0), 1), ((3, 130), 1), ((130, 3), 0), ((2, 3, 4), 1)]


def running_extreme(a, axis, largest):
    """Return the extreme values and the index of the last element that attains them; NaN propagates."""
    a = np.atleast_1d(a)
    values, indices = np.empty_like(a), np.zeros(a.shape, np.int64)
    lines, out, where = (np.moveaxis(x, axis, -1) for x in (a, values, indices))
    for at in np.ndindex(out.shape[:-1]):
        line = lines[at]
        best, index = line[0] if line.size else 0, 0
        for i, value in enumerate(line):
            if value != value or (best == best and (value >= best if largest else value <= best)):
                best, index = value, i
            out[at][i], where[at][i] = best, index
    return values, indices


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.int8, tt.int64, tt.bool], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes(random, name, dtype, device):
    for shape, dim in SHAPES:
        a = random(shape, dtype)
        wide = a.to(tt.float64).numpy()
        values, indices = running_extreme(wide, dim, name == "cummax")
        got = getattr(tt, name)(a.to(device), dim)
        assert got.values.dtype is dtype
        assert got.indices.dtype is tt.int64
        np.testing.assert_array_equal(got.values.to(tt.float64).cpu().numpy(), values.reshape(shape))
        np.testing.assert_array_equal(got.indices.cpu().numpy(), indices.reshape(shape))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_ties_take_the_last_and_nan_stays(name, device):
    a = np.array([1, 1, math.inf, math.inf, -math.inf, math.nan, 0, math.nan, 5], np.float32)
    values, indices = running_extreme(a, 0, name == "cummax")
    got = getattr(tt, name)(tt.from_numpy(a).to(device), 0)
    np.testing.assert_array_equal(got.values.cpu().numpy(), values)
    assert got.indices.tolist() == indices.tolist()
    assert indices.tolist()[-4:] == [5, 5, 7, 7]


def test_long_lines_go_in_parts(random, same, launches):
    a = random((17_000,), tt.int8)
    x = a.to("cuda")
    before = launches.count
    got = x.cummin(0)
    assert launches.count - before == 3
    for left, right in zip(got, a.cummin(0), strict=True):
        same(left, right)


def test_out_of_other_strides(random, same):
    a = random((4, 6))
    values, indices = tt.empty(6, 4, device="cuda").t(), tt.empty(4, 6, dtype=tt.int64, device="cuda")
    tt.cummax(a.to("cuda"), 1, out=(values, indices))
    for got, expected in zip((values, indices), a.cummax(1), strict=True):
        same(got, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_products(random, device):
    for shape, dim in SHAPES:
        a = random(shape, tt.float32)
        expected = np.cumprod(a.to(tt.float64).numpy(), dim).reshape(shape) if shape else a.numpy()
        np.testing.assert_allclose(a.to(device).cumprod(dim).cpu().numpy(), expected, rtol=1e-6, atol=1e-37)
    wrapped = tt.full((70,), 3, dtype=tt.int32, device=device).cumprod(0)
    assert wrapped.dtype is tt.int64
    assert wrapped[-1].item() == (3**70 + 2**63) % 2**64 - 2**63
    x = tt.tensor([2, 3, 4], device=device)
    assert x.cumprod_(0) is x
    assert x.tolist() == [2, 6, 24]


def test_long_products_go_in_parts(random, same, launches):
    a = 1 + random((200_000,), tt.float64) * 1e-4
    before = launches.count
    got = a.to("cuda").cumprod(0)
    assert launches.count - before == 3
    same(got, a.cumprod(0), 1e-10)


@pytest.mark.parametrize("device", DEVICES)
def test_sums_of_exponentials(rng, device):
    for shape, dim in SHAPES:
        a = np.asarray(rng.standard_normal(shape) * 40).astype(np.float32)
        wide = np.atleast_1d(a).astype(np.float64)
        expected = np.logaddexp.accumulate(wide, dim).reshape(shape)
        got = tt.from_numpy(a).to(device).logcumsumexp(dim)
        np.testing.assert_allclose(got.cpu().numpy(), expected, rtol=2e-6, atol=1e-5)
    edges = np.array([-math.inf, -math.inf, 1, math.inf, math.inf, 3, math.nan, 0], np.float32)
    got = tt.from_numpy(edges).to(device).logcumsumexp(0).tolist()
    assert got[:6] == [-math.inf, -math.inf, 1, math.inf, math.inf, math.inf]
    assert all(map(math.isnan, got[6:]))
    with pytest.raises(NotImplementedError, match="Int"):
        tt.ones(3, dtype=tt.int32, device=device).logcumsumexp(0)


def test_sums_of_exponentials_of_complex_numbers(rng):
    for shape, dim in (((37,), 0), ((5, 30), 1), ((30, 3), 0)):
        a = rng.standard_normal(shape) * 2 + 1j * rng.standard_normal(shape) * 4
        got = tt.from_numpy(a).logcumsumexp(dim).numpy()
        # The angle of a logarithm is known up to whole turns, which depend on the order.
        np.testing.assert_allclose(np.exp(got), np.cumsum(np.exp(a), dim), rtol=1e-10)
    inf, nan = math.inf, math.nan
    rows = {
        (complex(-inf, 3), complex(-inf, 5), 1 + 1j): [complex(-inf, 0), complex(-inf, 0), 1 + 1j],
        (1, complex(1, nan), 2): [1, complex(nan, nan), complex(nan, nan)],
        (complex(nan, 1), 1): [complex(nan, nan)] * 2,
        (complex(inf, 1), 3): [complex(inf, 1)] * 2,
        (complex(inf, 1), complex(inf, 1)): [complex(inf, 1), complex(inf, math.pi / 4)],
        (complex(inf, 1), complex(inf, -2)): [complex(inf, 1), complex(nan, nan)],
        (1000, -1000 + 2j, 1000): [1000, 1000, 1000 + math.log(2)],
    }
    for row, expected in rows.items():
        got = tt.tensor(row, dtype=tt.complex128).logcumsumexp(0).numpy()
        np.testing.assert_allclose(got.view(float), np.array(expected, complex).view(float), 1e-12)


def test_angles_of_sums_follow_the_steps(rng):
    for shape, scale in (((41,), 1), ((41, 6), 3), ((41, 2), 400)):
        a = rng.standard_normal(shape) * scale + 1j * rng.standard_normal(shape) * 12
        total, expected = np.full(shape[1:], complex(-math.inf, 0)), np.empty_like(a)
        for i, x in enumerate(a):
            low, high = (np.where(x.real < total.real, *pair) for pair in ((x, total), (total, x)))
            total = high + np.log1p(np.exp(low - high))
            expected[i] = total
        got = tt.from_numpy(a).logcumsumexp(0).numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_gradients_of_sums_of_exponentials_of_complex_numbers(rng):
    parts = tt.from_numpy(rng.standard_normal((3, 5, 2))).requires_grad_()
    assert tt.autograd.gradcheck(lambda t: tt.view_as_real(tt.view_as_complex(t).logcumsumexp(1)), (parts,))


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_products_at_zeros(device):
    a = np.array([[1.5, -2, 0.5, 3], [1.5, 0, 0.5, 3], [0, 2, 0, 3], [0, 0, 0, 0]])
    x = tt.from_numpy(a).to(device).requires_grad_()
    weights = np.array([1.0, 10.0, 100.0, 1000.0])
    x.cumprod(1).backward(tt.from_numpy(np.broadcast_to(weights, a.shape).copy()).to(device))
    expected = np.zeros_like(a)
    for k in range(4):
        without = a.copy()
        without[:, k] = 1
        expected[:, k] = (np.cumprod(without, 1) * weights)[:, k:].sum(1)
    np.testing.assert_allclose(x.grad.cpu().numpy(), expected)


@pytest.mark.parametrize("name", ["cumprod", "logcumsumexp"])
def test_second_derivatives(name):
    a = np.array([[1.5, -2, 0.5], [0.3, 0, 0.5], [0, 2, 0]])
    x = tt.from_numpy(a).requires_grad_()
    assert tt.autograd.gradgradcheck(lambda t: getattr(t, name)(1), (x,))


@pytest.mark.parametrize("name", ["cummax", "cummin", "cumprod", "logcumsumexp"])
def test_refusals(name):
    with pytest.raises(IndexError, match="Dimension out of range"):
        getattr(tt, name)(tt.ones(2, 2), 2)
    if name in ("cummax", "cummin"):
        outs = tt.ones(2), tt.ones(2)
        with pytest.raises(RuntimeError, match="expected scalar_type Long but found Float"):
            getattr(tt, name)(tt.zeros(2), 0, out=outs)
        assert outs[0].tolist() == [1, 1]
