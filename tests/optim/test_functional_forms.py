"""Steps of optimizers as functions of lists of tensors."""

import copy
from inspect import signature

import pytest

import triten as tt
from triten.optim import functional_forms
from triten.optim.functional_forms import FORMS

OPTIONS = {
    "adadelta": {"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.1},
    "adagrad": {"lr": 0.1, "weight_decay": 0.1, "lr_decay": 0.1, "eps": 1e-6, "maximize": True},
    "adam": {"amsgrad": True, "betas": (0.9, 0.99), "lr": 0.1, "weight_decay": 0.1, "eps": 1e-6},
    "adamw": {"betas": (0.9, 0.99), "lr": 0.1, "weight_decay": 0.1, "eps": 1e-6},
    "adamax": {"betas": (0.9, 0.99), "lr": 0.1, "weight_decay": 0.1, "eps": 1e-6},
    "asgd": {"lambd": 1e-3, "lr": 0.1, "t0": 1e6, "alpha": 0.7, "weight_decay": 0.1},
    "nadam": {"betas": (0.9, 0.99), "lr": 0.1, "weight_decay": 0.1, "momentum_decay": 4e-3, "eps": 1e-6},
    "radam": {"betas": (0.9, 0.99), "lr": 0.1, "weight_decay": 0.1, "eps": 1e-6},
    "rmsprop": {"lr": 0.1, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1, "momentum": 0.9},
    "rprop": {"etas": (0.5, 1.2), "step_sizes": (1e-6, 50.0)},
    "sgd": {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "nesterov": True},
    "sparse_adam": {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-6},
}


SGD = {
    "weight_decay": 0.0,
    "momentum": 0.5,
    "lr": 0.25,
    "dampening": 0.0,
    "nesterov": False,
    "maximize": False,
}


def gradients(name: str, count: int) -> list[tt.Tensor]:
    made = [tt.randn(4) for _ in range(count)]
    return [each.to_sparse() for each in made] if name == "sparse_adam" else made


@pytest.mark.parametrize("name", FORMS)
def test_a_function_steps_as_its_class(name: str) -> None:
    tt.manual_seed(0)
    class_name, lists, _, required = FORMS[name]
    params = [tt.nn.Parameter(tt.randn(4)) for _ in range(3)]
    optimizer = getattr(tt.optim, class_name)(params, **OPTIONS[name])
    for _ in range(2):  # the functions start from a state that there is
        for param, grad in zip(params, gradients(name, 3), strict=True):
            param.grad = grad
        optimizer.step()
    states = [copy.deepcopy(optimizer.state[param]) for param in params]
    copies = [param.detach().clone() for param in params]
    kept = {}
    for each in lists.split():
        argument, state_name = each.split("=")
        kept[argument] = [state[state_name] for state in states] if state_name in states[0] else []
    grads = gradients(name, 3)
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad
    optimizer.step()
    group = optimizer.param_groups[0]
    numbers = {
        option: group[pair][names.index(option)]
        for pair, names in functional_forms._PAIRS.items()
        for option in names
        if pair in group
    }
    options = {option: numbers.get(option, group.get(option)) for option in required.split()}
    if name == "sparse_adam":  # its caller counts the steps
        kept["state_steps"] = [count + 1 for count in kept["state_steps"]]
    result = getattr(functional_forms, name)(copies, grads, *kept.values(), **options)
    assert result is None
    for i, param in enumerate(params):
        assert tt.equal(copies[i], param) and copies[i].grad is None
        for each in lists.split():
            argument, state_name = each.split("=")
            if kept[argument]:
                assert (
                    kept[argument][i] == optimizer.state[param][state_name]
                    if name == "sparse_adam" and (state_name == "step")
                    else tt.equal(kept[argument][i], optimizer.state[param][state_name])
                )


def test_sgd_fills_in_the_first_momentum() -> None:
    params, grads, buffers = [tt.ones(2)], [tt.full((2,), 3.0)], [None]
    functional_forms.sgd(params, grads, buffers, **SGD)
    assert params[0].tolist() == [0.25, 0.25] and buffers[0].tolist() == [3.0, 3.0]
    functional_forms.sgd(params, grads, buffers, **SGD)
    assert params[0].tolist() == [-0.875, -0.875] and buffers[0].tolist() == [4.5, 4.5]


def test_arguments_are_checked() -> None:
    assert list(signature(functional_forms.adam).parameters)[:3] == ["params", "grads", "exp_avgs"]
    with pytest.raises(TypeError, match="missing a required argument: 'grads'"):
        functional_forms.adam([])
    with pytest.raises(
        NotImplementedError, match=r"sgd: argument 'grad_scale' is not supported; use optim\.SGD"
    ):
        functional_forms.sgd([tt.ones(1)], [tt.ones(1)], [None], grad_scale=tt.ones(1), **SGD)
