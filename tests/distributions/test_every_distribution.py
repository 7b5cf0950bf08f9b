"""What holds for every distribution: shapes, supports, expanding, moments, densities, gradients."""

import copy
import math
import pickle

import numpy as np
import pytest

import triten as tt
from triten.tests.distributions.conftest import CASES

D = tt.distributions
N = 4000

DISCRETE = {
    "Bernoulli",
    "Bernoulli of logits",
    "Binomial",
    "Binomial of logits",
    "Categorical",
    "Categorical of logits",
    "Geometric",
    "Multinomial",
    "NegativeBinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
}


def given(call):
    """Return the value of a property, or None if the distribution lacks it."""
    try:
        return call()
    except NotImplementedError:
        return None


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_samples_have_shape_dtype_and_support(case, make, shape):
    distribution, _, _ = make(case)
    drawn = distribution.sample(shape)
    assert drawn.shape == (*shape, *distribution.batch_shape, *distribution.event_shape)
    assert drawn.dtype is (tt.int64 if case.startswith("Categorical") else tt.float64)
    assert not drawn.requires_grad
    assert bool(distribution.support.check(drawn).all())
    assert distribution.log_prob(drawn).shape == (*shape, *distribution.batch_shape)


def test_sample_n_warns(make):
    distribution, _, _ = make("Normal")
    with pytest.warns(FutureWarning, match="sample_n"):
        assert distribution.sample_n(4).shape == (4, 2, 3)


def test_the_same_seed_gives_the_same_samples(case, make):
    distribution, _, _ = make(case)
    tt.manual_seed(3)
    first = distribution.sample((4,))
    tt.manual_seed(3)
    assert distribution.sample((4,)).tolist() == first.tolist()


def test_samples_are_differentiable_where_they_say_so(case, make):
    distribution, leaves, _ = make(case)
    if not distribution.has_rsample:
        if case != "RelaxedBernoulli":
            assert given(lambda: distribution.rsample()) is None
        return
    drawn = distribution.rsample((3,))
    assert drawn.requires_grad
    drawn.sum().backward()
    for leaf in leaves:
        assert leaf.grad is not None and bool(leaf.grad.isfinite().all())


def test_expanding_keeps_everything(case, make):
    distribution, _, value = make(case)
    wide = distribution.expand((4, *distribution.batch_shape))
    assert type(wide) is type(distribution)
    assert wide.batch_shape == (4, *distribution.batch_shape)
    assert wide.event_shape == distribution.event_shape
    assert wide.sample((2,)).shape == (2, *wide.batch_shape, *wide.event_shape)
    assert bool(wide.support.check(wide.sample()).all())
    expected = distribution.log_prob(value).expand(wide.batch_shape)
    np.testing.assert_allclose(wide.log_prob(value).numpy(force=True), expected.numpy(force=True))
    for name in ("mean", "variance", "mode"):
        one = given(lambda name=name: getattr(distribution, name))
        if one is None:
            continue
        other = getattr(wide, name).numpy(force=True)
        expected = np.broadcast_to(one.numpy(force=True), other.shape)
        np.testing.assert_allclose(other, expected, equal_nan=True, err_msg=name)
    entropy = given(distribution.entropy)
    if entropy is not None:
        assert wide.entropy().shape == wide.batch_shape
    assert wide.expand(wide.batch_shape).batch_shape == wide.batch_shape


def test_moments_are_those_of_samples(case, make):
    distribution, _, _ = make(case)
    mean, variance = given(lambda: distribution.mean), given(lambda: distribution.variance)
    if mean is None or variance is None or case in ("VonMises", "Cauchy", "HalfCauchy"):
        return
    if case.startswith("Categorical"):
        assert bool(mean.isnan().all()) and bool(variance.isnan().all())
        return
    drawn = distribution.sample((N,)).numpy(force=True)
    spread = variance.numpy(force=True)
    finite = np.isfinite(spread)
    error = np.abs(drawn.mean(0) - mean.numpy(force=True))
    assert (error <= 5 * np.sqrt(spread / N) + 1e-9)[finite].all()
    # The error of a sample's variance is that of its fourth moment, which the samples estimate.
    centred = (drawn - drawn.mean(0)) ** 2
    bound = 6 * centred.std(0) / math.sqrt(N) + 1e-9
    assert (np.abs(centred.mean(0) - spread) <= bound)[finite].all()
    np.testing.assert_allclose(distribution.stddev.numpy(force=True) ** 2, spread, rtol=1e-9)


def test_entropy_is_the_mean_of_the_negative_log_density(case, make):
    distribution, _, _ = make(case)
    entropy = given(distribution.entropy)
    if entropy is None:
        return
    logs = -distribution.log_prob(distribution.sample((N,))).numpy(force=True)
    error = np.abs(logs.mean(0) - entropy.numpy(force=True))
    assert (error <= 5 * logs.std(0) / math.sqrt(N) + 1e-9).all()
    np.testing.assert_allclose(
        distribution.perplexity().numpy(force=True), np.exp(entropy.numpy(force=True)), rtol=1e-12
    )


def test_the_mode_has_the_greatest_density(case, make):
    distribution, _, _ = make(case)
    mode = given(lambda: distribution.mode)
    if mode is None or not bool(distribution.support.check(mode).all()):
        return
    best = distribution.log_prob(mode).numpy(force=True)
    others = distribution.log_prob(distribution.sample((200,))).numpy(force=True)
    assert (others <= best + 1e-9).all()


def test_cdf_is_the_integral_of_the_density(case, make):
    _, leaves, value = make(case)
    distribution = CASES[case].make(*(leaf.detach() for leaf in leaves))
    if case in DISCRETE or given(lambda: distribution.cdf(value)) is None:
        return
    level = distribution.cdf(value)
    assert bool(((level >= 0) & (level <= 1)).all())
    x = value.expand(level.shape).clone().requires_grad_()
    slope = tt.autograd.grad(distribution.cdf(x).sum(), x)[0]
    density = distribution.log_prob(value).exp()
    # Near 1/2, the continuous Bernoulli distribution is taken for uniform.
    tolerance = 2e-3 if case == "ContinuousBernoulli" else 1e-7
    np.testing.assert_allclose(slope.numpy(), density.numpy(force=True), rtol=tolerance, atol=1e-12)


def test_icdf_inverts_cdf(case, make):
    distribution, _, _ = make(case)
    level = tt.tensor([[0.03], [0.4], [0.95]], dtype=tt.float64)
    level = level.reshape((3, *([1] * len(distribution.batch_shape)))).expand((3, *distribution.batch_shape))
    if distribution.event_shape or given(lambda: distribution.icdf(level)) is None:
        return
    back = distribution.cdf(distribution.icdf(level))
    np.testing.assert_allclose(back.numpy(force=True), level.numpy(), rtol=1e-9)


def test_samples_follow_the_cdf(case, make):
    distribution, _, value = make(case)
    if case in DISCRETE or given(lambda: distribution.cdf(value)) is None:
        return
    drawn = distribution.sample((N,))
    levels = np.sort(distribution.cdf(drawn).numpy(force=True), axis=0)
    steps = (np.arange(1, N + 1) / N).reshape((N, *([1] * (levels.ndim - 1))))
    # Kolmogorov and Smirnov's distance, beyond which there are samples once in ten thousand times.
    assert np.abs(levels - steps).max() < 2.2 / math.sqrt(N)


def test_densities_of_supports_sum_to_one(case, make):
    distribution, _, _ = make(case)
    if not distribution.has_enumerate_support:
        assert given(distribution.enumerate_support) is None
        return
    values = distribution.enumerate_support()
    narrow = distribution.enumerate_support(expand=False)
    assert values.shape[1:] == distribution.batch_shape + distribution.event_shape
    ones = (1,) * len(distribution.batch_shape)
    assert narrow.shape == (len(values), *ones, *distribution.event_shape)
    total = distribution.log_prob(values).exp().sum(0)
    np.testing.assert_allclose(total.numpy(force=True), 1.0, rtol=1e-12)


def test_gradients_of_densities_agree_with_differences(case, make):
    _, leaves, value = make(case)
    function = CASES[case].make
    if case == "GeneralizedPareto":
        # At 0, the limit of its formula is a formula of its own, without this parameter.
        leaves[2].data = leaves[2] + 0.05

    def log_prob(*parameters):
        # Differences leave the symmetric matrices.
        return function(*(p if p.shape[-2:] != (3, 3) else (p + p.mT) / 2 for p in parameters)).log_prob(
            value
        )

    D.Distribution.set_default_validate_args(False)
    try:
        assert tt.autograd.gradcheck(log_prob, tuple(leaves), rtol=2e-3)
    finally:
        D.Distribution.set_default_validate_args(True)


def test_repr_names_the_class(case, make):
    distribution, _, _ = make(case)
    assert repr(distribution).startswith(type(distribution).__name__ + "(")


def test_copies_and_pickles(case, make):
    distribution, leaves, value = make(case)
    expected = distribution.log_prob(value).tolist()
    plain = CASES[case].make(*(leaf.detach() for leaf in leaves))
    for other in (copy.deepcopy(plain), pickle.loads(pickle.dumps(plain))):
        assert other.log_prob(value).tolist() == expected


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
def test_float32_agrees_with_float64(case, make, dtype):
    wide, _, value = make(case)
    distribution, _, narrow = make(case, dtype=dtype)
    found = distribution.log_prob(narrow)
    assert found.dtype is dtype
    tolerance = 1e-12 if dtype is tt.float64 else 3e-4
    np.testing.assert_allclose(
        found.double().numpy(force=True),
        wide.log_prob(value).numpy(force=True),
        rtol=tolerance,
        atol=tolerance,
    )


@pytest.mark.parametrize(
    "name",
    [
        "Normal",
        "Gamma",
        "Beta",
        "Dirichlet",
        "Poisson",
        "Binomial",
        "Categorical",
        "StudentT",
        "VonMises",
        "Wishart",
    ],
)
def test_on_another_device(name, make):
    host, _, value = make(name)
    distribution, _, there = make(name, device="cuda")
    assert distribution.sample((3,)).device.type == "cuda"
    np.testing.assert_allclose(
        distribution.log_prob(there).numpy(force=True), host.log_prob(value).numpy(force=True), rtol=1e-9
    )
    tt.manual_seed(5)
    first = host.sample((3,))
    tt.manual_seed(5)
    second = distribution.sample((3,))
    np.testing.assert_allclose(second.numpy(force=True), first.numpy(), rtol=1e-9)
