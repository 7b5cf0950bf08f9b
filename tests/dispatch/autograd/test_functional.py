"""`tt.autograd.functional`: derivatives of functions agree with one another and with PyTorch."""

import itertools

import pytest

import triten as tt

functional = tt.autograd.functional


def inputs_of(library):
    return library.tensor([1.0, 2.0]), library.tensor([3.0, 4.0], requires_grad=True)


def product(x, y):
    return x * y, y.exp().sum()


def cubic(x, y):
    return (x**2 * y).sum()


def one_sided(x, y):
    return (x * x).sum()


def linear(x, y):
    return 3 * x.sum() + y.sum()


CALLS = [
    *(("vjp", f, None) for f in (product, cubic, one_sided, linear)),
    ("vjp", product, "outputs"),
    *((name, f, "inputs") for name in ("jvp", "vhp", "hvp") for f in (product, cubic, one_sided, linear)),
    *((name, f, None) for name in ("jvp", "vhp", "jacobian", "hessian") for f in (product, cubic, one_sided, linear)),
]  # fmt: skip


def asked(library, name, function, vector, **options):
    x, y = inputs_of(library)
    v = {
        None: (),
        "inputs": ((library.tensor([1.0, -1.0]), library.tensor([2.0, 0.5])),),
        "outputs": ((library.tensor([1.0, -1.0]), library.tensor(2.0)),),
    }[vector]
    return getattr(library.autograd.functional, name)(function, (x, y), *v, **options)


def values(result):
    if isinstance(result, tuple):
        return [values(each) for each in result]
    return result.detach().flatten().tolist(), tuple(result.shape), result.requires_grad


@pytest.mark.parametrize(("name", "function", "vector"), CALLS)
@pytest.mark.parametrize(("create_graph", "strict"), itertools.product([False, True], repeat=2))
def test_beside_pytorch(name, function, vector, create_graph, strict):
    torch = pytest.importorskip("torch")
    outcomes = []
    for library in (torch, tt):
        try:
            found = values(asked(library, name, function, vector, create_graph=create_graph, strict=strict))
        except RuntimeError as error:
            found = str(error)[:60]
        outcomes.append(found)
    assert outcomes[0] == outcomes[1] or outcomes[1] == pytest.approx(outcomes[0]) or _near(*outcomes)


def _near(a, b):
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(_near(x, y) for x, y in zip(a, b, strict=True))
    return a == pytest.approx(b, rel=1e-5)


@pytest.mark.parametrize("function", [product, cubic, one_sided, linear])
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_all_at_once_is_one_after_the_other(function, strategy):
    given = tuple(t.detach() for t in inputs_of(tt))
    one = functional.jacobian(function, given)
    whole = functional.jacobian(function, given, vectorize=True, strategy=strategy)
    assert _near(values(one), values(whole))
    if function is not product:
        one = functional.hessian(function, given)
        whole = functional.hessian(function, given, vectorize=True, outer_jacobian_strategy=strategy)
        assert _near([v[0][:2] for v in values(one)], [v[0][:2] for v in values(whole)])


def test_derivatives_agree_with_one_another():
    x, v = tt.tensor([1.0, 2.0, 0.5]), tt.tensor([1.0, -2.0, 3.0])
    function = lambda x: (x.sin() * x.prod()).sum()  # noqa: E731
    h = functional.hessian(function, x)
    assert tt.allclose(functional.hvp(function, x, v)[1], h @ v, rtol=1e-4)
    assert tt.allclose(functional.vhp(function, x, v)[1], v @ h, rtol=1e-4)
    j = functional.jacobian(tt.exp, x)
    assert tt.allclose(functional.jvp(tt.exp, x, v)[1], j @ v)
    assert tt.allclose(functional.vjp(tt.exp, x, v)[1], v @ j)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: functional.vjp(tt.exp, 3),
            TypeError,
            "The inputs given to vjp must be either a Tensor or a tuple",
        ),
        (
            lambda x: functional.vjp(lambda x: 3, x),
            TypeError,
            "outputs of the user-provided function given to vjp",
        ),
        (
            lambda x: functional.vjp(tt.exp, x),
            RuntimeError,
            "The vector v can only be None if the user-provided",
        ),
        (lambda x: functional.jvp(tt.exp, x, tt.ones(3)), RuntimeError, "v has invalid size: should be"),
        (lambda x: functional.jvp(tt.exp, x, (x, x)), RuntimeError, "v should contain a single Tensor"),
        (lambda x: functional.hessian(tt.exp, x), RuntimeError, "should contain a single element"),
        (lambda x: functional.jacobian(tt.exp, x, strategy="some"), AssertionError, "Expected strategy"),
        (
            lambda x: functional.jacobian(tt.exp, x, strategy="forward-mode"),
            NotImplementedError,
            "vectorize=True",
        ),
        (
            lambda x: functional.jacobian(tt.exp, x, strict=True, vectorize=True),
            RuntimeError,
            "not supported together",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call(tt.tensor([1.0, 2.0]))
