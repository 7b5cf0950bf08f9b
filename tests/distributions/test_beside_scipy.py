"""Densities, distribution functions, moments and entropies beside those of SciPy."""

import math

import numpy as np
import pytest
import scipy.stats

import triten as tt

D = tt.distributions
S = scipy.stats


def f64(values):
    return tt.tensor(values, dtype=tt.float64)


A, B, R = np.array([0.6, 1.5, 12.0]), np.array([1.2, 0.9, 3.0]), np.array([-1.3, 0.2, 2.1])
P = np.array([0.05, 0.5, 0.8])
POSITIVE, UNIT, COUNTS = [0.1, 1.3, 4.2], [0.05, 0.5, 0.93], [0.0, 2.0, 5.0]

CONTINUOUS = {
    "beta": (D.Beta(f64(A), f64(B)), S.beta(A, B), UNIT),
    "cauchy": (D.Cauchy(f64(R), f64(B)), S.cauchy(R, B), [-2.0, 0.2, 40.0]),
    "chi2": (D.Chi2(f64(A)), S.chi2(A), POSITIVE),
    "exponential": (D.Exponential(f64(A)), S.expon(scale=1 / A), POSITIVE),
    "fisher": (D.FisherSnedecor(f64(A), f64([5.0, 7.0, 9.0])), S.f(A, [5.0, 7.0, 9.0]), POSITIVE),
    "gamma": (D.Gamma(f64(A), f64(B)), S.gamma(A, scale=1 / B), POSITIVE),
    "generalized pareto": (
        D.GeneralizedPareto(f64(R), f64(B), f64([0.3, 0.0, -0.2])),
        S.genpareto([0.3, 0.0, -0.2], R, B),
        [0.5, 0.9, 3.0],
    ),
    "gumbel": (D.Gumbel(f64(R), f64(B)), S.gumbel_r(R, B), [-2.0, 0.5, 9.0]),
    "half-cauchy": (D.HalfCauchy(f64(A)), S.halfcauchy(scale=A), POSITIVE),
    "half-normal": (D.HalfNormal(f64(A)), S.halfnorm(scale=A), POSITIVE),
    "inverse gamma": (
        D.InverseGamma(f64([3.0, 5.0, 7.0]), f64(B)),
        S.invgamma([3.0, 5.0, 7.0], scale=B),
        POSITIVE,
    ),
    "laplace": (D.Laplace(f64(R), f64(B)), S.laplace(R, B), [-4.0, 0.2, 9.0]),
    "log-normal": (D.LogNormal(f64(R), f64(B)), S.lognorm(B, scale=np.exp(R)), POSITIVE),
    "normal": (D.Normal(f64(R), f64(B)), S.norm(R, B), [-4.0, 0.2, 9.0]),
    "pareto": (D.Pareto(f64(B), f64([3.0, 5.0, 7.0])), S.pareto([3.0, 5.0, 7.0], scale=B), [1.3, 1.0, 8.0]),
    "student": (
        D.StudentT(f64([3.0, 5.0, 7.0]), f64(R), f64(B)),
        S.t([3.0, 5.0, 7.0], R, B),
        [-4.0, 0.2, 9.0],
    ),
    "uniform": (D.Uniform(f64(R), f64(R + B)), S.uniform(R, B), [-1.0, 0.5, 3.0]),
    "von mises": (
        D.VonMises(f64(R), f64([0.01, 3.0, 800.0])),
        S.vonmises([0.01, 3.0, 800.0], R),
        [-1.0, 0.5, 2.2],
    ),
    "weibull": (D.Weibull(f64(A), f64(B)), S.weibull_min(B, scale=A), POSITIVE),
}

DISCRETE = {
    "bernoulli": (D.Bernoulli(f64(P)), S.bernoulli(P), [0.0, 1.0, 1.0]),
    "binomial": (D.Binomial(7, f64(P)), S.binom(7, P), COUNTS),
    "geometric": (D.Geometric(f64(P)), S.geom(P, loc=-1), COUNTS),
    "negative binomial": (D.NegativeBinomial(f64(A), f64(P)), S.nbinom(A, 1 - P), COUNTS),
    "poisson": (D.Poisson(f64(A)), S.poisson(A), COUNTS),
}


def close(found, expected, rtol=1e-9):
    np.testing.assert_allclose(found.numpy(), expected, rtol=rtol, atol=1e-13)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities(name):
    ours, theirs, value = CONTINUOUS[name]
    close(ours.log_prob(f64(value)), theirs.logpdf(value))


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities(name):
    ours, theirs, value = DISCRETE[name]
    close(ours.log_prob(f64(value)), theirs.logpmf(value))


@pytest.mark.parametrize("name", {**CONTINUOUS, **DISCRETE})
def test_moments(name):
    ours, theirs, _ = {**CONTINUOUS, **DISCRETE}[name]
    if name in ("von mises", "half-cauchy", "cauchy"):
        return
    close(ours.mean, theirs.mean())
    close(ours.variance, theirs.var())
    close(ours.stddev, theirs.std())


@pytest.mark.parametrize("name", {**CONTINUOUS, **DISCRETE})
def test_entropies(name):
    ours, theirs, _ = {**CONTINUOUS, **DISCRETE}[name]
    try:
        found = ours.entropy()
    except NotImplementedError:
        assert name in ("fisher", "von mises", "negative binomial", "poisson")
        return
    close(found, theirs.entropy(), rtol=1e-6)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution_functions(name):
    ours, theirs, value = CONTINUOUS[name]
    try:
        found = ours.cdf(f64(value))
    except NotImplementedError:
        assert name in ("beta", "fisher", "student", "von mises")
        return
    close(found, theirs.cdf(value))
    try:
        quantiles = ours.icdf(f64(UNIT))
    except NotImplementedError:
        assert name in ("chi2", "gamma", "inverse gamma")
        return
    close(quantiles, theirs.ppf(UNIT), rtol=1e-8)


def test_dirichlet():
    ours, theirs = D.Dirichlet(f64(A)), S.dirichlet(A)
    value = np.array([0.2, 0.3, 0.5])
    close(ours.log_prob(f64(value)), theirs.logpdf(value))
    close(ours.mean, theirs.mean())
    close(ours.variance, theirs.var())
    close(ours.entropy(), theirs.entropy())


def test_multinomial():
    p = np.array([0.2, 0.3, 0.5])
    ours, theirs = D.Multinomial(4, f64(p)), S.multinomial(4, p)
    close(ours.log_prob(f64([1.0, 2.0, 1.0])), theirs.logpmf([1, 2, 1]))
    close(ours.entropy(), theirs.entropy())


C = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.7]])


@pytest.mark.parametrize("kind", ["covariance", "precision", "factor", "low rank"])
def test_multivariate_normal(kind):
    factor = np.array([[1.0, 0.2], [0.1, 0.3], [0.0, 0.5]])
    covariance = factor @ factor.T + np.diag(B) if kind == "low rank" else C
    ours = {
        "covariance": lambda: D.MultivariateNormal(f64(R), covariance_matrix=f64(C)),
        "precision": lambda: D.MultivariateNormal(f64(R), precision_matrix=f64(np.linalg.inv(C))),
        "factor": lambda: D.MultivariateNormal(f64(R), scale_tril=f64(np.linalg.cholesky(C))),
        "low rank": lambda: D.LowRankMultivariateNormal(f64(R), f64(factor), f64(B)),
    }[kind]()
    theirs = S.multivariate_normal(R, covariance)
    x = np.array([[0.2, 0.3, 0.5], [-3.0, 1.0, 2.0]])
    close(ours.log_prob(f64(x)), theirs.logpdf(x))
    close(ours.entropy(), theirs.entropy())
    close(ours.covariance_matrix, covariance)
    close(ours.precision_matrix, np.linalg.inv(covariance))
    close(ours.scale_tril, np.linalg.cholesky(covariance))
    close(ours.variance, np.diag(covariance))
    tt.manual_seed(0)
    drawn = ours.sample((20000,)).numpy()
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.06)


def test_wishart():
    ours, theirs = D.Wishart(f64(4.5), f64(C)), S.wishart(4.5, C)
    value = np.array([[3.0, 0.2, 0.1], [0.2, 2.0, 0.3], [0.1, 0.3, 1.0]])
    close(ours.log_prob(f64(value)), theirs.logpdf(value))
    close(ours.entropy(), theirs.entropy())
    close(ours.mean, theirs.mean())
    close(ours.variance, theirs.var())


def test_lkj_of_two_dimensions_is_a_beta_distribution():
    # Of L = [[1, 0], [r, sqrt(1 - r^2)]], (r + 1) / 2 has equal shapes.
    ours = D.LKJCholesky(2, f64(1.7))
    tt.manual_seed(0)
    r = ours.sample((5000,))[:, 1, 0].numpy()
    assert S.kstest((r + 1) / 2, S.beta(1.7, 1.7).cdf).pvalue > 1e-4


def test_entropy_of_lkj_is_that_of_pytorch():
    # The value of `torch.distributions.LKJCholesky(3, 1.0).log_prob` at the identity.
    found = D.LKJCholesky(3, f64(1.0)).log_prob(tt.eye(3, dtype=tt.float64))
    assert found.item() == pytest.approx(LKJ_AT_THE_IDENTITY, rel=1e-12)


LKJ_AT_THE_IDENTITY = -math.log(math.pi**2 / 2)


@pytest.mark.parametrize("kappa", [1e-7, 0.3, 5.0, 1e4])
def test_von_mises_samples(kappa):
    tt.manual_seed(1)
    drawn = D.VonMises(f64(0.4), f64(kappa)).sample((5000,)).numpy()
    assert ((drawn >= -math.pi) & (drawn < math.pi)).all()
    around = (drawn - 0.4 + math.pi) % (2 * math.pi) - math.pi
    assert S.kstest(around, S.vonmises(kappa).cdf).pvalue > 1e-4


def test_limits_of_student():
    found = D.StudentT(f64([0.5, 1.5, 2.0, 3.0]))
    assert math.isnan(found.mean[0]) and found.mean[1:].tolist() == [0.0] * 3
    variance = found.variance.tolist()
    assert math.isnan(variance[0]) and variance[1:3] == [math.inf] * 2 and variance[3] == pytest.approx(3.0)
