"""An optimizer over other parameters and another state, for a block."""

import copy

import pytest

import triten as tt
from triten.optim import swap_in_optimizer_params_and_state


def stepped(optimizer, parameters):
    for parameter in parameters:
        parameter.grad = tt.ones_like(parameter)
    optimizer.step()


@pytest.mark.parametrize("kind", [tt.optim.SGD, tt.optim.Adam])
def test_the_others_are_stepped_and_the_own_stay(kind):
    own = [tt.nn.Parameter(tt.ones(2)), tt.nn.Parameter(tt.ones(3))]
    options = {"momentum": 0.9} if kind is tt.optim.SGD else {}
    optimizer = kind([{"params": own[:1]}, {"params": own[1:], "lr": 0.5}], lr=0.1, **options)
    stepped(optimizer, own)
    before = copy.deepcopy(optimizer.state_dict())
    values = [each.detach().clone() for each in own]
    lists = [group["params"] for group in optimizer.param_groups]

    others = [each.detach().clone().requires_grad_() for each in own]
    given = copy.deepcopy(optimizer.state_dict())
    given["param_groups"][0]["lr"] = 0.25
    with swap_in_optimizer_params_and_state(optimizer, dict(zip("ab", others, strict=True)), given):
        assert optimizer.param_groups[0]["params"][0] is others[0] and optimizer.param_groups[0]["lr"] == 0.25
        stepped(optimizer, others)
    assert all(map(tt.equal, own, values))
    assert [group["params"] for group in optimizer.param_groups] == lists
    assert str(optimizer.state_dict()) == str(before)

    # The same as another optimizer of these parameters and that state gives.
    alone = [each.clone().requires_grad_() for each in values]
    twin = kind([{"params": alone[:1]}, {"params": alone[1:]}], lr=0.1, **options)
    expected = copy.deepcopy(before)
    expected["param_groups"][0]["lr"] = 0.25
    twin.load_state_dict(expected)
    stepped(twin, alone)
    assert all(map(tt.equal, others, alone))


def test_it_has_its_own_again_after_an_error():
    own = tt.nn.Parameter(tt.ones(1))
    optimizer = tt.optim.SGD([own], lr=0.1)
    with (
        pytest.raises(ZeroDivisionError),
        swap_in_optimizer_params_and_state(optimizer, {"a": tt.ones(1)}, optimizer.state_dict()),
    ):
        raise ZeroDivisionError
    assert optimizer.param_groups[0]["params"][0] is own


def test_what_does_not_fit_is_refused():
    optimizer = tt.optim.SGD([tt.nn.Parameter(tt.ones(1))], lr=0.1)
    two = tt.optim.SGD([tt.nn.Parameter(tt.ones(1)), tt.nn.Parameter(tt.ones(1))], lr=0.1)
    with (
        pytest.raises(ValueError, match="got 2 swapin_parameters, expected 1"),
        swap_in_optimizer_params_and_state(
            optimizer, {"a": tt.ones(1), "b": tt.ones(1)}, optimizer.state_dict()
        ),
    ):
        pass
    with (
        pytest.raises(ValueError, match=r"groups of \[2\] parameters, expected \[1\]"),
        swap_in_optimizer_params_and_state(optimizer, {"a": tt.ones(1)}, two.state_dict()),
    ):
        pass
