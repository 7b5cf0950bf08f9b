"""Optimizers that treat matrices as such, against their formulas."""

import numpy as np
import pytest

import triten as tt

rng = np.random.default_rng(3)


def root_mean_square(x):
    return np.sqrt((x * x).mean())


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
def test_adafactor_is_its_formula(shape):
    w = rng.standard_normal(shape)
    parameter = tt.nn.Parameter(tt.from_numpy(w.copy()))
    lr, decay = 0.1, 0.2
    optimizer = tt.optim.Adafactor([parameter], lr=lr, weight_decay=decay)
    eps = np.finfo(w.dtype).eps
    rows = np.zeros((*shape[:-1], 1))
    columns = np.zeros((*shape[:-2], 1, shape[-1])) if len(shape) > 1 else None
    squares = np.zeros(shape)
    for t in range(1, 5):
        g = rng.standard_normal(shape)
        share = t**-0.8
        size = max(1e-3, root_mean_square(w)) * min(lr, 1 / np.sqrt(t))
        w = w * (1 - lr * decay)
        if len(shape) > 1:
            rows = rows + share * ((g * g).mean(-1, keepdims=True) - rows)
            columns = columns + share * ((g * g).mean(-2, keepdims=True) - columns)
            estimate = rows @ columns / np.maximum(rows.mean(-2, keepdims=True), eps)
        else:
            squares = squares + share * (g * g - squares)
            estimate = squares
        update = g / np.sqrt(np.maximum(estimate, eps * eps))
        w = w - size * update / max(1.0, root_mean_square(update))
        parameter.grad = tt.from_numpy(g)
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), w, rtol=1e-10)
    kept = {"step", "row_var", "col_var"} if len(shape) > 1 else {"step", "variance"}
    assert set(optimizer.state[parameter]) == kept


@pytest.mark.parametrize("shape", [(4, 6), (6, 4)])
@pytest.mark.parametrize("nesterov", [False, True])
def test_muon_steps_along_orthogonal_directions(shape, nesterov):
    w, g = rng.standard_normal(shape), rng.standard_normal(shape)
    parameter = tt.nn.Parameter(tt.from_numpy(w.copy()))
    optimizer = tt.optim.Muon([parameter], lr=0.5, weight_decay=0.2, nesterov=nesterov)
    parameter.grad = tt.from_numpy(g)
    optimizer.step()
    np.testing.assert_allclose(optimizer.state[parameter]["momentum_buffer"].numpy(), 0.05 * g, rtol=1e-6)
    direction = (w * (1 - 0.5 * 0.2) - parameter.detach().numpy()) / (
        0.5 * np.sqrt(max(1, shape[0] / shape[1]))
    )
    values = np.linalg.svd(direction)[1]
    assert values.min() > 0.5 and values.max() < 1.5
    # The nearest orthogonal matrix is that of the gradient, whose direction the momentum has.
    u, _, v = np.linalg.svd(g, full_matrices=False)
    assert (direction * (u @ v)).sum() > 0.8 * 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tt.optim.Adafactor([tt.ones(1)], beta2_decay=0.5), "beta2_decay should be <= 0 but is: 0.5"),
        (lambda: tt.optim.Adafactor([tt.ones(1)], d=0.5), "Clipping threshold d should be >= 1 but is: 0.5"),
        (lambda: tt.optim.Adafactor([tt.ones(1)], lr=tt.ones(2)), "Tensor lr must be 1-element"),
        (lambda: tt.optim.Muon([tt.ones(1)]), "Muon only supports 2D parameters"),
        (lambda: tt.optim.Muon([tt.ones(1, 1)], adjust_lr_fn="half"), "function half is not supported"),
        (lambda: tt.optim.Muon([tt.ones(1, 1)], momentum=-1), "momentum should be >= 0 but is: -1"),
    ],
)
def test_options_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_complex_parameters_are_refused(name):
    parameter = tt.nn.Parameter(tt.ones(2, 2, dtype=tt.complex64))
    parameter.grad = tt.ones(2, 2, dtype=tt.complex64)
    with pytest.raises(RuntimeError, match=f"{name} does not support complex parameters"):
        getattr(tt.optim, name)([parameter]).step()
