"""A distribution of each class, with parameters in float64 and values of its support."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import triten as tt

D = tt.distributions

MATRIX = [[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.7]]
FACTOR = [[1.0, 0.0, 0.0], [0.2, 0.9797958971132712, 0.0], [0.1, -0.3, 0.9486832980505138]]
SIMPLEX = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]


class Case(NamedTuple):
    make: Callable[..., Any]
    """The distribution of its parameters."""
    parameters: tuple[Any, ...]
    value: Any
    """A value of the support, or several."""


POSITIVE = [0.1, 0.8, 2.3]
REAL = [-1.3, 0.2, 2.1]
UNIT = [0.05, 0.5, 0.93]
COUNTS = [0.0, 1.0, 3.0]
PROBS = [[0.2, 0.5, 0.9], [0.05, 0.3, 0.7]]
A = [[0.6, 1.5, 2.5], [0.7, 4.0, 11.0]]
B = [[1.2, 0.9, 3.0], [2.2, 0.8, 6.0]]


def by(kind: Any, *names: str) -> Callable[..., Any]:
    """Return a function that calls `kind` with these parameter names."""
    return lambda *given: kind(**dict(zip(names, given, strict=True)))


def table() -> dict[str, Case]:
    return {
        "Bernoulli": Case(by(D.Bernoulli, "probs"), (PROBS,), [0.0, 1.0, 1.0]),
        "Bernoulli of logits": Case(by(D.Bernoulli, "logits"), (REAL,), [0.0, 1.0, 1.0]),
        "Beta": Case(D.Beta, (A, B), UNIT),
        "Binomial": Case(lambda p: D.Binomial(5, probs=p), (PROBS,), COUNTS),
        "Binomial of logits": Case(lambda p: D.Binomial(5, logits=p), (REAL,), COUNTS),
        "Categorical": Case(D.Categorical, (SIMPLEX,), [0.0, 2.0]),
        "Categorical of logits": Case(by(D.Categorical, "logits"), (A,), [0.0, 2.0]),
        "Cauchy": Case(D.Cauchy, (REAL, B), REAL),
        "Chi2": Case(D.Chi2, (A,), POSITIVE),
        "ContinuousBernoulli": Case(D.ContinuousBernoulli, ([0.2, 0.4995, 0.9],), UNIT),
        "Dirichlet": Case(D.Dirichlet, (A,), SIMPLEX),
        "Exponential": Case(D.Exponential, (A,), POSITIVE),
        "FisherSnedecor": Case(D.FisherSnedecor, (A, [5.0, 7.0, 9.0]), POSITIVE),
        "Gamma": Case(D.Gamma, (A, B), POSITIVE),
        "GeneralizedPareto": Case(D.GeneralizedPareto, (REAL, B, [0.0, 0.2, -0.2]), [[0.5, 0.9, 3.0]]),
        "Geometric": Case(D.Geometric, (PROBS,), COUNTS),
        "Gumbel": Case(D.Gumbel, (REAL, B), REAL),
        "HalfCauchy": Case(D.HalfCauchy, (A,), POSITIVE),
        "HalfNormal": Case(D.HalfNormal, (A,), POSITIVE),
        "Independent": Case(lambda a, b: D.Independent(D.Normal(a, b), 1), (A, B), REAL),
        "InverseGamma": Case(D.InverseGamma, ([3.0, 5.0, 7.0], B), POSITIVE),
        "Kumaraswamy": Case(D.Kumaraswamy, (A, B), UNIT),
        "LKJCholesky": Case(lambda c: D.LKJCholesky(3, c), ([0.7, 1.0, 4.0],), [FACTOR] * 3),
        "Laplace": Case(D.Laplace, (REAL, B), REAL),
        "LogNormal": Case(D.LogNormal, (REAL, [0.3, 0.4, 0.5]), POSITIVE),
        "LogisticNormal": Case(D.LogisticNormal, (REAL, B), [[0.1, 0.2, 0.3, 0.4]] * 2),
        "LowRankMultivariateNormal": Case(
            D.LowRankMultivariateNormal, (REAL, [[[1.0, 0.2], [0.1, 0.3], [0.0, 0.5]]] * 2, B), A
        ),
        "MixtureSameFamily": Case(
            lambda p, m, s: D.MixtureSameFamily(D.Categorical(p), D.Normal(m, s)), (SIMPLEX, A, B), [0.5, 2.0]
        ),
        "MixtureSameFamily of vectors": Case(
            lambda p, m, s: D.MixtureSameFamily(D.Categorical(p), D.Independent(D.Normal(m, s), 1)),
            ([0.3, 0.7], A, B),
            [0.5, 2.0, 1.0],
        ),
        "Multinomial": Case(lambda p: D.Multinomial(4, p), (SIMPLEX,), [[1.0, 2.0, 1.0], [4.0, 0.0, 0.0]]),
        "MultivariateNormal": Case(D.MultivariateNormal, (A, MATRIX), B),
        "MultivariateNormal of a precision": Case(
            by(D.MultivariateNormal, "loc", "precision_matrix"), (A, MATRIX), B
        ),
        "MultivariateNormal of a factor": Case(
            by(D.MultivariateNormal, "loc", "scale_tril"), (REAL, [FACTOR] * 2), B
        ),
        "NegativeBinomial": Case(D.NegativeBinomial, (A, PROBS), COUNTS),
        "Normal": Case(D.Normal, (REAL, B), REAL),
        "OneHotCategorical": Case(D.OneHotCategorical, (SIMPLEX,), [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
        "OneHotCategoricalStraightThrough": Case(
            D.OneHotCategoricalStraightThrough, (SIMPLEX,), [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
        ),
        "Pareto": Case(D.Pareto, ([0.5, 0.8, 1.0], [5.0, 6.0, 7.0]), [0.6, 1.5, 3.0]),
        "Poisson": Case(D.Poisson, (A,), COUNTS),
        "RelaxedBernoulli": Case(lambda t, p: D.RelaxedBernoulli(t, probs=p), (0.7, PROBS), UNIT),
        "RelaxedOneHotCategorical": Case(D.RelaxedOneHotCategorical, (0.7, SIMPLEX), SIMPLEX),
        "StudentT": Case(D.StudentT, ([5.0, 7.0, 9.0], REAL, B), REAL),
        "TransformedDistribution": Case(
            lambda m, s: D.TransformedDistribution(
                D.Normal(m, s), [D.AffineTransform(0.5, -0.3), D.SigmoidTransform()]
            ),
            (REAL, B),
            UNIT,
        ),
        "Uniform": Case(D.Uniform, (REAL, [1.0, 2.0, 4.0]), [-0.5, 0.5, 3.0]),
        "VonMises": Case(D.VonMises, (REAL, B), REAL),
        "Weibull": Case(D.Weibull, (A, B), POSITIVE),
        "Wishart": Case(D.Wishart, ([4.0, 5.0], [MATRIX] * 2), [MATRIX] * 2),
    }


CASES = table()


def made(
    name: str, device: str = "cpu", dtype: tt.dtype = tt.float64
) -> tuple[Any, list[tt.Tensor], tt.Tensor]:
    """Create a distribution, the leaves of its parameters, and values of its support."""
    case = CASES[name]
    leaves = [tt.tensor(p, dtype=dtype, device=device, requires_grad=True) for p in case.parameters]
    return case.make(*leaves), leaves, tt.tensor(case.value, dtype=dtype, device=device)


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> str:
    """Return the name of each case."""
    return request.param


@pytest.fixture
def make() -> Callable[..., Any]:
    """`made`."""
    return made
