"""L-BFGS with and without its line search."""

import copy

import numpy as np
import pytest

import triten as tt
from triten.optim.line_search import Point, cubic_minimum


def rosenbrock(w):
    return (100 * (w[1:] - w[:-1] ** 2) ** 2 + (1 - w[:-1]) ** 2).sum()


def minimise(w, loss, steps=1, module=tt, **options):
    optimizer = module.optim.LBFGS([w], **options)

    def closure():
        optimizer.zero_grad()
        found = loss(w)
        found.backward()
        return found

    return [optimizer.step(closure).item() for _ in range(steps)], optimizer


def test_the_line_search_finds_the_minimum():
    w = tt.nn.Parameter(tt.tensor([-1.2, 1.0, -0.5, 0.8], dtype=tt.float64))
    losses, optimizer = minimise(w, rosenbrock, 6, line_search_fn="strong_wolfe", max_iter=30)
    np.testing.assert_allclose(w.detach().numpy(), np.ones(4), atol=1e-6)
    assert losses == sorted(losses, reverse=True)
    state = optimizer.state[w]
    assert state["func_evals"] >= state["n_iter"] > 1


def test_a_quadratic_needs_few_directions():
    scales = tt.tensor([1.0, 10.0, 100.0], dtype=tt.float64)
    w = tt.nn.Parameter(tt.tensor([1.0, 1.0, 1.0], dtype=tt.float64))
    _, optimizer = minimise(
        w, lambda w: (scales * w * w).sum(), 2, line_search_fn="strong_wolfe", tolerance_grad=1e-6
    )
    assert w.abs().max() < 1e-6 and optimizer.state[w]["n_iter"] <= 20


def test_history_budget_and_tolerance():
    w = tt.nn.Parameter(tt.tensor([-1.2, 1.0], dtype=tt.float64))
    _, optimizer = minimise(w, rosenbrock, lr=0.01, max_iter=8, history_size=2)
    state = optimizer.state[w]
    assert state["n_iter"] == 8 and state["func_evals"] == 8 and len(state["old_dirs"]) <= 2
    w = tt.nn.Parameter(tt.tensor([-1.2, 1.0], dtype=tt.float64))
    _, optimizer = minimise(w, rosenbrock, lr=0.01, max_iter=8, max_eval=3)
    assert optimizer.state[w]["func_evals"] == 3
    w = tt.nn.Parameter(tt.ones(2, dtype=tt.float64))
    _, optimizer = minimise(w, rosenbrock)
    assert optimizer.state[w]["n_iter"] == 0


def test_a_step_resumes_from_a_saved_state():
    whole = tt.nn.Parameter(tt.tensor([-1.2, 1.0], dtype=tt.float64))
    options = {"line_search_fn": "strong_wolfe", "max_iter": 4}
    optimizer = minimise(whole, rosenbrock, 2, **options)[1]
    resumed = tt.nn.Parameter(whole.detach().clone())
    other = tt.optim.LBFGS([resumed], **options)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for w, each in ((whole, optimizer), (resumed, other)):

        def closure(w=w, each=each):
            each.zero_grad()
            loss = rosenbrock(w)
            loss.backward()
            return loss

        each.step(closure)
    assert tt.equal(whole, resumed)


def test_refusals():
    w = tt.nn.Parameter(tt.ones(2))
    with pytest.raises(ValueError, match="per-parameter options"):
        tt.optim.LBFGS([{"params": [w]}, {"params": [tt.nn.Parameter(tt.ones(1))]}])
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        tt.optim.LBFGS([w], line_search_fn="armijo")
    with pytest.raises(TypeError, match="needs a closure"):
        tt.optim.LBFGS([w]).step()


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("is_complex", [False, True])
def test_beside_pytorch(rng, search, is_complex):
    torch = pytest.importorskip("torch")
    matrix, start = rng.standard_normal((5, 5)), rng.standard_normal(5)
    start = start + 1j * rng.standard_normal(5) if is_complex else start
    results = []
    for module in (tt, torch):
        w = module.nn.Parameter(module.from_numpy(start.copy()))
        a = module.from_numpy(matrix.astype(start.dtype))
        options = {
            "lr": 0.1 if search is None else 1,
            "line_search_fn": search,
            "max_iter": 6,
            "history_size": 3,
        }
        losses, optimizer = minimise(
            w, lambda w, a=a: ((a @ w).abs() ** 2).sum() + w.abs().sum(), 4, module, **options
        )
        results.append((losses, w.detach().numpy(), optimizer.state_dict()["state"][0]))
    (ours, w, state), (theirs, expected, other) = results
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    np.testing.assert_allclose(w, expected, atol=1e-6)
    assert set(state) == set(other) and state["n_iter"] == other["n_iter"]


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_a_gradient_of_zeros_leaves_the_parameters(search):
    w = tt.nn.Parameter(tt.tensor([1.0, 2.0]))
    losses, _ = minimise(w, lambda w: (w * 0).sum() + 3, tolerance_grad=-1.0, line_search_fn=search)
    assert losses == [3.0] and w.tolist() == [1.0, 2.0]


def test_a_bracket_of_one_point_has_itself_as_the_minimum():
    # Without a tolerance, the search goes on until both ends are the same step.
    point = Point(1.0, 2.0, tt.ones(1), 0.5)
    assert cubic_minimum(point, point) == 1.0
    flat = Point(0.0, 2.0, tt.ones(1), 0.0)
    assert np.isnan(cubic_minimum(flat, flat._replace(step=1.0)))
