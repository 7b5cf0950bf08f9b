"""Modules as functions of their tensors, by functorch's names, and the exchange of single tensors."""

from __future__ import annotations

from typing import Any

import pytest

import triten as tt
from triten.nn.modules.make_functional import (
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)
from triten.nn.utils._named_member_accessor import set_tensor, swap_tensor


def test_a_module_is_a_function_of_its_parameters() -> None:
    layer = tt.nn.Linear(2, 3)
    function, parameters = make_functional(layer)
    x = tt.ones(4, 2)
    assert tt.equal(function(parameters, x), layer(x)) and list(function.parameters()) != []
    assert all(a is not b for a, b in zip(parameters, layer.parameters(), strict=True))
    doubled = function([2 * each for each in parameters], x)
    assert tt.allclose(doubled, 2 * layer(x))
    gradients = tt.func.grad(lambda given: function(given, x).sum())(parameters)
    assert gradients[0].tolist() == [[4.0, 4.0]] * 3
    with pytest.raises(ValueError, match="shorter"):
        function(parameters[:1], x)
    _, fixed = make_functional(layer, disable_autograd_tracking=True)
    assert not any(each.requires_grad for each in fixed)


def test_buffers_are_arguments_of_their_own() -> None:
    norm = tt.nn.BatchNorm1d(2).eval()
    with pytest.raises(RuntimeError, match="`model` has buffers"):
        make_functional(norm)
    function, parameters, buffers = make_functional_with_buffers(norm)
    x = tt.arange(6.0).reshape(3, 2)
    assert tt.equal(function(parameters, buffers, x), norm(x))


def test_modules_of_one_make_are_an_ensemble() -> None:
    models = [tt.nn.Linear(2, 3) for _ in range(3)]
    function, parameters, buffers = combine_state_for_ensemble(models)
    x = tt.ones(4, 2)
    together = tt.vmap(function, in_dims=(0, 0, None))(parameters, buffers, x)
    assert tt.allclose(together, tt.stack([model(x) for model in models]))


@pytest.mark.parametrize("name", ["weight", "running_mean", "extra"])
def test_a_tensor_is_exchanged_where_it_stands(name: str) -> None:
    norm = tt.nn.BatchNorm1d(2)
    norm.extra = tt.zeros(1)
    before, other = getattr(norm, name), tt.full((2,), 3.0)
    assert swap_tensor(norm, name, other) is before and getattr(norm, name) is other
    assert swap_tensor(norm, name, None) is other and getattr(norm, name) is None


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("a.b", tt.zeros(1), KeyError),
        ("", tt.zeros(1), KeyError),
        ("missing", tt.zeros(1), AttributeError),
        ("training", tt.zeros(1), TypeError),
        ("weight", 3, TypeError),
    ],
)
def test_what_is_no_tensor_is_not_exchanged(name: str, value: Any, error: type[Exception]) -> None:
    norm = tt.nn.BatchNorm1d(2)
    with pytest.raises(error):
        swap_tensor(norm, name, value)
    assert "missing" not in vars(norm) and norm.training is True
    set_tensor(norm, "missing", tt.zeros(1))
    assert norm.missing.shape == (1,)


class Tied(tt.nn.Module):
    """Module with one weight under two names, and one buffer under two."""

    def __init__(self):
        super().__init__()
        self.first = tt.nn.Linear(2, 2, bias=False)
        self.second = tt.nn.Linear(2, 2, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("shift", tt.ones(2))
        self.second.register_buffer("shift", self.shift)

    def forward(self, x):
        return self.second(self.first(x)) + self.shift * self.second.shift


def test_tensors_under_several_names_are_given_once():
    model = Tied()
    function, params, buffers = make_functional_with_buffers(model)
    assert len(params) == len(buffers) == 1
    found = function((tt.eye(2) * 3,), (tt.full((2,), 4.0),), tt.ones(1, 2))
    assert found.tolist() == [[25.0, 25.0]]
    slope = tt.func.grad(lambda p: function(p, buffers, tt.ones(1, 2)).sum())((tt.eye(2) * 3,))[0]
    assert slope.tolist() == [[6.0, 6.0], [6.0, 6.0]]
