"""Gradients of gradients, and tangents, where they are formulas of their own: against differences of the first ones."""

import itertools
import math

import numpy as np
import pytest

import triten as tt


@pytest.fixture
def numbers(rng):
    """numbers(*sizes): an array of normal numbers, or from `low` to its opposite."""

    def made(*shape: int, is_complex: bool = False, low: float | None = None) -> np.ndarray:
        if low is not None:
            return rng.uniform(low, -low, shape)
        real = rng.standard_normal(shape)
        return real + 1j * rng.standard_normal(shape) if is_complex else real

    return made


def differences(function, arguments, directions, step=1e-6):
    """Compute the directional derivative of `function` by central differences."""
    ends = [
        function(*(a + s * step * d for a, d in zip(arguments, directions, strict=True))) for s in (1, -1)
    ]
    return [(plus - minus) / (2 * step) for plus, minus in zip(*ends, strict=True)]


def gradients(function, seed):
    """Return the function of NumPy arrays that computes gradients for `seed`."""

    def first(*arrays):
        leaves = [tt.from_numpy(a.copy()).requires_grad_() for a in arrays]
        return [g.numpy() for g in tt.autograd.grad(function(*leaves), leaves, tt.from_numpy(seed))]

    return first


@pytest.fixture
def assert_second(numbers):
    """assert_second(function, arguments, seed, directions): backward through the gradients agrees with how they
    change along the directions."""

    def check(function, arguments, seed, directions, tolerance=1e-5):
        leaves = [tt.from_numpy(a.copy()).requires_grad_() for a in arguments]
        first = tt.autograd.grad(function(*leaves), leaves, tt.from_numpy(seed), create_graph=True)
        weights = [numbers(*g.shape, is_complex=g.dtype.is_complex) for g in first]
        second = tt.autograd.grad(first, leaves, [tt.from_numpy(w) for w in weights], allow_unused=True)
        got = sum(
            float((g.numpy().conj() * d).sum().real)
            for g, d in zip(second, directions, strict=True)
            if g is not None
        )
        moved = differences(gradients(function, seed), arguments, directions)
        wanted = sum(float((w.conj() * m).sum().real) for w, m in zip(weights, moved, strict=True))
        assert got == pytest.approx(wanted, rel=tolerance, abs=tolerance)

    return check


MODES = [
    *itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (True, False))
]


@pytest.mark.parametrize(("mode", "padding", "align"), MODES)
def test_sampling_of_planes(numbers, assert_second, mode: str, padding: str, align: bool) -> None:
    def sample(x, grid):
        return tt.nn.functional.grid_sample(x, grid, mode, padding, align)

    x, grid = numbers(2, 2, 4, 5), numbers(2, 3, 2, 2, low=-1.6)
    assert_second(sample, (x, grid), numbers(2, 2, 3, 2), (numbers(*x.shape), numbers(*grid.shape)))


@pytest.mark.parametrize("padding", ["zeros", "reflection"])
def test_sampling_of_volumes_on_both_devices(numbers, assert_second, padding: str) -> None:
    x, grid, seed = numbers(1, 2, 3, 4, 5), numbers(1, 2, 1, 3, 3, low=-1.3), numbers(1, 2, 2, 1, 3)

    def sample(x, grid):
        return tt.nn.functional.grid_sample(x, grid, "bilinear", padding, False)

    assert_second(sample, (x, grid), seed, (numbers(*x.shape), numbers(*grid.shape)))
    made = []
    for device in ("cpu", "cuda"):
        leaves = [tt.from_numpy(a[:, :1] if a is x else a).to(device).requires_grad_() for a in (x, grid)]
        first = tt.autograd.grad(sample(*leaves).sum(), leaves, create_graph=True)
        made.append(tt.autograd.grad((first[0] ** 2).sum() + (first[1] ** 2).sum(), leaves))
    for cpu, cuda in zip(*made, strict=True):
        assert tt.allclose(cpu, cuda.cpu())


def test_sampling_of_no_place_and_beyond_all(numbers) -> None:
    x = tt.from_numpy(numbers(1, 2, 3, 3)).requires_grad_()
    for grid in (np.zeros((1, 0, 2, 2)), np.full((1, 1, 2, 2), np.nan), np.full((1, 1, 2, 2), np.inf)):
        places = tt.from_numpy(grid).requires_grad_()
        out = tt.nn.functional.grid_sample(x, places, align_corners=False)
        first = tt.autograd.grad(out.sum(), (x, places), create_graph=True)
        second = tt.autograd.grad((first[0] ** 2).sum(), (x, places), allow_unused=True)
        assert all(g is None or not g.any() for g in second)


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(numbers, assert_second, upper: bool, is_complex: bool) -> None:
    B, D = numbers(2, 3, 3, is_complex=is_complex), numbers(2, 3, 3, is_complex=is_complex)
    A, D = (M @ M.conj().swapaxes(-1, -2) + np.eye(3) for M in (B, D))

    def factor(A):
        return tt.linalg.cholesky(A, upper=upper)

    assert_second(factor, (A,), numbers(2, 3, 3, is_complex=is_complex), (D,))
    _, tangent = tt.func.jvp(factor, (tt.from_numpy(A),), (tt.from_numpy(D),))
    (wanted,) = differences(lambda A: [factor(tt.from_numpy(A)).numpy()], (A,), (D,))
    np.testing.assert_allclose(tangent.numpy(), wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("is_complex", [False, True])
def test_eigenvalues(numbers, assert_second, is_complex: bool) -> None:
    A, D = (numbers(2, 4, 4, is_complex=is_complex) for _ in range(2))
    A, D = (M + M.conj().swapaxes(-1, -2) for M in (A, D))
    assert_second(tt.linalg.eigvalsh, (A,), numbers(2, 4), (D,))
    leaf = tt.from_numpy(A).requires_grad_()
    (first,) = tt.autograd.grad(
        tt.linalg.eigvalsh(leaf), leaf, tt.from_numpy(numbers(2, 4)), create_graph=True
    )
    weights = tt.from_numpy(numbers(2, 4, 4, is_complex=is_complex))
    (second,) = tt.autograd.grad(first, leaf, weights)
    assert tt.allclose(second, second.mH)


@pytest.mark.parametrize("is_complex", [False, True])
def test_determinants(numbers, assert_second, is_complex: bool) -> None:
    A, D = (numbers(2, 3, 3, is_complex=is_complex) for _ in range(2))
    assert_second(tt.linalg.det, (A,), numbers(2, is_complex=is_complex), (D,))


def test_the_determinant_of_one_element_is_that() -> None:
    leaf = tt.tensor([[[0.0]], [[3.0]]], requires_grad=True)
    (first,) = tt.autograd.grad(tt.linalg.det(leaf).sum(), leaf)
    assert first.flatten().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("order", [3.5, 0.5])
def test_a_norm_of_zeros_has_a_derivative_of_zero(order: float) -> None:
    x = tt.zeros(4, dtype=tt.float64)
    _, tangent = tt.func.jvp(lambda x: tt.linalg.vector_norm(x, order), (x,), (tt.ones(4, dtype=tt.float64),))
    assert tangent.item() == 0


STEPS = {
    "hardtanh": tt.nn.functional.hardtanh,
    "relu6": tt.nn.functional.relu6,
    "hardsigmoid": tt.nn.functional.hardsigmoid,
    "hardshrink": tt.nn.functional.hardshrink,
    "softshrink": tt.nn.functional.softshrink,
    "threshold": lambda x: tt.nn.functional.threshold(x, 0.1, 0.0),
    "relu": tt.relu,
    "leaky_relu": tt.nn.functional.leaky_relu,
}


@pytest.mark.parametrize("name", STEPS)
def test_of_functions_made_of_straight_lines_is_zeros(name: str, device: str) -> None:
    x = tt.tensor([-50.0, -2.0, -0.25, 0.0, 0.25, 2.0, 50.0], device=device, requires_grad=True)
    (first,) = tt.autograd.grad(STEPS[name](x).sum(), x, create_graph=True)
    (plain,) = tt.autograd.grad(STEPS[name](x).sum(), x)
    assert tt.equal(first, plain)
    (second,) = tt.autograd.grad(first.sum(), x)
    assert second.tolist() == [0.0] * 7
    assert not tt.func.hessian(lambda x: STEPS[name](x).sum())(x.detach()).any()


@pytest.mark.parametrize("name", ["elu", "selu", "celu"])
def test_of_exponential_units_where_the_exponential_overflows(name: str, device: str) -> None:
    x = tt.tensor([-1000.0, -1.0, 0.0, 1.0, 1000.0, math.inf], device=device, requires_grad=True)
    (first,) = tt.autograd.grad(getattr(tt.nn.functional, name)(x).sum(), x, create_graph=True)
    (second,) = tt.autograd.grad(first.sum(), x)
    steep = 1.0507009873554805 * 1.6732632423543772 if name == "selu" else 1.0
    assert second.tolist() == pytest.approx([0.0, steep * math.exp(-1), 0.0, 0.0, 0.0, 0.0], rel=1e-6)


def _weighted(function):
    """Return a weighted sum of the function's results and their sines, so that no second derivative is constant."""

    def scalar(x):
        out = function(x)
        weights = tt.linspace(0.5, 1.5, out.numel(), dtype=x.dtype).reshape(out.shape)
        return ((out + out.sin()) * weights).sum()

    return scalar


MATRIX = [[2.0, 0.5], [0.3, 1.5]]
ROWS = [[0.1, 0.5, -0.3], [1.0, 2.0, -0.7]]
SAVED_WITHOUT_HISTORY = {
    "logdet of a diagonal": (lambda t: tt.logdet(tt.diag(t)), [1.0, 2.0]),
    "det of a diagonal": (lambda t: tt.linalg.det(tt.diag(t)), [1.0, 2.0]),
    "det": (tt.linalg.det, MATRIX),
    "det of a singular matrix": (tt.linalg.det, [[1.0, 2.0], [2.0, 4.0]]),
    "slogdet": (lambda a: tt.linalg.slogdet(a)[1], MATRIX),
    "logdet": (tt.logdet, MATRIX),
    "solve": (lambda a: tt.linalg.solve(a, a.cos()), MATRIX),
    "solve of a vector": (lambda a: tt.linalg.solve(a, a[0]), MATRIX),
    "lu_solve": (lambda a: tt.linalg.lu_solve(*tt.linalg.lu_factor(a), a.cos()), MATRIX),
    "cholesky_solve": (lambda a: tt.cholesky_solve(a.cos(), a.tril()), MATRIX),
    "cholesky_solve of a batch": (lambda a: tt.cholesky_solve(a[0, :, None], a.tril()[None]), MATRIX),
    "inv": (tt.linalg.inv, MATRIX),
    "eigvalsh": (lambda a: tt.linalg.eigvalsh(a + a.mT), MATRIX),
    "svdvals": (tt.linalg.svdvals, MATRIX),
    "norm 2": (lambda a: tt.linalg.matrix_norm(a, 2), MATRIX),
    "norm nuc": (lambda a: tt.linalg.matrix_norm(a, "nuc"), MATRIX),
    "pinv": (tt.linalg.pinv, MATRIX),
    "lstsq": (lambda a: tt.linalg.lstsq(a, a.cos())[0], MATRIX),
    "eigvals": (lambda a: tt.linalg.eigvals(a).real, MATRIX),
    "layer_norm": (lambda x: tt.nn.functional.layer_norm(x, (3,), x[0].cos(), x[1]), ROWS),
    "rms_norm": (lambda x: tt.nn.functional.rms_norm(x, (3,), x[0].cos()), ROWS),
    "group_norm": (lambda x: tt.nn.functional.group_norm(x[..., None], 1, x[0].cos(), x[1]), ROWS),
    "batch_norm": (lambda x: tt.nn.functional.batch_norm(x, None, None, x[0].cos(), x[1], True), ROWS),
    "instance_norm": (lambda x: tt.nn.functional.instance_norm(x[None]), ROWS),
    "logcumsumexp": (lambda x: tt.logcumsumexp(x, 1), ROWS),
    "cholesky of nothing": (lambda a: tt.linalg.cholesky((a + a.mT) / 2), np.zeros((2, 0, 0))),
    "det of nothing": (tt.linalg.det, np.zeros((2, 0, 0))),
    "cumprod": (lambda x: tt.cumprod(x, 1), ROWS),
    "cumprod at a zero": (lambda x: tt.cumprod(x, 0), [0.0, 2.0]),
    "cumprod at zeros": (lambda x: tt.cumprod(x, 0), [0.0, 2.0, 0.0, 3.0]),
    "prod at zeros": (lambda x: tt.prod(x), [0.0, 2.0, 0.0, 3.0]),
    "binary_cross_entropy": (
        lambda x: tt.nn.functional.binary_cross_entropy(x.sigmoid(), x.cos().square()),
        ROWS,
    ),
    "elu": (tt.nn.functional.elu, ROWS),
    "lstm_cell": (
        lambda x: tt.lstm_cell(
            x[:, :1], (x[:, 1:2], x[:, 2:]), x[0, :, None].repeat(2, 1)[:4], x[1, :, None].repeat(2, 1)[:4]
        )[0],
        ROWS,
    ),
    "gru_cell": (
        lambda x: tt.gru_cell(x[:, :1], x[:, 1:2], x[0, :, None], x[1, :, None]),
        ROWS,
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", SAVED_WITHOUT_HISTORY)
def test_all_orders_of_modes_agree_with_differences(name: str) -> None:
    function, values = SAVED_WITHOUT_HISTORY[name]
    scalar, x = _weighted(function), tt.tensor(values, dtype=tt.float64)
    n, step, plain = x.numel(), 1e-5, []
    for direction in tt.eye(n, dtype=tt.float64):
        moved = step * direction.reshape(x.shape)
        ends = [(x + sign * moved).requires_grad_() for sign in (1, -1)]
        first = [tt.autograd.grad(scalar(end), end)[0].reshape(-1) for end in ends]
        plain.append((first[0] - first[1]) / (2 * step))
    wanted = tt.stack(plain).numpy() if plain else np.zeros((0, 0))
    for outer in (tt.func.jacrev, tt.func.jacfwd):
        for inner in (tt.func.jacrev, tt.func.jacfwd):
            made = outer(inner(scalar))(x)
            assert made.reshape(n, n).numpy() == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    mapped = tt.vmap(tt.func.hessian(scalar))(tt.stack([x, x]))[1]
    assert mapped.reshape(n, n).numpy() == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_a_hessian_at_the_zeros_of_cumprod_is_that_of_the_products() -> None:
    x = tt.tensor([0.0, 2.0], dtype=tt.float64)
    for outer in (tt.func.jacrev, tt.func.jacfwd):
        for inner in (tt.func.jacrev, tt.func.jacfwd):
            made = outer(inner(lambda x: tt.cumprod(x, 0)[1]))(x)
            assert made.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_refuses_probabilities_beyond_one_for_any_example() -> None:
    x = tt.tensor([[0.5], [1.5]], dtype=tt.float64)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        tt.vmap(tt.nn.functional.binary_cross_entropy)(x, x.new_ones(2, 1))


@pytest.mark.parametrize("scale", [1e19, 1e-25])
def test_a_hessian_of_singular_values_whose_squares_are_not_in_the_dtype(scale: float) -> None:
    matrix = tt.tensor(MATRIX, dtype=tt.float64)
    for function in (lambda a: tt.linalg.svdvals(a)[0], lambda a: tt.linalg.matrix_norm(a, 2)):
        wanted = tt.func.hessian(function)(matrix)
        made = tt.func.hessian(function)((matrix * scale).float())
        np.testing.assert_allclose(made.double().numpy() * scale, wanted.numpy(), rtol=1e-4, atol=1e-6)
