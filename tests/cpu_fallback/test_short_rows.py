"""Softmax, layer_norm and sums of short rows, and joins and ranges as one plan, agree with float64 and
NumPy.
"""

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional
LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: tt.from_numpy(np.ascontiguousarray(a.numpy().T)).t(),
    "stepped": lambda a: tt.from_numpy(np.repeat(a.numpy(), 2, 1))[:, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spread", (1.0, 40.0, 1e4))
@pytest.mark.parametrize("sizes", ((1, 1), (5, 7), (16, 16), (3, 32), (2, 33)))
def test_rows(rng, layout, spread, sizes):
    x = (rng.standard_normal(sizes) * spread).astype(np.float32)
    given = LAYOUTS[layout](tt.from_numpy(x))
    wide = x.astype(np.float64)
    shifted = wide - wide.max(1, keepdims=True)
    expected = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    made = tt.softmax(given, -1)
    assert made.is_contiguous()
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-5, atol=1e-37)
    likelihood = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    np.testing.assert_allclose(tt.log_softmax(given, 1).numpy(), likelihood, rtol=2e-6, atol=2e-7 * spread)
    deviation = wide - wide.mean(1, keepdims=True)
    normal = deviation / np.sqrt((deviation**2).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(F.layer_norm(given, sizes[1:]).numpy(), normal, rtol=1e-4, atol=1e-5)
    alone, mean, _ = tt.native_layer_norm(given, sizes[1:], None, None, 1e-5)
    assert alone.equal(F.layer_norm(given, sizes[1:]))
    np.testing.assert_allclose(mean.numpy()[:, 0], wide.mean(1), rtol=1e-5, atol=1e-6 * spread)
    for dim in (0, 1):
        total = given.sum(dim).numpy()
        np.testing.assert_allclose(total, wide.sum(dim), rtol=1e-4, atol=1e-5 * spread)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("of_grad", (*LAYOUTS, "expanded"))
@pytest.mark.parametrize("sizes", ((1, 1), (5, 7), (3, 32), (2, 33), (2, 3, 5)))
def test_gradients_of_rows(rng, layout, of_grad, sizes):
    """Give a gradient with the right elements and the strides that it reports, for every layout of the
    likelihoods.
    """
    if len(sizes) > 2 and "transposed" in (layout, of_grad):
        pytest.skip("a matrix's layout")
    x = rng.standard_normal(sizes)
    likelihood = x - np.log(np.exp(x).sum(-1, keepdims=True))
    grad = rng.standard_normal(sizes)
    output = tt.from_numpy(likelihood)
    given = tt.from_numpy(grad)
    if layout != "stepped" or len(sizes) == 2:
        output = LAYOUTS[layout](output)
    if of_grad == "expanded":
        grad = np.broadcast_to(grad[:1], sizes)
        given = given[:1].expand(sizes)
    elif of_grad != "stepped" or len(sizes) == 2:
        given = LAYOUTS[of_grad](given)
    made = tt._log_softmax_backward_data(given, output, -1, tt.float64)
    expected = grad - np.exp(likelihood) * grad.sum(-1, keepdims=True)
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-12, atol=1e-12)
    assert made.stride() == tuple(stride // 8 for stride in made.numpy().strides) or 1 in sizes


@pytest.mark.parametrize("special", (np.nan, np.inf, -np.inf))
def test_what_is_not_finite_stays_in_its_row(rng, special):
    x = rng.standard_normal((6, 8)).astype(np.float32)
    x[2, 3] = special
    clean = np.delete(np.arange(6), 2)
    for name in ("softmax", "log_softmax"):
        made = getattr(tt, name)(tt.from_numpy(x), 1).numpy()
        assert np.isfinite(made[clean]).all()
        assert np.isnan(made[2]).any() == (special != -np.inf)
    assert np.isfinite(F.layer_norm(tt.from_numpy(x), (8,)).numpy()[clean]).all()


@pytest.mark.parametrize("dim", (0, 1, 2, -1))
@pytest.mark.parametrize("dtype", (tt.float32, tt.int64, tt.bfloat16))
def test_stack(dim, dtype):
    a, b = tt.arange(6).reshape(2, 3).to(dtype), tt.arange(6, 12).reshape(2, 3).to(dtype)
    for _ in range(2):
        made = tt.stack((a, b), dim)
        assert made.select(dim, 0).equal(a) and made.select(dim, 1).equal(b) and made.is_contiguous()
    assert tt.stack([tt.tensor(1.0), tt.tensor(2.0)]).tolist() == [1.0, 2.0]


def test_a_kept_range_is_nobodys():
    first = tt.arange(4)
    first += 1
    second = tt.arange(4)
    second += 1
    assert tt.arange(4).tolist() == [0, 1, 2, 3] and tt.arange(True).tolist() == [0]
    assert tt.arange(2, 8, 3).tolist() == [2, 5] and tt.arange(4.0).dtype is tt.float32


def test_short_calls_follow_the_defaults():
    x = tt.ones(3)
    assert x.to(tt.float64).dtype is tt.float64 and x.to(tt.float32) is x
    with tt.inference_mode():
        assert x.to(tt.float64).is_inference()
    assert not x.to(tt.float64).is_inference()
