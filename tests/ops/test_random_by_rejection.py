"""Gamma, Poisson, binomial and Dirichlet numbers: distributions, edges, derivatives, the same on every backend."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats

import triten as tt

FLOATS = [tt.float16, tt.bfloat16, tt.float32, tt.float64]
SHAPES = [1e-3, 0.03, 0.3, 0.9, 1.0, 1.5, 10.0, 300.0, 1e6]
RATES = [0.1, 1.0, 5.0, 9.99, 10.0, 30.0, 1e3, 1e6]
TRIALS = [(10, 0.3), (10, 0.9), (1000, 0.004), (1000, 0.3), (40, 0.5), (10**6, 0.999), (10**9, 0.25)]
N = 20000
MIN_P = 1e-4
"""Seeds are fixed: what a right sampler falls below once in ten thousand seeds."""


def drawn(draw, seed=5):
    generator = tt.Generator().manual_seed(seed)
    return draw(generator).numpy()


def p_of_counts(numbers, distribution):
    """Return the chi-square test's p-value of integer samples, over bins of probability 1 / 40 or more."""
    edges = np.unique(distribution.ppf(np.linspace(0.025, 0.975, 39)))
    probabilities = np.diff(np.concatenate([[0.0], distribution.cdf(edges), [1.0]]))
    counts = np.bincount(np.searchsorted(edges, numbers), minlength=len(edges) + 1)
    kept = probabilities > 1e-12
    assert not counts[~kept].any()
    if kept.sum() == 1:
        return 1.0
    return scipy.stats.chisquare(counts[kept], probabilities[kept] * len(numbers), sum_check=False).pvalue


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
@pytest.mark.parametrize("alpha", SHAPES)
def test_gamma_numbers_have_their_distribution(alpha, dtype):
    shape = tt.full((N,), alpha, dtype=dtype)
    numbers = drawn(lambda g: tt._standard_gamma(shape, generator=g)).astype(np.float64)
    least = tt.finfo(dtype).tiny
    assert numbers.min() >= least
    # Numbers below the least one are raised to it, which the distribution function jumps at.
    kept = numbers[numbers > least]
    truth = scipy.stats.gamma(alpha)
    share = truth.sf(least)
    assert abs(len(kept) / N - share) <= 4 * math.sqrt(share * (1 - share) / N) + 1e-9
    p = scipy.stats.kstest(kept, lambda x: (truth.cdf(x) - truth.cdf(least)) / share).pvalue
    assert p > MIN_P
    deviation = math.sqrt(alpha / N)
    assert abs(numbers.mean() - alpha) < 5 * deviation


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
@pytest.mark.parametrize("rate", RATES)
def test_poisson_numbers_have_their_distribution(rate, dtype):
    rates = tt.full((N,), rate, dtype=dtype)
    numbers = drawn(lambda g: tt.poisson(rates, generator=g)).astype(np.float64)
    assert (numbers == np.floor(numbers)).all() and numbers.min() >= 0
    exact = float(rates[0])
    assert abs(numbers.mean() - exact) < 5 * math.sqrt(exact / N)
    assert abs(numbers.var() / exact - 1) < 5 * math.sqrt((2 + 1 / exact) / N)
    assert p_of_counts(numbers, scipy.stats.poisson(exact)) > MIN_P


@pytest.mark.parametrize(("count", "prob"), TRIALS)
def test_binomial_numbers_have_their_distribution(count, prob):
    counts = tt.full((N,), count, dtype=tt.float64)
    numbers = drawn(lambda g: tt.binomial(counts, tt.full((), prob, dtype=tt.float64), generator=g))
    assert (numbers == np.floor(numbers)).all() and numbers.min() >= 0 and numbers.max() <= count
    truth = scipy.stats.binom(count, prob)
    assert abs(numbers.mean() - truth.mean()) < 5 * truth.std() / math.sqrt(N)
    assert p_of_counts(numbers, truth) > MIN_P


@pytest.mark.parametrize("alpha", [(0.02, 0.03), (0.5, 1.0, 3.0), (30.0, 200.0)])
def test_dirichlet_rows_have_their_marginals(alpha):
    rows = tt.tensor(alpha, dtype=tt.float64).expand(N, len(alpha))
    numbers = drawn(lambda g: tt._sample_dirichlet(rows, generator=g))
    np.testing.assert_allclose(numbers.sum(-1), 1.0, atol=1e-12)
    for column, a in enumerate(alpha):
        inner = numbers[:, column]
        inside = (inner > 1e-300) & (inner < 1 - 1e-12)
        truth = scipy.stats.beta(a, sum(alpha) - a)
        low, high = truth.cdf(1e-300), truth.cdf(1 - 1e-12)
        p = scipy.stats.kstest(inner[inside], lambda x, t=truth, u=low, v=high: (t.cdf(x) - u) / (v - u))
        assert p.pvalue > MIN_P


def test_a_dirichlet_row_of_tiny_concentrations_keeps_its_weight():
    row = drawn(lambda g: tt._sample_dirichlet(tt.full((200, 3), 1e-4), generator=g))
    # Nearly all of the weight is on one element, in all orders; no row is split because of an underflow.
    assert (row.max(-1) > 0.99).mean() > 0.98
    assert set(row.argmax(-1).tolist()) == {0, 1, 2}


CALLS = {
    "gamma": lambda d, t, g: tt._standard_gamma(
        tt.tensor([[1e-3, 0.4, 1.0], [2.5, 80.0, 1e6]] * 20, dtype=t, device=d), generator=g
    ),
    "gamma of a transpose": lambda d, t, g: tt._standard_gamma(
        tt.tensor([[1e-3, 0.4, 1.0], [2.5, 80.0, 300.0]], dtype=t, device=d).t(), generator=g
    ),
    "poisson": lambda d, t, g: tt.poisson(
        tt.tensor([0.0, 0.1, 3.0, 9.5, 11.0, 80.0, 1000.0] * 9, dtype=t, device=d), generator=g
    ),
    "binomial": lambda d, t, g: tt.binomial(
        tt.tensor([0.0, 5.0, 30.0, 200.0], dtype=t, device=d),
        tt.tensor([[0.0], [0.1], [0.5], [0.75], [1.0]] * 8, dtype=t, device=d),
        generator=g,
    ),
    "dirichlet": lambda d, t, g: tt._sample_dirichlet(
        tt.tensor([[0.01, 0.4, 1.0], [2.5, 80.0, 300.0]] * 20, dtype=t, device=d), generator=g
    ),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_backends_draw_the_same_numbers(name, dtype):
    made = [
        CALLS[name](device, dtype, tt.Generator(device).manual_seed(3)).cpu().to(tt.float64).numpy()
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(*made, rtol=1e-12 if dtype is tt.float64 else tt.finfo(dtype).eps, atol=0)


def test_an_element_has_its_numbers_whatever_is_drawn_beside_it(device):
    long = tt.tensor([0.5, 3.0, 20.0] * 700, device=device)
    many = tt._standard_gamma(long, generator=tt.Generator(device).manual_seed(1)).cpu()
    few = tt._standard_gamma(long[:7], generator=tt.Generator(device).manual_seed(1)).cpu()
    assert many[:7].tolist() == few.tolist()
    others = long.clone()
    others[1::3] = 1e-3
    mixed = tt._standard_gamma(others, generator=tt.Generator(device).manual_seed(1)).cpu()
    assert mixed[0::3].tolist() == many[0::3].tolist()


def test_each_element_takes_one_counter(device):
    generator = tt.Generator(device).manual_seed(0)
    tt.poisson(tt.full((5, 3), 20.0, device=device), generator=generator)
    assert generator.get_offset() == 15


def test_edges_of_gamma_numbers(device):
    given = tt.tensor([0.0, math.inf, math.nan, -0.5], dtype=tt.float64, device=device)
    made = tt._standard_gamma(given).tolist()
    assert made[:2] == [tt.finfo(tt.float64).tiny, math.inf]
    assert math.isnan(made[2]) and math.isnan(made[3])
    assert tt._standard_gamma(tt.empty(0, 3, device=device)).shape == (0, 3)


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize("rate", [-1.0, math.nan])
def test_poisson_refuses_rates(rate, device):
    with pytest.raises(RuntimeError, match="invalid Poisson rate, expected rate to be non-negative"):
        tt.poisson(tt.tensor([1.0, rate], device=device))


def test_edges_of_poisson_numbers(device):
    rates = tt.tensor([0.0, math.inf, 1e15], dtype=tt.float64, device=device)
    zero, infinite, large = tt.poisson(rates).tolist()
    assert zero == 0 and infinite == math.inf and abs(large - 1e15) < 1e9


def test_edges_of_binomial_numbers(device):
    count = tt.tensor([0.0, 5, 5, 5, 3, -1, math.nan, 5], device=device)
    prob = tt.tensor([0.5, 0, 1, math.nan, -1, 0.5, 0.5, 2], device=device)
    made = tt.binomial(count, prob).tolist()
    assert made[:3] == [0, 0, 5] and made[4:6] == [0, 0]
    assert math.isnan(made[3]) and math.isnan(made[6])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda d: tt._standard_gamma(tt.tensor([1, 2], device=d)),
            NotImplementedError,
            "\"gamma_.*\" not implemented for 'Long'",
        ),
        (
            lambda d: tt.poisson(tt.tensor([1, 2], device=d)),
            NotImplementedError,
            "\"poisson_.*\" not implemented for 'Long'",
        ),
        (
            lambda d: tt._sample_dirichlet(tt.tensor([1, 2], device=d)),
            NotImplementedError,
            "\"dirichlet\" not implemented for 'Long'",
        ),
        (
            lambda d: tt.binomial(tt.tensor([1], device=d), tt.tensor([0.5], device=d)),
            ValueError,
            "binomial only supports floating-point dtypes for count, got: Long",
        ),
        (
            lambda d: tt.binomial(tt.tensor([1.0], device=d), tt.tensor([1], device=d)),
            ValueError,
            "binomial only supports floating-point dtypes for prob, got: Long",
        ),
        (
            lambda d: tt.binomial(tt.tensor([1.0], device=d), tt.tensor([1.0], device=d).double()),
            RuntimeError,
            "Found dtype Double but expected Float",
        ),
        (
            lambda d: tt._standard_gamma_grad(tt.ones(2, device=d), tt.ones(2, device=d).double()),
            RuntimeError,
            "Found dtype Double but expected Float",
        ),
    ],
)
def test_refusals(call, error, message, device):
    with pytest.raises(error, match=message):
        call(device)


def test_derivatives_of_gamma_numbers(device):
    # The values of `torch._standard_gamma_grad`, of which it has three digits.
    alpha = tt.tensor([0.5, 1.0, 3.0, 10.0, 100.0, 1e4], dtype=tt.float64, device=device)
    sample = tt.tensor([1.0, 2.0, 2.0, 12.0, 90.0, 10100.0], dtype=tt.float64, device=device)
    expected = [1.878241383889, 1.631722595569, 0.856564023915, 1.112308752065, 0.949912907778, 1.005000085]
    np.testing.assert_allclose(tt._standard_gamma_grad(alpha, sample).tolist(), expected, rtol=2e-3)


@pytest.mark.parametrize("alpha", [1e-3, 0.2, 1.0, 4.0, 50.0, 1e4])
def test_derivatives_of_gamma_numbers_are_those_of_quantiles(alpha, device):
    levels = np.array([0.01, 0.2, 0.5, 0.8, 0.99]) if alpha >= 0.2 else np.array([0.995, 0.998, 0.999])
    step = 1e-5 * alpha
    slope = scipy.special.gammaincinv(alpha + step, levels) - scipy.special.gammaincinv(alpha - step, levels)
    sample = tt.tensor(scipy.special.gammaincinv(alpha, levels), device=device)
    made = tt._standard_gamma_grad(tt.full_like(sample, alpha), sample).tolist()
    np.testing.assert_allclose(made, slope / (2 * step), rtol=3e-6 if alpha >= 0.2 else 1e-5)


def test_derivatives_of_beta_numbers(device):
    # The values of `torch._dirichlet_grad`.
    x = tt.tensor([0.1, 0.5, 0.9, 0.3, 0.01], dtype=tt.float64, device=device)
    alpha = tt.tensor([0.5, 1.0, 3.0, 20.0, 0.2], dtype=tt.float64, device=device)
    total = tt.tensor([1.0, 3.0, 5.0, 60.0, 2.0], dtype=tt.float64, device=device)
    np.testing.assert_allclose(
        tt._dirichlet_grad(x, alpha, total).tolist(),
        [0.620590235979, 0.539720770840, 0.277265027664, 0.016021491106, 0.198239572398],
        rtol=5e-3,
    )


@pytest.mark.parametrize(
    ("a", "b"), [(0.05, 0.5), (0.5, 0.05), (1.0, 1.0), (3.0, 2.0), (0.3, 40.0), (500.0, 700.0)]
)
def test_derivatives_of_beta_numbers_are_those_of_quantiles(a, b, device):
    levels = np.array([0.3, 0.5, 0.7, 0.9])
    step = 1e-5 * a
    inverse = scipy.special.betaincinv
    slope = (inverse(a + step, b, levels) - inverse(a - step, b, levels)) / (2 * step)
    sample = inverse(a, b, levels)
    kept = sample < 0.999
    x = tt.tensor(sample[kept], device=device)
    made = tt._dirichlet_grad(x, tt.full_like(x, a), tt.full_like(x, a + b)).numpy(force=True)
    np.testing.assert_allclose(made * (1 - sample[kept]), slope[kept], rtol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradient_flows_to_the_shapes(dtype, device):
    alpha = tt.tensor([0.5, 2.0, 40.0], dtype=dtype, device=device, requires_grad=True)
    sample = tt._standard_gamma(alpha)
    sample.sum().backward()
    expected = tt._standard_gamma_grad(alpha.detach(), sample.detach())
    assert alpha.grad.tolist() == expected.tolist() and (alpha.grad > 0).all()


def test_derivatives_of_operands_that_broadcast_and_are_strided(device):
    alpha = tt.tensor([[0.5, 2.0, 40.0], [1.0, 3.0, 7.0]], dtype=tt.float64, device=device)
    x = tt.tensor([[0.4], [2.5], [30.0]], dtype=tt.float64, device=device)
    made = tt._standard_gamma_grad(alpha.t(), x)
    apart = tt._standard_gamma_grad(alpha.t().contiguous(), x.expand(3, 2).contiguous())
    np.testing.assert_allclose(made.tolist(), apart.tolist(), rtol=1e-14)


def test_gradients_of_counts_are_zero(device):
    rate = tt.full((3,), 4.0, device=device, requires_grad=True)
    tt.poisson(rate).sum().backward()
    assert rate.grad.tolist() == [0.0] * 3
    with pytest.raises(RuntimeError, match="derivative for aten::binomial is not implemented"):
        tt.binomial(rate, tt.full((3,), 0.5, device=device, requires_grad=True)).sum().backward()


def test_derivatives_that_are_missing(device):
    alpha = tt.ones(2, device=device, requires_grad=True)
    for made in (tt._sample_dirichlet(alpha), tt._standard_gamma_grad(alpha, tt.ones(2, device=device))):
        with pytest.raises(NotImplementedError, match="is not implemented"):
            made.sum().backward()


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("_standard_gamma", [[0.5, 2.0]]),
        ("_sample_dirichlet", [[[0.5, 2.0]]]),
        ("poisson", [[3.0, 20.0]]),
        ("binomial", [[3.0, 200.0], [0.5, 0.2]]),
    ],
)
def test_out(function, arguments, device):
    given = [tt.tensor(a, device=device) for a in arguments]
    call = getattr(tt, function)
    expected = call(*given, generator=tt.Generator(device).manual_seed(4))
    out = tt.empty(0, device=device)
    overload = getattr(tt.ops.aten, function).out
    assert overload(*given, generator=tt.Generator(device).manual_seed(4), out=out) is out
    assert out.tolist() == expected.tolist()


def test_vmap_draws_for_each_example():
    rates = tt.full((4, 3), 50.0)
    made = tt.vmap(tt.poisson, randomness="different")(rates)
    assert made.shape == (4, 3) and len(set(made.flatten().tolist())) > 3
