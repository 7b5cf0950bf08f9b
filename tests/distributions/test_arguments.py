"""What distributions refuse, and in which words; what the namespace has."""

import subprocess
import sys

import pytest

import triten as tt

D = tt.distributions


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: D.Normal(tt.zeros(2), tt.tensor([1.0, -1.0])),
            r"Expected parameter scale \(Tensor of shape \(2,\)\) of distribution "
            r"Normal\(loc: triten.Size\(\[2\]\), scale: triten.Size\(\[2\]\)\) to satisfy the constraint "
            r"GreaterThan\(lower_bound=0.0\), but found invalid values:\ntensor\(\[ 1., -1.\]\)",
        ),
        (lambda: D.Normal(float("nan"), 1.0), "Expected parameter loc .* to satisfy the constraint Real"),
        (lambda: D.Bernoulli(1.5), "Expected parameter probs .* to satisfy the constraint Interval"),
        (lambda: D.Bernoulli(0.5, 0.0), "Either `probs` or `logits` must be specified, but not both"),
        (lambda: D.Bernoulli(), "Either `probs` or `logits` must be specified, but not both"),
        (lambda: D.Categorical(tt.tensor(0.5)), "`probs` parameter must be at least one-dimensional"),
        (lambda: D.Categorical(tt.tensor([-1.0, 2.0])), "Expected parameter probs .* Simplex"),
        (lambda: D.Dirichlet(tt.tensor(1.0)), "`concentration` parameter must be at least one-dimensional"),
        (lambda: D.Uniform(2.0, 1.0), "Expected parameter low .* LessThan"),
        (lambda: D.Geometric(0.0), "Expected parameter probs .* to be positive but found invalid values"),
        (lambda: D.LKJCholesky(1), "Expected dim to be an integer greater than or equal to 2. Found dim=1"),
        (lambda: D.Independent(D.Normal(0.0, 1.0), 1), "Expected reinterpreted_batch_ndims <="),
        (lambda: D.MultivariateNormal(tt.zeros(2)), "Exactly one of covariance_matrix or precision_matrix"),
        (lambda: D.MultivariateNormal(tt.zeros(2), -tt.eye(2)), "Expected parameter covariance_matrix"),
        (lambda: D.MultivariateNormal(tt.tensor(0.0), tt.eye(2)), "loc must be at least one-dimensional"),
        (lambda: D.Wishart(1.0, tt.eye(2)), "expected to be greater than ndim - 1 = 1"),
        (
            lambda: D.MixtureSameFamily(D.Categorical(tt.ones(3)), D.Normal(tt.zeros(2), 1.0)),
            r"component` \(3\) does not equal",
        ),
        (lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(tt.zeros(2), 1.0)), "Mixture distribution"),
        (lambda: D.Normal("0", 1.0), "Input arguments must all be instances of Number"),
    ],
)
def test_parameters_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("distribution", "value", "message"),
    [
        (
            D.Normal(tt.zeros(3), 1.0),
            tt.zeros(2),
            r"not broadcastable with batch_shape\+event_shape: .*2.* vs .*3",
        ),
        (D.Dirichlet(tt.ones(3)), tt.ones(2), "The right-most size of value must match event_shape"),
        (
            D.Exponential(1.0),
            tt.tensor(-1.0),
            r"Expected value argument \(Tensor of shape \(\)\) to be within the support "
            r"\(GreaterThanEq\(lower_bound=0.0\)\) of the distribution Exponential\(rate: 1.0\), "
            r"but found invalid values:\n-1.0",
        ),
        (D.Bernoulli(0.5), tt.tensor(0.5), "to be within the support .Boolean"),
        (D.Binomial(2, tt.tensor(0.5)), tt.tensor(3.0), "to be within the support .IntegerInterval"),
        (D.Normal(0.0, 1.0), 0.5, "The value argument to log_prob must be a Tensor"),
    ],
)
def test_values_are_checked(distribution, value, message):
    with pytest.raises(ValueError, match=message):
        distribution.log_prob(value)


def test_checks_can_be_left_out():
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1.0
    assert D.Exponential(1.0, validate_args=False).log_prob(tt.tensor(-1.0)).item() == 1.0
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        D.Distribution.set_default_validate_args("yes")


def test_inhomogeneous_counts():
    counts = D.Binomial(tt.tensor([2, 3]), tt.tensor([0.5, 0.5]))
    for call in (counts.enumerate_support, counts.entropy):
        with pytest.raises(NotImplementedError, match="Inhomogeneous total count not supported"):
            call()
    with pytest.raises(NotImplementedError, match="inhomogeneous total_count"):
        D.Multinomial(tt.tensor([1, 2]), tt.ones(2))
    with pytest.raises(NotImplementedError, match="cartesian product"):
        D.Independent(D.Bernoulli(tt.full((2,), 0.5)), 1).enumerate_support()


def test_a_class_without_constraints_warns():
    class Mine(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        Mine()


def test_lazy_parameters_are_computed_once():
    bernoulli = D.Bernoulli(logits=tt.tensor([0.3, -2.0], requires_grad=True))
    assert "probs" not in vars(bernoulli)
    with tt.no_grad():
        probs = bernoulli.probs
    assert probs.requires_grad and bernoulli.probs is probs


def test_numbers_make_no_batch():
    assert D.Normal(0.0, 1.0).batch_shape == () and D.Beta(1.0, 2.0).batch_shape == ()
    assert D.Gumbel(0.0, 1.0).sample().shape == ()
    assert D.Weibull(1.0, 2.0).sample((3,)).shape == (3,)


def test_dirichlet_samples_move_with_their_quantiles():
    # In two dimensions these are beta numbers: their slope is that of the quantile.
    alpha = tt.tensor([2.0, 3.0], dtype=tt.float64, requires_grad=True)
    x = D.Dirichlet(alpha).rsample()
    (slope,) = tt.autograd.grad(x[0], alpha)
    from scipy.special import betainc, betaincinv

    level = betainc(2.0, 3.0, x[0].item())
    expected = [
        (betaincinv(2.0 + 1e-5, 3.0, level) - betaincinv(2.0 - 1e-5, 3.0, level)) / 2e-5,
        (betaincinv(2.0, 3.0 + 1e-5, level) - betaincinv(2.0, 3.0 - 1e-5, level)) / 2e-5,
    ]
    assert slope.tolist() == pytest.approx(expected, rel=1e-6)


def test_all_names_of_pytorch():
    import triten.distributions as namespace

    assert len(namespace.__all__) == 67
    for name in namespace.__all__:
        assert getattr(namespace, name) is not None
    assert D.normal.Normal is D.Normal and D.studentT.StudentT is D.StudentT


def test_nothing_is_loaded_before_it_is_used():
    code = "import sys, triten as tt; print(any(m.startswith('triten.distributions.') for m in sys.modules))"
    printed = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "False"


def test_huge_logits_of_a_continuous_bernoulli():
    found = tt.distributions.ContinuousBernoulli(logits=tt.tensor([1e38, -1e38])).log_prob(
        tt.tensor([1.0, 0.0])
    )
    assert tt.allclose(found, tt.tensor(2.7690), atol=1e-3)


@pytest.mark.parametrize(
    "distribution",
    [D.Gamma(0.5, 1.0), D.Chi2(1.0), D.HalfCauchy(2.0, validate_args=False)],
    ids=lambda d: type(d).__name__,
)
def test_log_prob_takes_a_number(distribution: tt.distributions.Distribution) -> None:
    assert tt.equal(distribution.log_prob(1), distribution.log_prob(tt.tensor(1.0)))


class OfRoot(D.MultivariateNormal):
    """Distribution that computes the factor itself, as packages for Gaussian processes do."""

    def __init__(self, loc, root):
        self.loc, self.root = loc, root
        D.Distribution.__init__(self, loc.shape[:-1], loc.shape[-1:], validate_args=False)

    @property
    def _unbroadcasted_scale_tril(self):
        return self.root


def test_subclasses_may_supply_the_factor():
    root = tt.tensor([[2.0, 0.0], [1.0, 3.0]])
    own, full = OfRoot(tt.zeros(2), root), D.MultivariateNormal(tt.zeros(2), scale_tril=root)
    x = tt.tensor([[1.0, -2.0], [0.5, 4.0]])
    for got, expected in (
        (own.log_prob(x), full.log_prob(x)),
        (own.entropy(), full.entropy()),
        (own.variance, full.variance),
        (own.covariance_matrix, root @ root.mT),
        (D.kl_divergence(own, full), tt.tensor(0.0)),
    ):
        assert tt.allclose(got, expected, atol=1e-6)


def test_functions_for_packages_of_distributions():
    from triten.distributions.lowrank_multivariate_normal import (
        _batch_capacitance_tril,
        _batch_lowrank_logdet,
        _batch_lowrank_mahalanobis,
    )
    from triten.distributions.multivariate_normal import (
        _batch_mahalanobis,
        _batch_mv,
        _precision_to_scale_tril,
    )

    low_rank, diagonal, x = tt.tensor([[1.0], [2.0]]), tt.tensor([0.5, 1.5]), tt.tensor([1.0, -1.0])
    full = low_rank @ low_rank.mT + diagonal.diag()
    factor = _batch_capacitance_tril(low_rank, diagonal)
    assert tt.allclose(_batch_lowrank_logdet(low_rank, diagonal, factor), tt.logdet(full))
    distance = x @ tt.linalg.solve(full, x)
    assert tt.allclose(_batch_lowrank_mahalanobis(low_rank, diagonal, x, factor), distance)
    assert tt.allclose(_batch_mahalanobis(tt.linalg.cholesky(full), x), distance)
    assert tt.allclose(_batch_mv(full, x), full @ x)
    root = _precision_to_scale_tril(full)
    assert tt.allclose(root @ root.mT, tt.linalg.inv(full)) and tt.equal(root, root.tril())
