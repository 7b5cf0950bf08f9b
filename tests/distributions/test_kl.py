"""Divergences beside averages over samples, and which formula is taken."""

import math

import numpy as np
import pytest

import triten as tt
from triten.distributions.kl import _KL_REGISTRY

D = tt.distributions


def f64(*values):
    return tt.tensor(values, dtype=tt.float64)


def normals():
    loc, matrix = f64(0.3, -0.5), tt.tensor([[1.0, 0.3], [0.3, 0.8]], dtype=tt.float64)
    low_rank = D.LowRankMultivariateNormal(
        f64(0.1, 0.4), tt.tensor([[0.5], [-0.7]], dtype=tt.float64), f64(0.6, 1.1)
    )
    return D.MultivariateNormal(loc, matrix), low_rank


EXAMPLES = {
    D.Bernoulli: [D.Bernoulli(f64(0.3, 0.8)), D.Bernoulli(f64(0.5, 0.6))],
    D.Beta: [D.Beta(f64(2.5, 4.0), f64(2.2, 3.0)), D.Beta(f64(2.0, 3.5), f64(1.5, 3.0))],
    D.Binomial: [D.Binomial(4, f64(0.3, 0.8)), D.Binomial(4, f64(0.5, 0.6))],
    D.Categorical: [D.Categorical(f64(0.2, 0.3, 0.5)), D.Categorical(f64(0.4, 0.4, 0.2))],
    D.Cauchy: [D.Cauchy(f64(0.2), f64(1.5)), D.Cauchy(f64(-0.4), f64(0.7))],
    D.ContinuousBernoulli: [D.ContinuousBernoulli(f64(0.2, 0.7)), D.ContinuousBernoulli(f64(0.6, 0.4))],
    D.Dirichlet: [D.Dirichlet(f64(1.5, 2.0, 3.0)), D.Dirichlet(f64(2.0, 2.5, 1.5))],
    D.Exponential: [D.Exponential(f64(1.5, 0.8)), D.Exponential(f64(0.9, 1.1))],
    D.Gamma: [D.Gamma(f64(2.5, 4.0), f64(1.5, 2.0)), D.Gamma(f64(2.0, 3.0), f64(1.0, 2.5))],
    D.Geometric: [D.Geometric(f64(0.3, 0.7)), D.Geometric(f64(0.5, 0.6))],
    D.Gumbel: [D.Gumbel(f64(0.2, 1.0), f64(0.7, 1.1)), D.Gumbel(f64(0.5, -0.2), f64(1.5, 2.0))],
    D.HalfNormal: [D.HalfNormal(f64(1.5, 0.8)), D.HalfNormal(f64(0.9, 1.1))],
    D.Independent: [
        D.Independent(D.Normal(f64(0.2, 1.0), f64(0.7, 1.1)), 1),
        D.Independent(D.Normal(f64(0.5, 0.2), f64(1.0, 0.9)), 1),
    ],
    D.Laplace: [D.Laplace(f64(0.2, 1.0), f64(0.7, 1.1)), D.Laplace(f64(0.5, -0.2), f64(1.5, 0.9))],
    D.LowRankMultivariateNormal: [
        normals()[1],
        D.LowRankMultivariateNormal(
            *(f64(-0.2, 0.2), tt.tensor([[0.2], [0.3]], dtype=tt.float64), f64(1.2, 0.9))
        ),
    ],
    D.MultivariateNormal: [
        normals()[0],
        D.MultivariateNormal(f64(0.1, 0.1), tt.eye(2, dtype=tt.float64) * 1.3),
    ],
    D.Normal: [D.Normal(f64(0.2, 1.0), f64(0.7, 1.1)), D.Normal(f64(0.5, -0.2), f64(1.5, 0.9))],
    D.OneHotCategorical: [D.OneHotCategorical(f64(0.2, 0.3, 0.5)), D.OneHotCategorical(f64(0.4, 0.4, 0.2))],
    D.Pareto: [D.Pareto(f64(1.0, 0.6), f64(5.0, 6.0)), D.Pareto(f64(0.5, 0.6), f64(4.0, 7.0))],
    D.Poisson: [D.Poisson(f64(1.5, 4.0)), D.Poisson(f64(2.0, 3.0))],
    D.TransformedDistribution: [
        D.TransformedDistribution(D.Normal(f64(0.2), f64(0.7)), D.ExpTransform()),
        D.TransformedDistribution(D.Normal(f64(0.5), f64(0.9)), D.ExpTransform()),
    ],
    D.Uniform: [D.Uniform(f64(0.2, 0.6), f64(0.8, 0.9)), D.Uniform(f64(-0.2, 0.0), f64(1.5, 1.0))],
}

PAIRS = [(p, q) for p, q in _KL_REGISTRY if p in EXAMPLES and q in EXAMPLES and p is not D.ExponentialFamily]


@pytest.mark.parametrize(("type_p", "type_q"), PAIRS, ids=lambda kind: kind.__name__)
def test_divergence_is_the_mean_of_the_difference_of_log_densities(type_p, type_q):
    p, q = EXAMPLES[type_p][0], EXAMPLES[type_q][1]
    found = D.kl_divergence(p, q)
    assert found.shape == p.batch_shape
    tt.manual_seed(2)
    drawn = p.sample((40000,))
    D.Distribution.set_default_validate_args(False)
    try:
        terms = (p.log_prob(drawn) - q.log_prob(drawn)).numpy()
    finally:
        D.Distribution.set_default_validate_args(True)
    inside = np.broadcast_to(q.support.check(drawn).numpy(), terms.shape)
    terms = np.where(inside, terms, math.inf)
    expected, infinite = terms.mean(0), ~inside.all(0)
    result = found.numpy()
    assert (np.isinf(result) == infinite).all()
    finite = ~infinite
    if finite.any():
        spread = np.std(np.where(finite, terms, 0.0), 0)
        error = np.abs(np.where(finite, result, 0.0) - np.where(finite, expected, 0.0))
        assert (error <= 5 * spread / math.sqrt(len(terms)) + 1e-9).all()
        assert (result >= -1e-12).all()


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_divergence_from_itself_is_zero(kind):
    p = EXAMPLES[kind][0]
    np.testing.assert_allclose(D.kl_divergence(p, p).numpy(), 0.0, atol=1e-12)


def test_every_pair_of_pytorch_is_registered():
    assert len(_KL_REGISTRY) >= 87


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (D.Uniform(0.0, 2.0), D.Uniform(0.5, 3.0)),
        (D.Uniform(-1.0, 1.0), D.Exponential(1.0)),
        (D.Uniform(-1.0, 1.0), D.Gamma(1.0, 1.0)),
        (D.Uniform(-1.0, 0.5), D.Beta(1.0, 1.0)),
        (D.Uniform(0.5, 2.0), D.Pareto(1.0, 1.0)),
        (D.Beta(1.0, 1.0), D.Uniform(0.5, 2.0)),
        (D.Pareto(1.0, 2.0), D.Pareto(2.0, 2.0)),
        (D.Pareto(1.0, 1.0), D.Normal(0.0, 1.0)),
        (D.Pareto(1.0, 0.5), D.Exponential(1.0)),
        (D.Categorical(tt.tensor([0.5, 0.5])), D.Categorical(tt.tensor([1.0, 0.0]))),
        (D.Bernoulli(0.5), D.Bernoulli(0.0)),
        (D.Binomial(4, tt.tensor(0.5)), D.Binomial(3, tt.tensor(0.5))),
        (D.Poisson(1.0), D.Binomial(3, tt.tensor(0.5))),
    ],
    ids=lambda d: type(d).__name__,
)
def test_infinite_divergences(p, q):
    assert D.kl_divergence(p, q).item() == math.inf


def test_missing_pairs():
    with pytest.raises(
        NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type Cauchy and q type Normal"
    ):
        D.kl_divergence(D.Cauchy(0.0, 1.0), D.Normal(0.0, 1.0))
    with pytest.raises(NotImplementedError, match=r"q.total_count > p.total_count"):
        D.kl_divergence(D.Binomial(2, tt.tensor(0.5)), D.Binomial(3, tt.tensor(0.5)))
    with pytest.raises(NotImplementedError):
        D.kl_divergence(D.LogNormal(0.0, 1.0), D.Gumbel(0.0, 1.0))


def test_the_most_specific_pair_is_taken():
    class Mine(D.Normal):
        pass

    p, q = Mine(0.0, 1.0), D.Normal(1.0, 1.0)
    assert D.kl_divergence(p, q).item() == 0.5
    before = dict(_KL_REGISTRY)
    try:
        D.register_kl(Mine, D.Normal)(lambda p, q: p.loc + 7)
        assert D.kl_divergence(p, q).item() == 7.0
        assert D.kl_divergence(q, p).item() == 0.5
        D.register_kl(D.Normal, Mine)(lambda p, q: p.loc + 8)
        with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence"):
            D.kl_divergence(p, Mine(0.0, 1.0))
    finally:
        _KL_REGISTRY.clear()
        _KL_REGISTRY.update(before)
        tt.distributions.kl._KL_MEMOIZE.clear()


def test_only_classes_are_registered():
    with pytest.raises(TypeError, match="Expected type_p to be a Distribution subclass"):
        D.register_kl(1, D.Normal)


def test_gradients_flow(device):
    loc = tt.tensor(0.5, device=device, requires_grad=True)
    one = tt.tensor(1.0, device=device)
    D.kl_divergence(D.Normal(loc, one), D.Normal(one * 0, one)).backward()
    assert loc.grad.item() == pytest.approx(0.5)
