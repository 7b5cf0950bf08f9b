"""Algorithms that are an update of one parameter: each written out in float64, step by step, and beside PyTorch."""

import copy
import math

import numpy as np
import pytest

import triten as tt

rng = np.random.default_rng(7)


def rmsprop(w, g, s, t, lr=1e-2, alpha=0.99, eps=1e-8, momentum=0, centered=False):
    s["v"] = alpha * s.get("v", 0) + (1 - alpha) * g * g
    s["m"] = alpha * s.get("m", 0) + (1 - alpha) * g
    step = g / (np.sqrt(s["v"] - s["m"] ** 2 * centered) + eps)
    s["b"] = momentum * s.get("b", 0) + step
    return w - lr * s["b"]


def adagrad(w, g, s, t, lr=1e-2, lr_decay=0, initial_accumulator_value=0, eps=1e-10):
    s["v"] = s.get("v", initial_accumulator_value) + g * g
    return w - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(s["v"]) + eps)


def adadelta(w, g, s, t, lr=1.0, rho=0.9, eps=1e-6):
    s["v"] = rho * s.get("v", 0) + (1 - rho) * g * g
    step = np.sqrt(s.get("d", 0) + eps) / np.sqrt(s["v"] + eps) * g
    s["d"] = rho * s.get("d", 0) + (1 - rho) * step * step
    return w - lr * step


def adamax(w, g, s, t, lr=2e-3, betas=(0.9, 0.999), eps=1e-8):
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["u"] = np.maximum(betas[1] * s.get("u", 0), abs(g) + eps)
    return w - lr / (1 - betas[0] ** t) * s["m"] / s["u"]


def nadam(w, g, s, t, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, momentum_decay=4e-3):
    mu, following = (betas[0] * (1 - 0.5 * 0.96 ** ((t + i) * momentum_decay)) for i in (0, 1))
    s["p"] = s.get("p", 1.0) * mu
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    mean = following * s["m"] / (1 - s["p"] * following) + (1 - mu) * g / (1 - s["p"])
    return w - lr * mean / (np.sqrt(s["v"] / (1 - betas[1] ** t)) + eps)


def radam(w, g, s, t, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    s["m"] = betas[0] * s.get("m", 0) + (1 - betas[0]) * g
    s["v"] = betas[1] * s.get("v", 0) + (1 - betas[1]) * g * g
    mean, most = s["m"] / (1 - betas[0] ** t), 2 / (1 - betas[1]) - 1
    rho = most - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
    if rho <= 5:
        return w - lr * mean
    r = math.sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho))
    return w - lr * mean * r * math.sqrt(1 - betas[1] ** t) / (np.sqrt(s["v"]) + eps)


def asgd(w, g, s, t, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6):
    eta = np.float32(lr / (1 + lambd * lr * (t - 1)) ** alpha) if t > 1 else np.float32(lr)
    w = w * (1 - lambd * float(eta)) - float(eta) * g
    share = float(np.float32(1 / max(1, t - 1 - t0))) if t > 1 else 1.0
    s["ax"] = s.get("ax", 0) + (w - s.get("ax", 0)) * share
    return w


def rprop(w, g, s, t, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
    agreement = g * s.get("g", 0)
    factor = np.where(agreement > 0, etas[1], np.where(agreement < 0, etas[0], 1.0))
    s["s"] = np.clip(s.get("s", np.full_like(w, lr)) * factor, *step_sizes)
    s["g"] = np.where(agreement < 0, 0, g)
    return w - np.sign(s["g"]) * s["s"]


CASES = [
    ("RMSprop", rmsprop, {}),
    ("RMSprop", rmsprop, {"lr": 0.1, "alpha": 0.6, "momentum": 0.9, "centered": True, "eps": 1e-3}),
    ("Adagrad", adagrad, {}),
    ("Adagrad", adagrad, {"lr": 0.1, "lr_decay": 0.3, "initial_accumulator_value": 0.5}),
    ("Adadelta", adadelta, {}),
    ("Adadelta", adadelta, {"lr": 0.3, "rho": 0.4, "eps": 1e-2}),
    ("Adamax", adamax, {}),
    ("Adamax", adamax, {"lr": 0.1, "betas": (0.4, 0.7)}),
    ("NAdam", nadam, {}),
    ("NAdam", nadam, {"lr": 0.1, "betas": (0.4, 0.7), "momentum_decay": 0.1}),
    ("RAdam", radam, {}),
    ("RAdam", radam, {"lr": 0.1, "betas": (0.4, 0.9)}),
    ("ASGD", asgd, {"lambd": 0.1}),
    ("ASGD", asgd, {"lr": 0.1, "lambd": 0.1, "t0": 2}),
    ("Rprop", rprop, {}),
    ("Rprop", rprop, {"lr": 0.1, "etas": (0.3, 2.0), "step_sizes": (0.05, 0.3)}),
]
CAPTURABLE = {"RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"}


@pytest.mark.parametrize("capturable", [False, True])
@pytest.mark.parametrize(("name", "formula", "options"), CASES)
def test_steps_are_the_formulas(name, formula, options, capturable):
    if capturable and name not in CAPTURABLE:
        pytest.skip(f"{name} has no capturable form")
    extra = {"capturable": True} if capturable else {}
    device = "cuda" if capturable else "cpu"
    w = rng.standard_normal((3, 4))
    parameter, state = tt.nn.Parameter(tt.from_numpy(w.copy()).to(device)), {}
    optimizer = getattr(tt.optim, name)([parameter], **options, **extra)
    for t in range(1, 4 if capturable else 9):
        gradient = rng.standard_normal(w.shape)
        w = formula(w, gradient, state, t, **options)
        parameter.grad = tt.from_numpy(gradient).to(device)
        optimizer.step()
        # Counts, and numbers made of them, are float32 as in PyTorch.
        near = {"rtol": 1e-4, "atol": 3e-5} if capturable else {"rtol": 1e-7, "atol": 1e-9}
        np.testing.assert_allclose(parameter.detach().cpu().numpy(), w, **near, err_msg=str(t))
    if "ax" in state:
        np.testing.assert_allclose(optimizer.state[parameter]["ax"].cpu().numpy(), state["ax"], rtol=1e-6)


@pytest.mark.parametrize("name", [*sorted({name for name, *_ in CASES})])
def test_options_of_all(name):
    make = getattr(tt.optim, name)
    start, gradient = tt.tensor([1.0, -2.0]), tt.tensor([0.5, 0.25])

    def stepped(g=gradient, w=start, **options):
        parameter = tt.nn.Parameter(w.clone())
        parameter.grad = g.clone()
        optimizer = make([parameter], **options)
        optimizer.step()
        return parameter.detach()

    assert tt.equal(stepped(maximize=True), stepped(g=-gradient))
    assert tt.equal(stepped(lr=tt.tensor(0.25)), stepped(lr=0.25))
    if name != "Rprop":
        assert tt.equal(stepped(weight_decay=0.5), stepped(g=gradient + 0.5 * start))
        with pytest.raises(ValueError, match="Invalid weight_decay value"):
            make([start], weight_decay=-1)
    if name in ("NAdam", "RAdam"):
        decoupled = stepped(weight_decay=0.5, decoupled_weight_decay=True, lr=0.5)
        assert tt.equal(decoupled, stepped(w=start * 0.75, lr=0.5))
    pair = stepped(w=tt.complex(start, start * 3), g=tt.complex(gradient, -gradient))
    assert tt.equal(tt.view_as_real(pair)[:, 0], stepped())
    assert tt.equal(tt.view_as_real(pair)[:, 1], stepped(w=start * 3, g=-gradient))
    w = start.clone().requires_grad_()
    parameter = w * 1
    parameter.retain_grad()
    optimizer = make([parameter], differentiable=True, **({"eps": 0.5} if name == "Adadelta" else {}))
    parameter.grad = gradient.clone().requires_grad_()
    optimizer.step()
    assert tt.autograd.grad(parameter.sum(), w)[0].shape == (2,)
    for lr, message in ((-1.0, "Invalid learning rate"), (tt.ones(2), "1-element")):
        with pytest.raises(ValueError, match=message):
            make([start], lr=lr)


@pytest.mark.parametrize(("name", "formula", "options"), CASES[::2])
def test_states_are_saved_and_loaded(name, formula, options):
    def make(values):
        parameter = tt.nn.Parameter(values.clone())
        return parameter, getattr(tt.optim, name)([parameter], **options)

    gradients = [tt.tensor([0.5, -0.25]), tt.tensor([-0.5, 0.75]), tt.tensor([0.1, 0.2])]
    whole, optimizer = make(tt.tensor([1.0, 2.0]))
    for gradient in gradients[:2]:
        whole.grad = gradient
        optimizer.step()
    resumed, other = make(whole.detach())
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for parameter, each in ((whole, optimizer), (resumed, other)):
        parameter.grad = gradients[2]
        each.step()
    assert tt.equal(whole, resumed) and set(optimizer.state[whole]) == set(other.state[resumed])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("RMSprop", {"alpha": -1}, "Invalid alpha value: -1"),
        ("Adadelta", {"rho": 2}, "Invalid rho value: 2"),
        ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value"),
        ("Adamax", {"betas": (1.0, 0.5)}, "Invalid beta parameter at index 0: 1.0"),
        ("NAdam", {"momentum_decay": -1}, "Invalid momentum_decay value: -1"),
        ("RAdam", {"eps": -1}, "Invalid epsilon value: -1"),
        ("Rprop", {"etas": (1.5, 1.2)}, "Invalid eta values: 1.5, 1.2"),
    ],
)
def test_options_out_of_range(name, options, message):
    with pytest.raises(ValueError, match=message):
        getattr(tt.optim, name)([tt.ones(1)], **options)


@pytest.mark.parametrize(("name", "formula", "options"), CASES)
@pytest.mark.parametrize("is_complex", [False, True])
def test_beside_pytorch(name, formula, options, is_complex):
    torch = pytest.importorskip("torch")
    draw = lambda: rng.standard_normal(5) + (1j * rng.standard_normal(5) if is_complex else 0)  # noqa: E731
    start = draw()
    ours, theirs = (
        tt.nn.Parameter(tt.from_numpy(start.copy())),
        torch.nn.Parameter(torch.from_numpy(start.copy())),
    )
    one, other = (getattr(m.optim, name)([p], **options) for m, p in ((tt, ours), (torch, theirs)))
    for _ in range(8):
        gradient = draw()
        ours.grad, theirs.grad = tt.from_numpy(gradient.copy()), torch.from_numpy(gradient.copy())
        one.step()
        other.step()
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-10, atol=1e-12)
    saved, expected = one.state_dict(), other.state_dict()
    assert set(saved["param_groups"][0]) == set(expected["param_groups"][0])
    assert {k: tuple(v.shape) for k, v in saved["state"][0].items()} == {
        k: tuple(v.shape) for k, v in expected["state"][0].items()
    }


@pytest.mark.parametrize("name", ["NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop"])
def test_a_differentiable_step_has_the_gradient_of_the_learning_rate(name: str) -> None:
    def stepped(lr: tt.Tensor) -> tt.Tensor:
        parameter = tt.full((2,), 1.5, dtype=tt.float64).requires_grad_().clone()
        parameter.grad = tt.tensor([0.25, -0.5], dtype=tt.float64)
        getattr(tt.optim, name)([parameter], lr=lr, differentiable=True).step()
        return parameter

    assert tt.autograd.gradcheck(stepped, (tt.tensor(0.5, dtype=tt.float64, requires_grad=True),))


def test_a_differentiable_step_of_nadam_has_the_gradient_of_the_product_of_momenta() -> None:
    def stepped(product: tt.Tensor) -> tt.Tensor:
        parameter = tt.full((2,), 1.5, dtype=tt.float64).requires_grad_().clone()
        parameter.grad = tt.tensor([0.25, -0.5], dtype=tt.float64)
        optimizer = tt.optim.NAdam([parameter], lr=0.5, differentiable=True)
        means = {name: tt.ones(2, dtype=tt.float64) for name in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter].update(step=tt.tensor(10.0), mu_product=product.clone(), **means)
        optimizer.step()
        return parameter

    assert tt.autograd.gradcheck(stepped, (tt.tensor(0.5, dtype=tt.float64, requires_grad=True),))


@pytest.mark.parametrize("options", [{}, {"foreach": True}])
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_a_parameter_with_gaps_steps_as_a_dense_one(name: str, options: dict[str, bool]) -> None:
    memory = tt.arange(12.0)
    strided, dense = memory[1::3].detach().requires_grad_(), memory[1::3].clone().requires_grad_()
    for parameter in (strided, dense):
        optimizer = getattr(tt.optim, name)([parameter], lr=0.5, **options)
        for _ in range(2):
            optimizer.zero_grad()
            (parameter**2).sum().backward()
            optimizer.step()
    assert tt.equal(strided, dense) and memory[::3].tolist() == [0.0, 3.0, 6.0, 9.0]
    with pytest.raises(RuntimeError, match="non-overlapping and dense"):
        fused = getattr(tt.optim, name)([strided], lr=0.5, fused=True)
        fused.step()
