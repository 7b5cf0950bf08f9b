"""A step computes its algorithm, as written out in float64, fused and operation by operation, on both backends."""

import math
from importlib.util import find_spec

import numpy as np
import pytest

import triten as tt

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(find_spec("triton") is None, reason="triton has no wheel for this platform"),
    ),
]
SHAPES = ((3, 4), (5,), (), (0, 2))


def sgd(w, g, state, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False):
    g = (-g if maximize else g) + weight_decay * w
    if momentum:
        state["b"] = momentum * state["b"] + (1 - dampening) * g if "b" in state else g
        g = g + momentum * state["b"] if nesterov else state["b"]
    return w - lr * g


def adam(
    w,
    g,
    state,
    decoupled,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0,
    amsgrad=False,
    maximize=False,
):
    g = -g if maximize else g
    if decoupled:
        w = w - lr * weight_decay * w
    else:
        g = g + weight_decay * w
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
    v = state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * g * g
    if amsgrad:
        v = state["x"] = np.maximum(state.get("x", 0), v)
    return w - lr / (1 - betas[0] ** t) * m / (np.sqrt(v) / math.sqrt(1 - betas[1] ** t) + eps)


FORMULAS = {
    "SGD": sgd,
    "Adam": lambda *a, **k: adam(*a, False, **k),
    "AdamW": lambda *a, **k: adam(*a, True, **{"weight_decay": 1e-2, **k}),
}
CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1, "betas": (0.3, 0.9)}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "amsgrad": True, "maximize": True, "weight_decay": 0.2, "eps": 1e-3}),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fused", [None, False])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps_are_the_formulas(name, options, fused, device):
    rng = np.random.default_rng(5)
    starts = [np.asarray(rng.standard_normal(shape)) for shape in SHAPES]
    parameters = [tt.tensor(w.tolist(), dtype=tt.float64, device=device).reshape(w.shape) for w in starts]
    parameters = [tt.nn.Parameter(p) for p in parameters]
    optimizer = getattr(tt.optim, name)(parameters, fused=fused, **options)
    states = [{} for _ in SHAPES]
    for step in range(3):
        for i, p in enumerate(parameters):
            if (i, step) == (1, 0):
                continue  # a parameter whose first gradient comes later
            g = np.asarray(rng.standard_normal(SHAPES[i]))
            p.grad = tt.tensor(g.tolist(), dtype=tt.float64, device=device).reshape(g.shape)
            starts[i] = FORMULAS[name](starts[i], g, states[i], **options)
        optimizer.step()
        for p, expected in zip(parameters, starts, strict=True):
            np.testing.assert_allclose(p.detach().cpu().numpy(), expected, rtol=1e-12, atol=1e-12)
        optimizer.zero_grad()


@pytest.mark.parametrize(("name", "options"), CASES)
def test_they_agree_with_pytorch(name, options):
    torch = pytest.importorskip("torch")
    found = []
    for library in (tt, torch):
        w = library.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
        optimizer = getattr(library.optim, name)([w], **options)
        for _ in range(4):
            optimizer.zero_grad()
            ((w * 1.5 - 0.3).sin() ** 2).sum().backward()
            optimizer.step()
        state = optimizer.state_dict()["state"]
        found.append((w.tolist(), {k: v.tolist() for k, v in state.get(0, {}).items() if v is not None}))
    (ours, our_state), (theirs, their_state) = found
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert our_state.keys() == their_state.keys()
    for key, value in our_state.items():
        np.testing.assert_allclose(value, their_state[key], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_rate_may_be_a_tensor(name):
    results = []
    for lr, fused in ((0.25, None), (tt.tensor(0.25), None), (tt.tensor(0.25), False)):
        w = tt.nn.Parameter(tt.ones(2))
        optimizer = getattr(tt.optim, name)([w], lr=lr, fused=fused)
        w.grad = tt.tensor([1.0, -2.0])
        optimizer.step()
        results.append(w.tolist())
    np.testing.assert_allclose(results[1:], [results[0]] * 2, rtol=1e-6)


def test_gradients_in_another_layout_and_another_dtype_are_taken():
    w = tt.nn.Parameter(tt.ones(2, 3))
    w.grad = tt.arange(6.0).reshape(3, 2).t()
    tt.optim.SGD([w], lr=1.0, momentum=0.5).step()
    assert w.tolist() == [[1.0, -1.0, -3.0], [0.0, -2.0, -4.0]]


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD"])
def test_complex_parameters_are_pairs(name):
    torch = pytest.importorskip("torch")
    values = []
    for library in (tt, torch):
        w = library.tensor([1 + 2j, -3j], requires_grad=True)
        optimizer = getattr(library.optim, name)([w], lr=0.1, weight_decay=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (w * w.conj()).real.sum().backward()
            optimizer.step()
        values.append(w.tolist())
    np.testing.assert_allclose(*values, rtol=1e-5)


def test_a_differentiable_step_passes_gradients_on():
    lr = tt.tensor(0.5, requires_grad=True)
    w = tt.ones(2, requires_grad=True).clone()
    w.retain_grad()
    w.grad = tt.tensor([2.0, 3.0])
    tt.optim.SGD([w], lr=lr, differentiable=True).step()
    w.sum().backward()
    assert lr.grad.item() == -5.0


def test_the_closure_is_called_with_gradients():
    w = tt.nn.Parameter(tt.ones(2))
    optimizer = tt.optim.SGD([w], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0 and w.tolist() == [0.0, 0.0]


def test_a_grad_scaler_steps_a_fused_optimizer_and_skips_infinities():
    w = tt.nn.Parameter(tt.ones(2))
    optimizer = tt.optim.AdamW([w], lr=0.25, weight_decay=0.0, fused=True)
    scaler = tt.amp.GradScaler("cpu", init_scale=4.0)
    for factor, expected in ((1.0, 0.75), (math.inf, 0.75)):
        optimizer.zero_grad()
        scaler.scale((w * w).sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        assert w.tolist() == pytest.approx([expected] * 2)
    assert optimizer.state[w]["step"].item() == 1.0 and scaler.get_scale() == 2.0


DIFFERENTIABLE = {
    "SGD": ({}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"momentum": 0.9, "weight_decay": 0.1}),
    "Adam": ({}, {"amsgrad": True}, {"weight_decay": 0.1}, {"maximize": True}),
    "AdamW": ({}, {"amsgrad": True}),
    "NAdam": ({}, {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "RAdam": ({"betas": (0.5, 0.9)}, {"weight_decay": 0.1}),
    "Adamax": ({}, {"weight_decay": 0.1}),
    "Adagrad": ({}, {"weight_decay": 0.1}),
    "Adadelta": ({}, {"weight_decay": 0.1}),
    "RMSprop": ({}, {"centered": True, "momentum": 0.9}, {"weight_decay": 0.1}),
    "Rprop": ({}, {"maximize": True}),
    "ASGD": ({}, {"weight_decay": 0.1}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "options"), [(name, each) for name, several in DIFFERENTIABLE.items() for each in several]
)
def test_several_differentiable_steps_agree_with_differences(name, options):
    def trained(*values):
        start, *gradients = values
        parameter = start.clone()
        optimizer = getattr(tt.optim, name)([parameter], lr=0.1, differentiable=True, **options)
        for gradient in gradients:
            parameter.grad = gradient * start
            optimizer.step()
        return (parameter**3).sum()

    given = [[1.0, 2.0], [0.7, -1.1], [1.3, 0.4], [0.2, 0.9]]
    leaves = [tt.tensor(each, dtype=tt.float64, requires_grad=True) for each in given]
    made = tt.autograd.grad(trained(*leaves), leaves)
    step = 1e-6
    for i, each in enumerate(given):
        for j in range(len(each)):
            ends = []
            for sign in (1, -1):
                moved = [list(values) for values in given]
                moved[i][j] += sign * step
                ends.append(trained(*[tt.tensor(v, dtype=tt.float64) for v in moved]).item())
            assert made[i][j].item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-6)
