"""Transforms: inverses, determinants beside autograd's Jacobian, shapes, caches, compositions."""

import pickle

import numpy as np
import pytest

import triten as tt

D = tt.distributions
c = D.constraints


def f64(values):
    return tt.tensor(values, dtype=tt.float64)


X = f64([[-1.2, 0.3, 2.0], [0.5, -0.2, 0.1]])
MATRIX = f64([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.7]])

TRANSFORMS = {
    "Affine": (lambda size: D.AffineTransform(1.0, f64([2.0, -3.0, 0.5]), cache_size=size), X),
    "Affine of events": (lambda size: D.AffineTransform(f64(1.0), -2.0, event_dim=1, cache_size=size), X),
    "Cat": (
        lambda size: D.CatTransform(
            [D.ExpTransform(), D.AffineTransform(1.0, 2.0)], dim=-1, lengths=[1, 2], cache_size=size
        ),
        X,
    ),
    "Compose": (
        lambda size: D.ComposeTransform([D.AffineTransform(0.0, 2.0), D.TanhTransform()], cache_size=size),
        X,
    ),
    "Compose with events": (
        lambda size: D.ComposeTransform(
            [D.AffineTransform(0.0, 2.0), D.StickBreakingTransform()], cache_size=size
        ),
        X,
    ),
    "CorrCholesky": (lambda size: D.CorrCholeskyTransform(cache_size=size), X),
    "CumulativeDistribution": (
        lambda size: D.CumulativeDistributionTransform(D.Normal(f64(0.2), f64(1.3)), cache_size=size),
        X,
    ),
    "Exp": (lambda size: D.ExpTransform(cache_size=size), X),
    "Independent": (lambda size: D.IndependentTransform(D.ExpTransform(), 1, cache_size=size), X),
    "LowerCholesky": (lambda size: D.LowerCholeskyTransform(cache_size=size), MATRIX.tril()),
    "PositiveDefinite": (lambda size: D.PositiveDefiniteTransform(cache_size=size), MATRIX.tril()),
    "Power": (lambda size: D.PowerTransform(f64(-2.5), cache_size=size), X.abs()),
    "Reshape": (lambda size: D.ReshapeTransform((3,), (3, 1), cache_size=size), X),
    "Sigmoid": (lambda size: D.SigmoidTransform(cache_size=size), X),
    "Softplus": (lambda size: D.SoftplusTransform(cache_size=size), X),
    "Stack": (
        lambda size: D.StackTransform(
            [D.ExpTransform(), D.TanhTransform(), D.identity_transform], dim=-1, cache_size=size
        ),
        X,
    ),
    "StickBreaking": (lambda size: D.StickBreakingTransform(cache_size=size), X),
    "Tanh": (lambda size: D.TanhTransform(cache_size=size), X),
}


@pytest.fixture(params=TRANSFORMS)
def example(request):
    return request.param


@pytest.mark.parametrize("size", [0, 1])
def test_inverse(example, size):
    make, x = TRANSFORMS[example]
    transform = make(size)
    y = transform(x)
    back = transform.inv(y)
    np.testing.assert_allclose(back.numpy(), x.numpy(), rtol=1e-9, atol=1e-12)
    if size:
        assert back is x or "Compose" in example or example in ("Cat", "Stack")
    np.testing.assert_allclose(transform.inv.inv(x).numpy(), y.numpy())
    assert bool(transform.codomain.check(y).all()) and bool(transform.domain.check(x).all())
    assert transform.forward_shape(x.shape) == y.shape
    assert transform.inverse_shape(y.shape) == x.shape


def test_log_abs_det_jacobian(example):
    make, x = TRANSFORMS[example]
    transform = make(0)
    if not transform.bijective:
        with pytest.raises(NotImplementedError):
            transform.log_abs_det_jacobian(x, transform(x))
        return
    y = transform(x)
    found = transform.log_abs_det_jacobian(x, y)
    events = transform.domain.event_dim
    if example == "Stack":
        # As in PyTorch, a term for each slice.
        found = found.sum(-1)
        assert transform.inv.log_abs_det_jacobian(y, x).shape == x.shape
    assert found.shape == x.shape[: x.dim() - events]
    for place in np.ndindex(tuple(found.shape)):
        if events:
            row = x[place]
            jacobian = tt.func.jacrev(lambda v: transform(v))(row)
            jacobian = square_part(example, jacobian).numpy()
        else:
            matrix = tt.func.jacrev(lambda v: transform(v))(x)
            jacobian = matrix[place][place].reshape(1, 1).numpy()
        expected = np.linalg.slogdet(jacobian)[1]
        assert found[place].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    back = transform.inv.log_abs_det_jacobian(y, x)
    back = back.sum(-1) if example == "Stack" else back
    np.testing.assert_allclose(back.numpy(), -found.numpy())


def square_part(example, jacobian):
    """Return the independent rows of a Jacobian."""
    size = jacobian.shape[-1]
    if example == "CorrCholesky":
        return jacobian[(1, 2, 2), (0, 0, 1)]
    return jacobian.reshape(-1, size)[:size]


def test_caches(example):
    make, x = TRANSFORMS[example]
    transform = make(0)
    assert transform.with_cache(0) is transform
    cached = transform.with_cache(1)
    assert cached(x) is cached(x) or example in ("Compose with events", "Compose")
    assert tt.allclose(cached(x), transform(x))
    assert pickle.loads(pickle.dumps(cached)).inv is not None


def test_equality():
    for make, _ in TRANSFORMS.values():
        assert (transform := make(0)) == transform
        assert transform.inv.inv is transform or transform.inv.inv == transform
    assert D.ExpTransform() == D.ExpTransform()
    assert D.ExpTransform() != D.TanhTransform()
    assert D.ExpTransform().inv == D.ExpTransform().inv
    assert D.AffineTransform(0.0, 1.0) == D.AffineTransform(0, 1)
    assert D.AffineTransform(0.0, tt.ones(2)) != D.AffineTransform(0.0, tt.ones(2) * 2)
    assert D.PowerTransform(2.0) == D.PowerTransform(tt.tensor(2.0))


def test_signs():
    assert D.ExpTransform().sign == 1 and D.AffineTransform(0.0, -2.0).sign == -1
    composed = D.ComposeTransform([D.AffineTransform(0.0, -1.0), D.AffineTransform(0.0, -2.0)])
    assert composed.sign == 1
    with pytest.raises(NotImplementedError):
        D.SoftmaxTransform().sign  # noqa: B018 - the property raises


def test_softmax_and_abs():
    np.testing.assert_allclose(D.SoftmaxTransform()(X).sum(-1).numpy(), 1.0)
    y = D.SoftmaxTransform()(X)
    assert tt.allclose(D.SoftmaxTransform()(D.SoftmaxTransform().inv(y)), y)
    assert tt.equal(D.AbsTransform()(X), X.abs()) and tt.equal(D.AbsTransform().inv(X), X)


def test_far_values():
    far = f64([-800.0, -40.0, 40.0, 800.0])
    for transform in (D.SigmoidTransform(), D.SoftplusTransform(), D.TanhTransform()):
        assert bool(transform.log_abs_det_jacobian(far, transform(far)).isfinite().all())
    assert D.TanhTransform().log_abs_det_jacobian(far, far.tanh())[1].item() == pytest.approx(
        2 * np.log(2) - 80
    )


def test_refusals():
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        D.ExpTransform(cache_size=2)
    with pytest.raises(ValueError, match="different numbers of elements"):
        D.ReshapeTransform((4,), (3,))
    with pytest.raises(ValueError, match="Shape mismatch"):
        D.ReshapeTransform((4,), (2, 2)).forward_shape((3,))
    with pytest.raises(ValueError, match="not a flattened lower-diagonal number"):
        D.CorrCholeskyTransform().forward_shape((4,))
    with pytest.raises(ValueError, match="transforms must be a Transform or list"):
        D.TransformedDistribution(D.Normal(0.0, 1.0), 3)
    with pytest.raises(ValueError, match="needs to have shape with size at least 1"):
        D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform())


CONSTRAINTS = [
    c.real,
    c.positive,
    c.nonnegative,
    c.greater_than(2.0),
    c.less_than(-1.0),
    c.interval(-1.0, 3.0),
    c.half_open_interval(0.0, 1.0),
    c.unit_interval,
    c.simplex,
    c.corr_cholesky,
    c.independent(c.positive, 1),
    c.lower_cholesky,
    c.positive_definite,
    c.cat([c.positive, c.unit_interval], dim=-1, lengths=[1, 2]),
    c.stack([c.positive, c.unit_interval, c.real], dim=-1),
]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_registries_lead_to_the_constraint(registry, constraint):
    call = getattr(D, registry)
    if registry == "biject_to" and constraint in (c.lower_cholesky, c.positive_definite):
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            call(constraint)
        return
    transform = call(constraint)
    x = MATRIX if constraint in (c.lower_cholesky, c.positive_definite) else X
    y = transform(x)
    assert bool(constraint.check(y).all())
    if registry == "biject_to":
        assert transform.bijective
        np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-8, atol=1e-9)


def test_constraints_register_transforms():
    class Small(c.Constraint):
        def check(self, value):
            return value < 1e-3

    registry = D.constraint_registry.ConstraintRegistry()
    registry.register(Small, lambda _: D.ExpTransform())
    assert registry(Small()) == D.ExpTransform()
    with pytest.raises(TypeError, match="Expected constraint to be either"):
        registry.register(int, lambda _: None)


@pytest.mark.parametrize(
    ("constraint", "value", "expected"),
    [
        (c.boolean, [0.0, 1.0, 0.5], [True, True, False]),
        (c.integer_interval(1, 3), [0.0, 1.0, 2.5, 3.0], [False, True, False, True]),
        (c.nonnegative_integer, [-1.0, 0.0, 0.5], [False, True, False]),
        (c.positive_integer, [0.0, 1.0], [False, True]),
        (c.real, [1.0, float("nan"), float("inf")], [True, False, True]),
        (c.greater_than_eq(1.0), [1.0, 0.5], [True, False]),
        (c.half_open_interval(0.0, 1.0), [0.0, 1.0], [True, False]),
        (c.simplex, [[0.5, 0.5], [0.5, 0.6], [-0.5, 1.5]], [True, False, False]),
        (c.one_hot, [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]], [True, False, False]),
        (c.multinomial(3), [[1.0, 2.0], [2.0, 2.0]], [True, False]),
        (c.lower_triangular, [[[1.0, 0.0], [2.0, -3.0]], [[1.0, 1.0], [0.0, 1.0]]], [True, False]),
        (c.lower_cholesky, [[[1.0, 0.0], [2.0, -3.0]], [[1.0, 0.0], [0.0, 1.0]]], [False, True]),
        (c.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]], [True, False]),
        (c.symmetric, [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [2.5, 1.0]]], [True, False]),
        (c.positive_semidefinite, [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]], [False, True]),
        (c.positive_definite, [[[1.0, 2.0], [2.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]]], [False, True]),
        (c.square, [[[1.0, 2.0]]], [False]),
        (c.real_vector, [[1.0, float("nan")], [1.0, 2.0]], [False, True]),
    ],
    ids=lambda v: repr(v) if isinstance(v, c.Constraint) else "",
)
def test_constraints(constraint, value, expected, device):
    assert constraint.check(tt.tensor(value, device=device)).tolist() == expected


def test_dependent_constraints():
    assert c.is_dependent(c.dependent) and not c.is_dependent(c.real)
    assert c.is_dependent(D.Uniform.support) and c.is_dependent(D.Binomial.support)
    with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
        c.dependent.check(tt.ones(1))
    with pytest.raises(NotImplementedError, match="cannot be determined statically"):
        c.dependent.event_dim  # noqa: B018 - the property raises
    assert D.Binomial.support.is_discrete and D.Binomial.support.event_dim == 0
