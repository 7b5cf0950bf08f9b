"""`tt.__future__`: how conversions of modules and `load_state_dict` treat the module's parameters."""

import pytest

import triten as tt
from triten import nn

settings = tt.__future__


@pytest.fixture
def overwriting():
    settings.set_overwrite_module_params_on_conversion(True)
    yield
    settings.set_overwrite_module_params_on_conversion(False)


@pytest.fixture
def swapping():
    settings.set_swap_module_params_on_conversion(True)
    yield
    settings.set_swap_module_params_on_conversion(False)


def made() -> nn.Linear:
    module = nn.Linear(2, 3)
    module.weight.grad = tt.ones(3, 2)
    return module


def test_parameters_get_new_data_by_default():
    assert not settings.get_overwrite_module_params_on_conversion()
    assert not settings.get_swap_module_params_on_conversion()
    module = made()
    before, grad = module.weight, module.weight.grad
    module.double()
    assert module.weight is before and module.weight.grad is grad
    assert before.dtype is tt.float64 and grad.dtype is tt.float64


@pytest.mark.usefixtures("overwriting")
def test_a_conversion_makes_new_parameters():
    assert settings.get_overwrite_module_params_on_conversion()
    module = made()
    before, grad = module.weight, module.weight.grad
    view = before[:]
    module.double()
    assert isinstance(module.weight, nn.Parameter) and module.weight is not before
    assert before.dtype is tt.float32 and grad.dtype is tt.float32
    assert module.weight.dtype is tt.float64 and module.weight.grad.dtype is tt.float64
    with tt.no_grad():
        view[0, 0] = 5.0
    assert before[0, 0].item() == 5.0


@pytest.mark.usefixtures("overwriting")
def test_a_change_in_place_counts_as_one():
    module = made()
    squared = module.weight.mul(module.weight)
    module._apply(lambda tensor: tensor.add_(1.0))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.sum().backward()


@pytest.mark.usefixtures("swapping")
def test_a_conversion_swaps_contents():
    assert settings.get_swap_module_params_on_conversion()
    module = made()
    before, grad = module.weight, module.weight.grad
    module.double()
    assert module.weight is before and module.weight.grad is grad
    assert before.dtype is tt.float64 and grad.dtype is tt.float64 and before.requires_grad
    module(tt.ones(1, 2, dtype=tt.float64)).sum().backward()
    assert grad.tolist() == [[2.0, 2.0]] * 3


@pytest.mark.usefixtures("swapping")
@pytest.mark.parametrize("assign", [False, True])
def test_load_state_dict_swaps_contents(assign):
    module = made()
    before = module.weight
    state = {"weight": tt.full((3, 2), 7.0), "bias": tt.zeros(3)}
    module.load_state_dict(state, assign=assign)
    assert module.weight is before and type(before) is nn.Parameter and before.requires_grad
    assert before.tolist() == [[7.0, 7.0]] * 3
    assert state["weight"].tolist() == [[7.0, 7.0]] * 3 and not state["weight"].requires_grad


@pytest.mark.usefixtures("swapping")
def test_module_load_returns_another_tensor():
    class Kept(nn.Parameter):
        def module_load(self, other, assign=False):
            return other

    module = nn.Linear(2, 2, bias=False)
    module.weight = Kept(tt.zeros(2, 2))
    with pytest.raises(RuntimeError, match="module_load returned one of self or other"):
        module.load_state_dict({"weight": tt.ones(2, 2)})
